import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { LedgerUnavailable } from '../../../src/dispatch/ports.ts';
import { Gate } from '../../../src/ledger/postgres-gate.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const newGate = (): Gate => new Gate({ insideMax: 2, waitingMax: 2, waitMaxMs: 1_000, refusal: 'too many' });

test('a gate lets a few in, the next ones in their order, and refuses the others', async () => {
  const gate = newGate();
  const came: number[] = [];
  const entering = [1, 2, 3, 4].map((who) => gate.enter().then(() => came.push(who)));
  await expect(gate.enter()).rejects.toEqual(new LedgerUnavailable('too many'));
  await Promise.all(entering.slice(0, 2));
  expect(came).toEqual([1, 2]);
  gate.leave();
  await entering[2];
  expect(came).toEqual([1, 2, 3]);
  gate.leave();
  await entering[3];
  gate.leave();
  gate.leave();
  await Promise.all([gate.enter(), gate.enter()]);
  expect(vi.getTimerCount()).toBe(0);
});

test('a gate lets nobody wait for long, and keeps no place for them', async () => {
  const gate = newGate();
  await Promise.all([gate.enter(), gate.enter()]);
  const late = expect(gate.enter()).rejects.toThrow('too many');
  await vi.advanceTimersByTimeAsync(1_000);
  await late;
  gate.leave();
  await gate.enter();
});
