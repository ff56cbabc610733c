// Ten servers, one of which is dead, hangs or is slow, beside ten good ones: what the callers of the other nine notice. The tenth
// is called all the time too, at a pace that its answers do not change.
import { setTimeout as sleep } from 'node:timers/promises';
import { interleave } from '../interleave.mjs';
import { rawServer } from '../processes.mjs';
import { atMost, number, range, table } from '../report.mjs';
import { ratioOf, spreadOf } from '../statistics.mjs';
import { startCallgate } from '../subjects/callgate.mjs';

const nine = Array.from({ length: 9 }, (_, index) => `good${index + 1}`);
const tenth = 'tenth';
const inFlight = nine.length;
const gapMs = 20;
/** Half of it would be enough for the slow one. */
const timeoutMs = 400;
/** Tails are at the mercy of whatever else runs: of more and shorter slices the median is steadier. */
const moreRounds = 4;
const good = 'ten good servers';
const moods = { dies: 'one is dead', hangs: 'one hangs', slow: 'one is slow' };

export async function measureBulkhead(folder, { rounds, seconds }) {
  const subjects = [await startTen(folder, good)];
  for (const [mood, name] of Object.entries(moods)) subjects.push(await startTen(folder, name, mood));
  const samples = await interleave(subjects, {
    rounds: moreRounds * rounds,
    seconds: seconds / 2,
    inFlight: [inFlight],
  });
  for (const subject of subjects) await subject.stop();

  const ratio = (name, key) => ratioOf(samples, [name, good], inFlight, key);
  return {
    title: 'One bad server of ten',
    text: [
      table(
        ['calls to the other nine', 'calls/s', 'p50 ms', 'p99 ms', 'p50: ratio', 'p99: ratio'],
        subjects.map(({ name }) => [
          name,
          range(spreadOf(samples, name, inFlight, 'callsPerS')),
          number(spreadOf(samples, name, inFlight, 'p50Ms').median, 2),
          number(spreadOf(samples, name, inFlight, 'p99Ms').median, 2),
          range(ratio(name, 'p50Ms'), 2),
          range(ratio(name, 'p99Ms'), 2),
        ]),
      ),
    ],
    goals: Object.values(moods).flatMap((name) => [
      atMost(`p50 of nine servers while ${name}, times that with ten good ones`, ratio(name, 'p50Ms'), 1.1),
      atMost(`p99 of nine servers while ${name}, times that with ten good ones`, ratio(name, 'p99Ms'), 1.25),
    ]),
  };
}

async function startTen(folder, name, ...mood) {
  const aliases = [...nine, tenth];
  const perAlias = (value) => Object.fromEntries(aliases.map((alias) => [alias, value(alias)]));
  const callgate = await startCallgate(folder, {
    classes: perAlias(() => 'read'),
    servers: perAlias((alias) => (alias === tenth ? rawServer(...mood) : rawServer())),
    settings: perAlias(() => ({ timeoutMs })),
  });
  const load = async (shape) => {
    const [result] = await Promise.all([callgate.loadOver(nine, shape), callTenth(callgate, shape)]);
    return result;
  };
  return { ...callgate, name, load };
}

async function callTenth({ post }, { seconds }) {
  const endMs = performance.now() + seconds * 1000;
  const calls = [];
  while (performance.now() < endMs) {
    calls.push(post(tenth));
    await sleep(gapMs);
  }
  await Promise.all(calls);
}
