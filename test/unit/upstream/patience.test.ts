import { getEventListeners } from 'node:events';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { pause, withPatience } from '../../../src/upstream/patience.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const never = new Promise<void>(() => {});

test('a wait ends with the work, whatever comes of it, with the time, or with the signal, and leaves nothing', async () => {
  const { signal, abort } = controller();
  await withPatience(Promise.resolve(), 1_000, signal);
  await withPatience(Promise.reject(new Error('failed')), 1_000, signal);
  const timed = withPatience(never, 1_000, signal);
  vi.advanceTimersByTime(1_000);
  await timed;
  expect(getEventListeners(signal, 'abort')).toEqual([]);
  const ended = [withPatience(never, 1_000, signal), pause(1_000, signal)];
  abort();
  await Promise.all(ended);
  await pause(1_000, signal);
  expect(getEventListeners(signal, 'abort')).toEqual([]);
  expect(vi.getTimerCount()).toBe(0);
});

function controller(): { signal: AbortSignal; abort: () => void } {
  const own = new AbortController();
  return { signal: own.signal, abort: () => own.abort() };
}
