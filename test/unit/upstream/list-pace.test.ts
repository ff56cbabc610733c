import { expect, test } from 'vitest';
import { ListPace } from '../../../src/upstream/list-pace.ts';

/** Looks of a server that sends a notice whenever it can, each look taking so long: the times at which they begin. */
function flood(lookMs: number, untilMs: number): number[] {
  const pace = new ListPace();
  const starts: number[] = [];
  let nowMs = 0;
  for (;;) {
    nowMs += pace.waitMs(nowMs);
    if (nowMs > untilMs) return starts;
    starts.push(nowMs);
    pace.looked(nowMs, nowMs + lookMs);
    nowMs += lookMs;
  }
}

test('the first notice is answered after 100 ms', () => {
  expect(new ListPace().waitMs(5_000)).toBe(100);
});

test('notices without end are answered in gaps that grow up to 30 s', () => {
  const starts = flood(1, 600_000);
  const gaps = starts.slice(1).map((start, index) => start - (starts[index] ?? 0) - 1);
  expect(gaps.slice(0, 4)).toEqual([100, 200, 400, 800]);
  expect(gaps.at(-1)).toBe(30_000);
  expect(starts.length).toBeLessThan(32);
});

test('a look that takes long is followed by a rest of ten times that', () => {
  expect(flood(500, 6_000)).toEqual([100, 5_600]);
  expect(flood(20_000, 60_000)).toEqual([100, 50_100]);
});

test('after a pause the gap is small again', () => {
  const pace = new ListPace();
  for (let look = 0, nowMs = 0; look < 10; look++) {
    nowMs += pace.waitMs(nowMs);
    pace.looked(nowMs, nowMs);
  }
  expect(pace.waitMs(600_000)).toBe(100);
  pace.looked(600_100, 600_100);
  expect(pace.waitMs(600_100)).toBe(100);
});
