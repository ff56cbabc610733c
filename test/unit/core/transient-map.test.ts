import { describe, expect, it } from 'vitest';
import { TransientMap } from '../../../src/core/transient-map.ts';

describe('TransientMap', () => {
  it('gives back what was set last under a key, and nothing that was deleted', () => {
    const map = new TransientMap<string, { readonly name: string }>();
    map.set('a', { name: 'first' });
    map.set('b', { name: 'other' });
    map.set('a', { name: 'second' });
    expect(map.get('a')).toEqual({ name: 'second' });
    expect(map.size).toBe(2);

    map.delete('a');
    map.delete('never there');
    expect(map.get('a')).toBeUndefined();
    expect(map.get('b')).toEqual({ name: 'other' });
    expect(map.size).toBe(1);
  });

  it('gives the place of a deleted value to another one, and mixes nothing up', () => {
    const map = new TransientMap<number, { readonly key: number }>();
    for (let key = 0; key < 1_000; key += 1) {
      map.set(key, { key });
      if (key >= 8) map.delete(key - 8);
    }
    expect(map.size).toBe(8);
    expect(
      map
        .values()
        .map(({ key }) => key)
        .sort(),
    ).toEqual([992, 993, 994, 995, 996, 997, 998, 999]);
    expect(map.get(999)).toEqual({ key: 999 });
    expect(map.get(991)).toBeUndefined();
  });
});
