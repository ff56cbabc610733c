import { expect, test } from 'vitest';
import { trendOf } from '../../chaos/trend.ts';

const samples = (values: readonly number[]): { atMs: number; value: number }[] =>
  values.map((value, index) => ({ atMs: index * 1_000, value }));

test('a leak shows in the slope and between the quarters', () => {
  const { first, last, perHour } = trendOf(samples(Array.from({ length: 100 }, (_, index) => 50 + index)));
  expect([first, last, Math.round(perHour)]).toEqual([62, 137, 3_600]);
});

test('single peaks do not count', () => {
  const { first, last } = trendOf(samples([10, 10, 900, 10, 10, 10, 10, 10, 10, 10, 700, 10]));
  expect([first, last]).toEqual([10, 10]);
});
