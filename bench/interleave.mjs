// Subjects that are compared run side by side in small slices, one after another, in an order that changes with each round. What
// else happens on the machine then meets all of them alike, and ratios inside one round can be trusted.
import { performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import { cpuUs } from './cpu.mjs';

const usualWarmUp = { inFlight: 64, seconds: 2 };

/** Resolves with one sample for each round, subject and number of calls in flight. */
export async function interleave(subjects, { rounds, seconds, inFlight, warmUp = usualWarmUp }) {
  const samples = [];
  for (const subject of subjects) {
    await subject.load(warmUp);
    await cpuUsAtRest(subject.pid);
  }
  for (let round = 0; round < rounds; round += 1) {
    for (const count of inFlight) {
      for (let turn = 0; turn < subjects.length; turn += 1) {
        const subject = subjects[(turn + round) % subjects.length];
        const before = cpuUs(subject.pid);
        const result = await subject.load({ inFlight: count, seconds });
        const cpuUsPerCall = ((await cpuUsAtRest(subject.pid)) - before) / result.calls;
        samples.push({ subject: subject.name, round, inFlight: count, ...result, cpuUsPerCall });
      }
    }
  }
  return samples;
}

const lookAgainMs = 20;
const restUsMax = 1_000;
const restMsMax = 5_000;

/**
 * The CPU time of a process once it has done what it put off: records and log lines that no answer waits for belong to the
 * calls of a slice too, and must not be charged to the next one.
 */
async function cpuUsAtRest(pid) {
  const sinceMs = performance.now();
  let used = cpuUs(pid);
  while (performance.now() - sinceMs < restMsMax) {
    await sleep(lookAgainMs);
    const now = cpuUs(pid);
    if (now - used < restUsMax) return now;
    used = now;
  }
  throw new Error(`process ${pid} was still busy ${restMsMax} ms after its last answer`);
}
