import { expect, test } from 'vitest';
import { FloodWatch } from '../../../src/upstream/flood-watch.ts';

function watch() {
  let nowMs = 0;
  const flood = new FloodWatch(() => nowMs);
  /** Writes so many lines over one second, and says whether the flood was too long at its end. */
  return (lines: number): boolean => {
    const startedMs = nowMs;
    let isOver = false;
    for (let line = 1; line <= lines; line += 1) {
      nowMs = startedMs + (1_000 * line) / lines;
      isOver = flood.note();
    }
    return isOver;
  };
}

test('a flood is over the bound after five seconds of it in a row', () => {
  const second = watch();
  expect([1, 2, 3, 4, 5].map(() => second(60_000))).toEqual([false, false, false, false, true]);
});

test('a burst, and any number of lines under the bound, are none', () => {
  const second = watch();
  for (let round = 0; round < 20; round += 1) {
    expect([second(200_000), second(200_000), second(40_000), second(1)]).toEqual([
      false,
      false,
      false,
      false,
    ]);
  }
});
