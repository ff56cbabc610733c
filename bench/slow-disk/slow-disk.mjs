// A disk whose syncs take longer than they do here: a small library, compiled when it is needed, waits before each of them.
import { execFile } from 'node:child_process';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const run = promisify(execFile);
const source = fileURLToPath(new URL('slow-sync.c', import.meta.url));

/** The environment of a program whose syncs shall take `delayMs` longer; undefined where there is no C compiler. */
export async function slowDisk(folder, delayMs) {
  const library = path.join(folder, 'slow-sync.so');
  try {
    await run('cc', ['-shared', '-fPIC', '-O2', `-DDELAY_MS=${delayMs}`, '-o', library, source]);
  } catch (error) {
    if (error.code === 'ENOENT') return undefined;
    throw error;
  }
  return { LD_PRELOAD: library };
}
