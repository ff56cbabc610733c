// Fills an SQLite ledger by way of the ledger itself: finished writes of many actors, as an hour of work leaves them.
import { hash } from 'node:crypto';
import { performance } from 'node:perf_hooks';
import { newUuidV7 } from '../dist/ids.js';
import { openLedger } from '../dist/ledger/open.js';

const hourMs = 3_600_000;
const actors = 100;
const together = 1000;

const outcome = {
  status: 'succeeded',
  result: { content: [{ type: 'text', text: 'a short text that comes back' }], isError: false },
};

/** Resolves with the milliseconds that it took. */
export async function fillLedger(file, count) {
  const startedMs = performance.now();
  const ledger = await openLedger(
    {
      store: { kind: 'sqlite', file },
      outputRetentionMs: 24 * hourMs,
      readOutputRetentionMs: hourMs / 4,
      tombstoneRetentionMs: 7 * 24 * hourMs,
      bytesMax: 1_073_741_824,
      actorBytesMax: 268_435_456,
      actorRecordsMax: 1_000_000,
    },
    {
      nowMs: Date.now,
      log: { info() {}, warn: console.error, error: console.error },
      isHeld: () => false,
      onCancelRequested() {},
    },
  );
  const fromMs = Date.now() - hourMs;
  for (let first = 0; first < count; first += together) {
    const calls = Array.from({ length: Math.min(together, count - first) }, (_, index) =>
      recordedCall(first + index, fromMs + Math.floor(((first + index) / count) * hourMs)),
    );
    await Promise.all(
      calls.map(async (call) => {
        const claimed = await ledger.claim(call, 'started');
        const isSettled = await ledger.settle(claimed.claim, {
          outcome,
          attempts: 1,
          atMs: call.createdAtMs + 5,
        });
        if (!isSettled) throw new Error('a record could not be settled');
      }),
    );
  }
  await ledger.close();
  return performance.now() - startedMs;
}

function recordedCall(number, createdAtMs) {
  const actor = JSON.stringify(['https://idp.bench.invalid/', 'user', `user-${number % actors}`, 'bench']);
  const callId = `call_${number}`;
  return {
    id: newUuidV7(createdAtMs),
    key: hash('sha256', JSON.stringify([actor, null, null, callId]), 'base64url'),
    fingerprint: hash('sha256', callId, 'base64url'),
    actor,
    run: undefined,
    turn: undefined,
    callId,
    name: 'pay__echo',
    tool: {
      name: 'echo',
      target: { alias: 'pay', tool: 'echo', class: 'write' },
      isRepeatable: false,
      render: undefined,
    },
    createdAtMs,
  };
}
