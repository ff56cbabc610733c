import fc from 'fast-check';
import { expect, test } from 'vitest';
import { KnownKeys, tagOf } from '../../../src/ledger/known-keys.ts';

const listed = (found: ReturnType<KnownKeys['find']>): number[] =>
  (found === undefined ? [] : typeof found === 'number' ? [found] : [...found]).sort((a, b) => a - b);

test('the tag of a key is what stored ledgers have it as', () => {
  expect(['', 'a', 'HMln3UK06yVhGYjDCoEXGsr6dClFZv6MzXWRpGavzqA', '\ud800\0'].map(tagOf)).toEqual([
    2_872_998_923, 444_641_715, 1_501_570_450, 2_415_897_001,
  ]);
});

test('tags of keys that are much alike spread over all bits', () => {
  const tags = Array.from({ length: 20_000 }, (_, index) => tagOf(`key ${index}`));
  expect(new Set(tags).size).toBeGreaterThan(19_990);
  for (let bit = 0; bit < 32; bit += 1) {
    const ones = tags.filter((tag) => (tag >>> bit) & 1).length;
    expect(ones).toBeGreaterThan(9_000);
    expect(ones).toBeLessThan(11_000);
  }
});

test('any rows can be noted, found and forgotten, also where tags collide', () => {
  // Few tags in few segments, most of them with the same home: the hard case of open addresses.
  const tag = fc.integer({ min: 0, max: 7 }).map((number) => ((number >>> 1) * 2 ** 24 + (number & 1)) >>> 0);
  const step = fc.record({ tag, isAdded: fc.boolean(), pick: fc.nat(30) });
  fc.assert(
    fc.property(fc.constantFrom(0, 5_000), fc.array(step, { maxLength: 200 }), (expected, steps) => {
      const keys = new KnownKeys(expected, (one) => one);
      const model: { tag: number; row: number }[] = [];
      for (const { tag: one, isAdded, pick } of steps) {
        const picked = model[pick];
        if (isAdded || picked === undefined) {
          const row = keys.next();
          keys.add(one, row);
          model.push({ tag: one, row });
        } else {
          keys.remove(picked.tag, picked.row);
          keys.remove(picked.tag, picked.row);
          model.splice(pick, 1);
        }
        expect(keys.size).toBe(model.length);
      }
      for (const { tag: one } of steps) {
        const rows = model.filter((entry) => entry.tag === one).map(({ row }) => row);
        expect(listed(keys.find(one))).toEqual(rows);
      }
    }),
    { numRuns: 300 },
  );
});

test('a hundred thousand keys are all found again, and others are not', () => {
  const keys = new KnownKeys();
  const rows = new Map<string, number>();
  for (let index = 0; index < 100_000; index += 1) {
    const key = `key ${index}`;
    const row = keys.next();
    keys.add(tagOf(key), row);
    rows.set(key, row);
  }
  for (const [key, row] of rows) if (!listed(keys.find(tagOf(key))).includes(row)) expect.fail(key);
  let mistaken = 0;
  for (let index = 0; index < 100_000; index += 1)
    if (keys.find(tagOf(`other ${index}`)) !== undefined) mistaken += 1;
  expect(mistaken).toBeLessThan(20);
});

test('tags that somebody has chosen to stand side by side do not', () => {
  const count = 200_000;
  // By the tag alone, all of them would come into one segment, and into a hundredth of it.
  const tags = Array.from(
    { length: count },
    (_, index) => ((index % 256) * 2 ** 24 + (index >>> 8) * 256) >>> 0,
  );
  expect(new Set(tags).size).toBe(count);
  const keys = new KnownKeys();
  const sinceMs = performance.now();
  for (const tag of tags) keys.add(tag, keys.next());
  // Side by side each of them passes thousands of others, and all together take many seconds.
  expect(performance.now() - sinceMs).toBeLessThan(1_000);
  expect(tags.every((tag, index) => listed(keys.find(tag)).includes(index + 1))).toBe(true);
});

test('rows are whole numbers beyond 2^32, and no row is one that marks a free slot', () => {
  const keys = new KnownKeys();
  keys.add(1, 2 ** 32 - 2);
  expect([keys.next(), keys.next()]).toEqual([2 ** 32 - 1, 2 ** 32 + 1]);
  keys.add(2, 2 ** 32 + 1);
  expect([keys.find(1), keys.find(2)]).toEqual([2 ** 32 - 2, 2 ** 32 + 1]);
  keys.remove(2, 2 ** 32 + 1);
  expect(keys.find(2)).toBeUndefined();
});
