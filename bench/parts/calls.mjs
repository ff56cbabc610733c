// One tool call over each subject, at several numbers of calls in flight.
import { createReadStream } from 'node:fs';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { rssMiB } from '../cpu.mjs';
import { syncMs } from '../disk.mjs';
import { interleave } from '../interleave.mjs';
import { atLeast, atMost, number, range, table } from '../report.mjs';
import { ratioOf, spread, spreadOf } from '../statistics.mjs';
import { countedCalls, startCallgate } from '../subjects/callgate.mjs';
import { startDirect } from '../subjects/direct.mjs';
import { startMcpHub } from '../subjects/mcp-hub.mjs';

const idleMs = 3000;

/** What each kind of call has to reach, by the number of calls in flight. */
const goalsOf = {
  read: (inFlight, { versusDirect, versusHub }) => [
    ...(inFlight === 64
      ? [
          atMost(
            'CPU per read at 64 in flight, times the direct call',
            versusDirect('cpuUsPerCall'),
            3.5,
            2.6,
          ),
          atMost('p99 of a read at 64 in flight, times the direct call', versusDirect('p99Ms'), 1.8),
        ]
      : []),
    ...(inFlight >= 16
      ? [atLeast(`reads/s at ${inFlight} in flight, times mcp-hub`, versusHub('callsPerS'), 2.5, 3)]
      : []),
  ],
  write: (inFlight, { versusDirect, versusHub }) => [
    ...(inFlight === 64
      ? [atMost('CPU per write at 64 in flight, times the direct call', versusDirect('cpuUsPerCall'), 5, 4)]
      : []),
    ...(inFlight >= 64
      ? [atLeast(`writes/s at ${inFlight} in flight, times mcp-hub`, versusHub('callsPerS'), 1.8, 2.3)]
      : []),
  ],
};

export async function measureCalls(folder, options) {
  const direct = await startDirect();
  const callgates = [];
  for (const kind of Object.keys(goalsOf)) {
    const subject = await startCallgate(folder, { classes: { echo: kind } });
    callgates.push({ ...subject, name: `callgate, ${kind}`, kind });
  }
  const hub = await startMcpHub(folder);
  await sleep(idleMs);
  const gateways = [...callgates, hub];
  const subjects = [direct, ...gateways];
  const idle = gateways.map(({ pid }) => rssMiB(pid));
  const samples = await interleave(subjects, options);
  const loaded = gateways.map(({ pid }) => rssMiB(pid));
  const counted = await Promise.all(callgates.map(async ({ metrics }) => countedCalls(await metrics())));
  for (const subject of subjects) await subject.stop();
  for (const [index, { name, logFile }] of callgates.entries()) {
    const logged = await loggedCalls(logFile);
    if (logged !== counted[index] || logged === 0) {
      throw new Error(
        `${name} logged ${logged} calls and counted ${counted[index]}: log and metrics must both be on`,
      );
    }
  }

  const rows = options.inFlight.flatMap((inFlight) =>
    subjects.map(({ name: subject }) => {
      const figure = (name) => spreadOf(samples, subject, inFlight, name);
      return [
        subject,
        inFlight,
        range(figure('cpuUsPerCall')),
        range(figure('callsPerS')),
        number(figure('p50Ms').median, 2),
        number(figure('p99Ms').median, 2),
      ];
    }),
  );
  const compared = callgates.flatMap(({ name, kind }) =>
    options.inFlight.map((inFlight) => ({
      kind,
      inFlight,
      versusDirect: (figure) => ratioOf(samples, [name, direct.name], inFlight, figure),
      versusHub: (figure) => ratioOf(samples, [name, hub.name], inFlight, figure),
    })),
  );

  return {
    title: 'Calls',
    text: [
      table(['subject', 'in flight', 'CPU us per call', 'calls/s', 'p50 ms', 'p99 ms'], rows),
      table(
        [
          'callgate',
          'in flight',
          'CPU: callgate / direct',
          'p99: callgate / direct',
          'calls/s: callgate / mcp-hub',
          'CPU: callgate / mcp-hub',
        ],
        compared.map(({ kind, inFlight, versusDirect, versusHub }) => [
          kind,
          inFlight,
          range(versusDirect('cpuUsPerCall'), 2),
          range(versusDirect('p99Ms'), 2),
          range(versusHub('callsPerS'), 2),
          range(versusHub('cpuUsPerCall'), 2),
        ]),
      ),
      table(
        ['resident memory, MiB', 'idle', 'after the load'],
        gateways.map(({ name }, index) => [name, number(idle[index], 0), number(loaded[index], 0)]),
      ),
      `Writing one page and its sync take ${range(syncMs(folder), 2)} ms on this disk.`,
      `Both callgates logged each of their ${counted.join(' and ')} calls and counted as many in their metrics.`,
    ],
    goals: [
      ...compared.flatMap((comparison) => goalsOf[comparison.kind](comparison.inFlight, comparison)),
      atMost('idle memory, MiB', spread(idle.slice(0, callgates.length)), 90),
    ],
  };
}

async function loggedCalls(logFile) {
  let calls = 0;
  for await (const line of createInterface({ input: createReadStream(logFile) })) {
    if (line.includes('"event":"call.finished"')) calls += 1;
  }
  return calls;
}
