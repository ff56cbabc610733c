import { expect, test } from 'vitest';
import { RetryBudget } from '../../../src/upstream/retry-budget.ts';

const takenOf = (budget: RetryBudget, tries: number): number =>
  Array.from({ length: tries }, () => budget.take()).filter(Boolean).length;

test('a few calls may be sent again from the start, then one in ten', () => {
  const budget = new RetryBudget();
  expect(takenOf(budget, 10)).toBe(3);
  let taken = 0;
  for (let calls = 0; calls < 1_000; calls++) {
    budget.noteCall();
    if (budget.take()) taken++;
  }
  expect(taken).toBeGreaterThanOrEqual(99);
  expect(taken).toBeLessThanOrEqual(100);
});

test('good times save up for no more than a few', () => {
  const budget = new RetryBudget();
  for (let calls = 0; calls < 10_000; calls++) budget.noteCall();
  expect(takenOf(budget, 100)).toBe(10);
});
