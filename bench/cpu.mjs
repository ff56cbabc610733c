// What a process uses, read from /proc (Linux).
import { readdirSync, readFileSync } from 'node:fs';

/** CPU time of a process in microseconds: the scheduler's nanosecond counters of its threads, added up. */
export function cpuUs(pid) {
  let ns = 0;
  for (const thread of readdirSync(`/proc/${pid}/task`)) {
    try {
      ns += Number(readFileSync(`/proc/${pid}/task/${thread}/schedstat`, 'utf8').split(' ', 1)[0]);
    } catch {
      // The thread ended after it was listed.
    }
  }
  return ns / 1000;
}

/** Resident memory of a process in MiB. */
export function rssMiB(pid) {
  const [, kiB] = readFileSync(`/proc/${pid}/status`, 'utf8').match(/^VmRSS:\s+(\d+)/m);
  return Number(kiB) / 1024;
}
