import fc from 'fast-check';
import { expect, test } from 'vitest';
import { firstRequestId, InFlight } from '../../../src/upstream/in-flight.ts';

interface Entry {
  readonly id: number;
  readonly n: number;
}

test('is what a map with its own ids would be, however long some entries stay', () => {
  fc.assert(
    fc.property(fc.array(fc.nat(9), { maxLength: 500 }), (steps) => {
      const table = new InFlight<Entry>();
      const model = new Map<number, Entry>();
      for (const [n, step] of steps.entries()) {
        if (step < 6) {
          const entry = { id: table.newId(), n };
          expect(model.has(entry.id)).toBe(false);
          table.add(entry);
          model.set(entry.id, entry);
        } else {
          // The newest ones are taken most, the oldest ones stay.
          const id = [...model.keys()].at(-1 - (n % (step + 1))) ?? firstRequestId;
          expect(table.take(id)).toBe(model.get(id));
          model.delete(id);
        }
        expect(table.size).toBe(model.size);
      }
      for (const [id, entry] of model) expect(table.get(id)).toBe(entry);
      expect(new Set(table.all())).toEqual(new Set(model.values()));
    }),
  );
});

test('an id stays free as long as its place is taken by another one', () => {
  const table = new InFlight<Entry>();
  const old = { id: table.newId(), n: 0 };
  table.add(old);
  for (let n = 1; n < 1_000; n += 1) {
    const entry = { id: table.newId(), n };
    table.add(entry);
    expect(table.take(entry.id)).toBe(entry);
  }
  expect(table.get(old.id)).toBe(old);
  expect(table.size).toBe(1);
});

test('no number but an id finds anything', () => {
  const table = new InFlight<Entry>();
  const entry = { id: table.newId(), n: 0 };
  table.add(entry);
  const { id } = entry;
  for (const other of [id + 0.5, id + 64, -id, 0, Number.NaN, Number.POSITIVE_INFINITY, 2 ** 53]) {
    expect(table.get(other)).toBeUndefined();
    expect(table.take(other)).toBeUndefined();
  }
});
