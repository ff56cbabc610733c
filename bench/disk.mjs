// How long the disk under a folder takes to sync what was written, so that a report says what its durable figures stand on.
import { closeSync, fdatasyncSync, openSync, writeSync } from 'node:fs';
import path from 'node:path';
import { performance } from 'node:perf_hooks';
import { spread } from './statistics.mjs';

const times = 100;
const page = Buffer.alloc(4096, 1);

/** Milliseconds that one page and its sync take. */
export function syncMs(folder) {
  const file = openSync(path.join(folder, 'sync'), 'w');
  const tookMs = [];
  for (let time = 0; time < times; time += 1) {
    const startedMs = performance.now();
    writeSync(file, page);
    fdatasyncSync(file);
    tookMs.push(performance.now() - startedMs);
  }
  closeSync(file);
  return spread(tookMs);
}
