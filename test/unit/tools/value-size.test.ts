import { describe, expect, test } from 'vitest';
import type { JsonValue } from '../../../src/core/json.ts';
import { sizeWithin } from '../../../src/tools/value-size.ts';

const max = { values: 5, chars: 10 };

describe('the size of a value', () => {
  test.each<[JsonValue, number, number]>([
    [null, 1, 0],
    ['four', 1, 4],
    [[1, 'a', [true]], 5, 1],
    [{ ab: 'c', d: { e: null } }, 4, 5],
  ])('%j', (value, values, chars) => {
    expect(sizeWithin(value, max)).toEqual({ values, chars });
  });

  test('over the bound is not told', () => {
    expect(sizeWithin([1, 2, 3, 4], max)).toEqual({ values: 5, chars: 0 });
    expect(sizeWithin([1, 2, 3, 4, 5], max)).toBeUndefined();
    expect(sizeWithin({ a: 1, b: 2, c: 3, d: 4, e: 5 }, max)).toBeUndefined();
    expect(sizeWithin('a'.repeat(11), max)).toBeUndefined();
    expect(sizeWithin({ [`${'a'.repeat(11)}`]: 1 }, max)).toBeUndefined();
  });

  test('looks no further than the bound', () => {
    let looks = 0;
    const items = new Proxy(
      Array.from({ length: 1_000 }, () => 1),
      {
        get(target, key, receiver) {
          if (key !== 'length') looks += 1;
          return Reflect.get(target, key, receiver);
        },
      },
    );
    expect(sizeWithin([items, items], max)).toBeUndefined();
    expect(looks).toBeLessThan(10);
  });
});
