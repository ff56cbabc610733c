import { describe, expect, test } from 'vitest';
import { inSlices } from '../../src/in-slices.ts';

/** Takes 5 ms for each step, whatever the machine. */
function* slowSteps(count: number): Generator<void, string> {
  for (let step = 0; step < count; step++) {
    for (const endMs = performance.now() + 5; performance.now() < endMs; );
    yield;
  }
  return 'done';
}

describe('long work in slices', () => {
  test('lets everybody else have the event loop in between (SC-9)', async () => {
    let turns = 0;
    let isOver = false;
    const look = (): void => {
      turns++;
      if (!isOver) setImmediate(look);
    };
    setImmediate(look);
    expect(await inSlices(slowSteps(20), () => true)).toBe('done');
    isOver = true;
    expect(turns).toBeGreaterThanOrEqual(5);
  });

  test('is whole before anybody else has a turn where it is short', () => {
    let steps = 0;
    function* short(): Generator<void, void> {
      for (; steps < 3; steps++) yield;
    }
    void inSlices(short(), () => true);
    expect(steps).toBe(3);
  });

  test('ends early when nobody wants its result any more', async () => {
    let looks = 0;
    expect(await inSlices(slowSteps(20), () => ++looks < 3)).toBeUndefined();
    expect(looks).toBe(3);
  });
});
