import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { LedgerTrouble } from '../../../src/telemetry/ledger-trouble.ts';

const lines: object[] = [];
const log = {
  info: () => {},
  warn: () => {},
  error: (event: string, fields: object) => void lines.push({ event, ...fields }),
};

beforeEach(() => {
  lines.length = 0;
  vi.useFakeTimers();
});
afterEach(() => void vi.useRealTimers());

test('a ledger that is down is told at once, then once a second, with the number of what is left out', () => {
  const trouble = new LedgerTrouble(log);
  for (let number = 0; number < 1_000; number += 1) trouble.tell({ during: 'claim', reason: `r${number}` });
  trouble.tell({ during: 'settle', reason: 'other kind' });
  expect(lines).toEqual([
    { event: 'ledger.failed', during: 'claim', reason: 'r0' },
    { event: 'ledger.failed', during: 'settle', reason: 'other kind' },
  ]);
  vi.advanceTimersByTime(1_000);
  expect(lines.slice(2)).toEqual([
    { event: 'ledger.failed', during: 'claim', reason: 'r999', left_out: 999 },
  ]);
  trouble.tell({ during: 'claim', reason: 'still' });
  expect(lines).toHaveLength(3);
  vi.advanceTimersByTime(1_000);
  expect(lines.slice(3)).toEqual([{ event: 'ledger.failed', during: 'claim', reason: 'still', left_out: 1 }]);
});

test('after a second of quiet the next one is told at once, and no timer is left', () => {
  const trouble = new LedgerTrouble(log);
  trouble.tell({ during: 'find', reason: 'a' });
  vi.advanceTimersByTime(1_000);
  expect(vi.getTimerCount()).toBe(0);
  trouble.tell({ during: 'find', reason: 'b' });
  expect(lines).toHaveLength(2);
});

test('what is left is told before the process ends', () => {
  const trouble = new LedgerTrouble(log);
  for (const reason of ['a', 'b', 'c']) trouble.tell({ during: 'record', reason });
  trouble.flush();
  expect(lines[1]).toEqual({ event: 'ledger.failed', during: 'record', reason: 'c', left_out: 2 });
  trouble.flush();
  expect([lines.length, vi.getTimerCount()]).toEqual([2, 0]);
});
