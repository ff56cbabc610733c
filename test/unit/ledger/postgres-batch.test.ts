import { DatabaseError } from 'pg';
import { describe, expect, test } from 'vitest';
import { LedgerUnavailable } from '../../../src/dispatch/ports.ts';
import { Batcher } from '../../../src/ledger/postgres-batch.ts';

/** A batcher whose batches end when the test says so. */
function batcher() {
  const batches: { readonly inputs: readonly number[]; readonly end: () => void }[] = [];
  const batched = new Batcher<number, number>({
    run: (inputs) =>
      new Promise((resolve) => {
        batches.push({ inputs, end: () => resolve(inputs.map((input) => -input)) });
      }),
  });
  return { batched, batches };
}

const nextTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

describe('a batcher', () => {
  test('sends a lone operation in the same turn, and those of one turn together', async () => {
    const { batched, batches } = batcher();
    const lone = batched.add(1);
    await nextTurn();
    expect(batches.map(({ inputs }) => inputs)).toEqual([[1]]);
    const two = [batched.add(2), batched.add(3)];
    await nextTurn();
    expect(batches.map(({ inputs }) => inputs)).toEqual([[1], [2, 3]]);
    for (const { end } of batches) end();
    expect(await Promise.all([lone, ...two])).toEqual([-1, -2, -3]);
  });

  test('has two batches on their way at most, while the next one gathers', async () => {
    const { batched, batches } = batcher();
    const results: Promise<number>[] = [];
    for (const input of [1, 2, 3, 4, 5]) {
      results.push(batched.add(input));
      await nextTurn();
    }
    expect(batches.map(({ inputs }) => inputs)).toEqual([[1], [2]]);
    batches[1]?.end();
    await nextTurn();
    expect(batches.map(({ inputs }) => inputs)).toEqual([[1], [2], [3, 4, 5]]);
    for (const { end } of batches) end();
    expect(await Promise.all(results)).toEqual([-1, -2, -3, -4, -5]);
    await batched.idle();
  });

  test('sends nothing while it is held, and fails what waits when it is told to', async () => {
    const { batched, batches } = batcher();
    batched.hold();
    const rejected = expect(batched.add(1)).rejects.toThrow('gone');
    await nextTurn();
    expect(batches).toEqual([]);
    batched.rejectWaiting(new LedgerUnavailable('gone'));
    await rejected;
    batched.release();
    const kept = batched.add(2);
    await nextTurn();
    batches[0]?.end();
    expect(await kept).toBe(-2);
  });

  test('takes only so many that wait', async () => {
    const { batched, batches } = batcher();
    batched.hold();
    const waiting = Array.from({ length: 20_000 }, (_, input) => batched.add(input));
    await expect(batched.add(0)).rejects.toBeInstanceOf(LedgerUnavailable);
    batched.release();
    while (batches.length < 40) {
      for (const { end } of batches) end();
      await nextTurn();
    }
    for (const { end } of batches) end();
    expect(await Promise.all(waiting)).toHaveLength(20_000);
    expect(Math.max(...batches.map(({ inputs }) => inputs.length))).toBeLessThanOrEqual(512);
  });

  test('runs the operations of a batch one by one when a value in it is at fault', async () => {
    const batched = new Batcher<number, number>({
      run: async (inputs) => {
        if (!inputs.includes(2)) return inputs;
        throw Object.assign(new DatabaseError('a bad value', 0, 'error'), { code: '22021' });
      },
    });
    const results = await Promise.allSettled([1, 2, 3].map((input) => batched.add(input)));
    expect(results).toMatchObject([{ value: 1 }, { reason: expect.any(LedgerUnavailable) }, { value: 3 }]);
  });
});
