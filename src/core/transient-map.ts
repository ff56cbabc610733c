/**
 * A map whose values come and go by the thousand in a second.
 *
 * When a `Map` moves into new memory, what it leaves behind goes on pointing there. As soon as one such piece has become
 * old, the garbage collector takes everything for alive that was ever in the map since, and copies it all: half of what
 * collections cost under load. Here the maps hold numbers, and a value that is deleted is held by nothing.
 */
export class TransientMap<K, V> {
  readonly #places = new Map<K, number>();
  readonly #values: (V | undefined)[] = [];
  readonly #free: number[] = [];

  get size(): number {
    return this.#places.size;
  }

  get(key: K): V | undefined {
    const place = this.#places.get(key);
    return place === undefined ? undefined : this.#values[place];
  }

  set(key: K, value: V): void {
    let place = this.#places.get(key);
    if (place === undefined) {
      place = this.#free.pop() ?? this.#values.length;
      this.#places.set(key, place);
    }
    this.#values[place] = value;
  }

  delete(key: K): void {
    const place = this.#places.get(key);
    if (place === undefined) return;
    this.#places.delete(key);
    this.#values[place] = undefined;
    this.#free.push(place);
  }

  /** The values at this moment, in no particular order. */
  values(): V[] {
    return this.#values.filter((value) => value !== undefined);
  }
}
