/** Far from the ids of the SDK's client, which counts from 0 on the same connection, and within 31 bits. */
export const firstRequestId = 1_000_000_000;
const lastRequestId = 2 ** 31 - 1;
const slotsMin = 64;

/**
 * The requests that wait for their answer, by ids that it hands out itself.
 *
 * Not a Map: on Node 20 a Map that lives long and is added to and deleted from all the time keeps whatever went through
 * it alive until the next full collection, which makes a call twice as dear. Here an id leads to its place in a list.
 */
export class InFlight<Entry extends { readonly id: number }> {
  #slots = emptySlots<Entry>(slotsMin);
  #size = 0;
  #nextId = firstRequestId;

  get size(): number {
    return this.#size;
  }

  /** An id for the next entry, whose place is free. */
  newId(): number {
    if (2 * this.#size >= this.#slots.length) this.#grow();
    while (this.#slots[this.#nextId % this.#slots.length] !== undefined) this.#nextId += 1;
    const id = this.#nextId;
    this.#nextId = id < lastRequestId ? id + 1 : firstRequestId;
    return id;
  }

  /** @param entry under the id that `newId` gave last */
  add(entry: Entry): void {
    this.#slots[entry.id % this.#slots.length] = entry;
    this.#size += 1;
  }

  get(id: number): Entry | undefined {
    const entry = this.#slots[id % this.#slots.length];
    return entry?.id === id ? entry : undefined;
  }

  take(id: number): Entry | undefined {
    const entry = this.get(id);
    if (entry === undefined) return undefined;
    this.#slots[id % this.#slots.length] = undefined;
    this.#size -= 1;
    return entry;
  }

  /** All entries at this moment. */
  all(): Entry[] {
    return this.#slots.filter((entry) => entry !== undefined);
  }

  // Twice the places: entries that did not share one before do not share one now.
  #grow(): void {
    const entries = this.all();
    this.#slots = emptySlots(2 * this.#slots.length);
    for (const entry of entries) this.#slots[entry.id % this.#slots.length] = entry;
  }
}

const emptySlots = <Entry>(length: number): (Entry | undefined)[] =>
  new Array<Entry | undefined>(length).fill(undefined);
