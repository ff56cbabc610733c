import { expect, test } from 'vitest';
import { newUuidV7 } from '../../src/ids.ts';

test('a new id is a UUIDv7 that carries its time and is never the same', () => {
  const nowMs = Date.UTC(2026, 10, 30, 12);
  const ids = Array.from({ length: 1_000 }, () => newUuidV7(nowMs));
  for (const id of ids)
    expect(id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  expect(new Set(ids).size).toBe(1_000);
  expect(Number.parseInt((ids[0] ?? '').slice(0, 13).replace('-', ''), 16)).toBe(nowMs);
});

test('ids of a later time sort behind those of an earlier one', () => {
  const times = [0, 1, 999, Date.UTC(2026, 10, 30), Date.UTC(2026, 10, 30) + 1, Date.UTC(2200, 0, 1)];
  const ids = times.map((ms) => newUuidV7(ms));
  expect([...ids].sort()).toEqual(ids);
});
