// One tool call over each subject, at several numbers of calls in flight.
import { createReadStream } from 'node:fs';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { rssMiB } from '../cpu.mjs';
import { interleave } from '../interleave.mjs';
import { atLeast, atMost, number, range, table } from '../report.mjs';
import { ratioOf, spread, spreadOf } from '../statistics.mjs';
import { startCallgate } from '../subjects/callgate.mjs';
import { startDirect } from '../subjects/direct.mjs';
import { startMcpHub } from '../subjects/mcp-hub.mjs';

const idleMs = 3000;

export async function measureCalls(folder, options) {
  const direct = await startDirect();
  const callgate = await startCallgate(folder);
  const hub = await startMcpHub(folder);
  await sleep(idleMs);
  const gateways = [callgate, hub];
  const idle = gateways.map(({ pid }) => rssMiB(pid));
  const samples = await interleave([direct, ...gateways], options);
  const loaded = gateways.map(({ pid }) => rssMiB(pid));
  const counted = await callgate.countedCalls();
  for (const subject of [direct, ...gateways]) await subject.stop();
  const logged = await loggedCalls(callgate.logFile);
  if (logged !== counted || logged === 0) {
    throw new Error(
      `callgate logged ${logged} calls and counted ${counted}: log and metrics must both be on`,
    );
  }

  const rows = options.inFlight.flatMap((inFlight) =>
    ['direct', 'callgate', 'mcp-hub'].map((subject) => {
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
  const versusDirect = (inFlight, name) => ratioOf(samples, ['callgate', 'direct'], inFlight, name);
  const versusHub = (inFlight, name) => ratioOf(samples, ['callgate', 'mcp-hub'], inFlight, name);
  const ratios = options.inFlight.map((inFlight) => [
    inFlight,
    range(versusDirect(inFlight, 'cpuUsPerCall'), 2),
    range(versusDirect(inFlight, 'p99Ms'), 2),
    range(versusHub(inFlight, 'callsPerS'), 2),
    range(versusHub(inFlight, 'cpuUsPerCall'), 2),
  ]);

  const goals = [];
  for (const inFlight of options.inFlight) {
    if (inFlight === 64) {
      goals.push(
        atMost(
          'CPU per call at 64 in flight, times the direct call',
          versusDirect(64, 'cpuUsPerCall'),
          4.5,
          3.5,
        ),
        atMost('p99 at 64 in flight, times the direct call', versusDirect(64, 'p99Ms'), 1.8),
      );
    }
    if (inFlight >= 16) {
      goals.push(
        atLeast(`calls/s at ${inFlight} in flight, times mcp-hub`, versusHub(inFlight, 'callsPerS'), 2.5, 3),
      );
    }
  }
  goals.push(atMost('idle memory, MiB', spread([idle[0]]), 90));

  return {
    title: 'Calls',
    text: [
      table(['subject', 'in flight', 'CPU us per call', 'calls/s', 'p50 ms', 'p99 ms'], rows),
      table(
        [
          'in flight',
          'CPU: callgate / direct',
          'p99: callgate / direct',
          'calls/s: callgate / mcp-hub',
          'CPU: callgate / mcp-hub',
        ],
        ratios,
      ),
      table(
        ['resident memory, MiB', 'idle', 'after the load'],
        gateways.map(({ name }, index) => [name, number(idle[index], 0), number(loaded[index], 0)]),
      ),
      `callgate logged each of its ${logged} calls and counted as many in its metrics.`,
    ],
    goals,
  };
}

async function loggedCalls(logFile) {
  let calls = 0;
  for await (const line of createInterface({ input: createReadStream(logFile) })) {
    if (line.includes('"event":"call.finished"')) calls += 1;
  }
  return calls;
}
