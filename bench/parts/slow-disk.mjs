// Writes on a disk whose syncs take 5 ms longer: calls share their syncs, and the event loop waits for none of them.
import { atMost, notMeasured, range, table } from '../report.mjs';
import { slowDisk } from '../slow-disk/slow-disk.mjs';
import { spread } from '../statistics.mjs';
import { startCallgate } from '../subjects/callgate.mjs';

const syncMs = 5;
const inFlight = 64;
const title = `A disk with ${syncMs} ms more for each sync`;
const goalNames = {
  write: `p99 of a write at ${inFlight} in flight, in syncs (${syncMs} ms more each)`,
  read: 'p50 of a lone read beside these writes, ms',
};

export async function measureSlowDisk(folder, { rounds, seconds }) {
  const env = await slowDisk(folder, syncMs);
  if (env === undefined) {
    return notMeasured(
      title,
      Object.values(goalNames),
      'there is no C compiler (cc) to make the disk slow with',
    );
  }
  const callgate = await startCallgate(folder, { classes: { pay: 'write', look: 'read' }, env });
  await callgate.load({ inFlight, seconds: 2 });
  const alone = [];
  const writes = [];
  const reads = [];
  const delaysMs = [];
  for (let round = 0; round < rounds; round += 1) {
    alone.push(await callgate.load({ inFlight: 1, seconds }));
    // Each scrape begins a new measurement of the event loop.
    await callgate.metrics();
    const shape = { inFlight, seconds };
    const [write, read] = await Promise.all([
      callgate.load(shape),
      callgate.loadOf('look', { ...shape, inFlight: 1 }),
    ]);
    delaysMs.push(eventLoopDelayMs(await callgate.metrics()));
    writes.push(write);
    reads.push(read);
  }
  await callgate.stop();
  // A lone write waits for two syncs, and for little else.
  const syncsMs = alone.map(({ p50Ms }) => p50Ms / 2);
  if (Math.min(...syncsMs) < syncMs) {
    throw new Error(
      `a sync took ${Math.min(...syncsMs)} ms: the disk was not slow, or writes are not durable`,
    );
  }

  const figure = (results, name) => spread(results.map((result) => result[name]));
  const row = (name, results) => [
    name,
    range(figure(results, 'callsPerS')),
    range(figure(results, 'p50Ms'), 1),
    range(figure(results, 'p99Ms'), 1),
  ];
  return {
    title,
    text: [
      table(
        ['', 'calls/s', 'p50 ms', 'p99 ms'],
        [
          row('a lone write', alone),
          row(`writes, ${inFlight} in flight`, writes),
          row('a lone read beside these', reads),
        ],
      ),
      `A sync, as half of a lone write, took ${range(spread(syncsMs), 1)} ms.`,
      `While the writes ran, the event loop was late by ${range(spread(delaysMs), 1)} ms at the 99th percentile.`,
    ],
    goals: [
      atMost(goalNames.write, spread(writes.map(({ p99Ms }, round) => p99Ms / syncsMs[round])), 8),
      atMost(goalNames.read, figure(reads, 'p50Ms'), syncMs),
    ],
  };
}

// The service looks every 10 ms, and counts these as part of the delay.
const lookEveryMs = 10;

function eventLoopDelayMs(metrics) {
  const [, seconds] = metrics.match(/^nodejs_eventloop_lag_p99_seconds (\S+)$/m);
  return Number(seconds) * 1000 - lookEveryMs;
}
