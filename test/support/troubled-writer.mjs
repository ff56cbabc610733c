// The thread that writes the ledger, in trouble: it dies, or stops for a while, before a batch that names an actor
// called so, or a tool list of a server called so (its listener comes before the real one). What it then does not write was never in its hands, as with a real death.
import { parentPort } from 'node:worker_threads';

parentPort.on('message', (request) => {
  const names = request.batch ?? [request.row?.alias];
  if (names.includes('dies')) process.exit(3);
  if (names.includes('stops')) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1_500);
});

await import('../../dist/ledger/sqlite-worker.js');
