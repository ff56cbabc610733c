import { getEventListeners } from 'node:events';
import { expect, test } from 'vitest';
import { Bulkhead } from '../../../src/upstream/bulkhead.ts';

test('places are given in the order of asking, and never more than there are', async () => {
  const bulkhead = new Bulkhead(2, 10);
  expect([bulkhead.tryEnter(), bulkhead.tryEnter(), bulkhead.tryEnter()]).toEqual([true, true, false]);
  const order: number[] = [];
  const waiting = [1, 2, 3].map((n) => bulkhead.enter(60_000).then((entry) => order.push(n) && entry));
  for (let n = 0; n < 3; n++) bulkhead.leave();
  expect(await Promise.all(waiting)).toEqual(['entered', 'entered', 'entered']);
  expect(order).toEqual([1, 2, 3]);
  expect(bulkhead.tryEnter()).toBe(false);
  bulkhead.leave();
  expect(bulkhead.tryEnter()).toBe(true);
});

test('who finds the queue full is sent away, and who waits too long leaves it', async () => {
  const bulkhead = new Bulkhead(1, 1);
  bulkhead.tryEnter();
  const late = bulkhead.enter(1);
  expect(await bulkhead.enter(60_000)).toBe('full');
  expect(await late).toBe('timed_out');
  const waiting = bulkhead.enter(60_000);
  bulkhead.close();
  expect(await waiting).toBe('closed');
  bulkhead.leave();
  expect(bulkhead.tryEnter()).toBe(true);
});

test('who is cancelled leaves the queue at once, and no listener behind', async () => {
  const bulkhead = new Bulkhead(1, 2);
  expect(bulkhead.hasRoom).toBe(true);
  bulkhead.tryEnter();
  expect(bulkhead.hasRoom).toBe(false);
  const [first, second] = [new AbortController(), new AbortController()];
  const cancelled = bulkhead.enter(60_000, first.signal);
  const entered = bulkhead.enter(60_000, second.signal);
  first.abort();
  expect(await cancelled).toBe('cancelled');
  bulkhead.leave();
  expect(await entered).toBe('entered');
  expect(getEventListeners(second.signal, 'abort')).toEqual([]);
  expect(await bulkhead.enter(60_000, first.signal)).toBe('cancelled');
  bulkhead.leave();
  expect(bulkhead.hasRoom).toBe(true);
});
