// Subjects that are compared run side by side in small slices, one after another, in an order that changes with each round. What
// else happens on the machine then meets all of them alike, and ratios inside one round can be trusted.
import { cpuUs } from './cpu.mjs';

const warmUp = { inFlight: 64, seconds: 2 };

/** Resolves with one sample for each round, subject and number of calls in flight. */
export async function interleave(subjects, { rounds, seconds, inFlight }) {
  const samples = [];
  for (const subject of subjects) await subject.load(warmUp);
  for (let round = 0; round < rounds; round += 1) {
    for (const count of inFlight) {
      for (let turn = 0; turn < subjects.length; turn += 1) {
        const subject = subjects[(turn + round) % subjects.length];
        const before = cpuUs(subject.pid);
        const result = await subject.load({ inFlight: count, seconds });
        const cpuUsPerCall = (cpuUs(subject.pid) - before) / result.calls;
        samples.push({ subject: subject.name, round, inFlight: count, ...result, cpuUsPerCall });
      }
    }
  }
  return samples;
}
