import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { retryAfterMs } from '../../../src/upstream/http/http-body.ts';

beforeEach(() => void vi.useFakeTimers({ now: Date.parse('2026-05-01T00:00:00Z') }));
afterEach(() => void vi.useRealTimers());

test.each([
  ['0', 0],
  ['120', 120_000],
  ['Fri, 01 May 2026 00:00:30 GMT', 30_000],
  ['Thu, 30 Apr 2026 00:00:00 GMT', 0],
  ['99999999999999999999', 86_400_000],
  ['soon', undefined],
  [undefined, undefined],
  [['1', '2'], undefined],
])('Retry-After: %s', (value, expected) => {
  expect(retryAfterMs(value)).toBe(expected);
});
