import { expect, test } from 'vitest';
import { GivenUp } from '../../../src/upstream/given-up.ts';

const hourMs = 3_600_000;

test('what was given up is found once, within its time', () => {
  let nowMs = 0;
  const givenUp = new GivenUp<string>(() => nowMs);
  givenUp.add(1, 'a');
  givenUp.add(2, 'b');
  expect([givenUp.take(1), givenUp.take(1), givenUp.take(3)]).toEqual(['a', undefined, undefined]);
  nowMs = hourMs;
  expect(givenUp.take(2)).toBeUndefined();
  expect(givenUp.size).toBe(0);
});

test('the oldest are forgotten, for their age and for their number', () => {
  let nowMs = 0;
  const givenUp = new GivenUp<number>(() => nowMs);
  for (let id = 0; id < 5_000; id++) givenUp.add(id, id);
  expect(givenUp.size).toBe(1_000);
  expect([givenUp.take(3_999), givenUp.take(4_000)]).toEqual([undefined, 4_000]);
  nowMs = hourMs;
  givenUp.add(9_000, 9_000);
  expect(givenUp.size).toBe(1);
});
