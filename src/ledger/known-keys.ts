import { randomInt } from 'node:crypto';

const segmentCount = 256;
const slotsAtFirst = 16;
/** Over this part of the slots in use, a segment doubles. */
const loadMax = 0.75;

/** A 32-bit hash of a key. It is written into the store, so it must never change (FNV-1a with a final mix). */
export function tagOf(key: string): number {
  let hash = 0x811c9dc5;
  for (let index = 0; index < key.length; index += 1) {
    hash = Math.imul(hash ^ key.charCodeAt(index), 0x01000193);
  }
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}

/**
 * Where the record of a key may stand: from the tag of the key to the numbers of rows. It holds every key of the
 * store in 11 to 22 bytes, so that the store itself needs no index by key: with random keys such an index writes a
 * page of its own for each call. Two keys may share a tag; the row tells which it is.
 */
export class KnownKeys {
  readonly #segments: readonly Segment[];
  readonly #place: (tag: number) => number;
  #latest = 0;
  #size = 0;

  /**
   * @param expected how many keys there will be at least, so that none is put in its place twice
   * @param place a number from the tag that chooses where it stands
   */
  constructor(expected = 0, place = secretPlace) {
    this.#place = place;
    // The segments are not equally full: most have room for a tenth more than their share.
    const share = (expected / segmentCount) * 1.1;
    let slots = slotsAtFirst;
    while (slots * loadMax < share) slots *= 2;
    this.#segments = Array.from({ length: segmentCount }, () => new Segment(slots, place));
  }

  get size(): number {
    return this.#size;
  }

  /** The highest row number so far. Rows that are kept lie within 2^32 of it. */
  get latest(): number {
    return this.#latest;
  }

  /** A row number that no row had before. */
  next(): number {
    this.#latest += 1;
    // Zero marks a free slot.
    if (low(this.#latest) === 0) this.#latest += 1;
    return this.#latest;
  }

  add(tag: number, row: number): void {
    if (row > this.#latest) this.#latest = row;
    this.#segment(tag).add(tag, low(row));
    this.#size += 1;
  }

  remove(tag: number, row: number): void {
    if (this.#segment(tag).remove(tag, low(row))) this.#size -= 1;
  }

  /** The rows that a key with this tag may have: none, one, or in rare cases several. */
  find(tag: number): number | readonly number[] | undefined {
    const found = this.#segment(tag).find(tag);
    if (found === undefined) return undefined;
    return typeof found === 'number' ? this.#whole(found) : found.map((row) => this.#whole(row));
  }

  #segment(tag: number): Segment {
    return this.#segments[this.#place(tag) & (segmentCount - 1)] as Segment;
  }

  #whole(row: number): number {
    return this.#latest - ((low(this.#latest) - row) >>> 0);
  }
}

const low = (row: number): number => row % 4_294_967_296;

/** A hash table with open addresses. Segments are small, so that no single growth holds the event loop. */
class Segment {
  #tags: Uint32Array;
  #rows: Uint32Array;
  #used = 0;
  readonly #place: (tag: number) => number;

  constructor(slots: number, place: (tag: number) => number) {
    this.#place = place;
    this.#tags = new Uint32Array(slots);
    this.#rows = new Uint32Array(slots);
  }

  add(tag: number, row: number): void {
    if (this.#used >= this.#rows.length * loadMax) this.#grow();
    const mask = this.#rows.length - 1;
    let slot = this.#home(tag) & mask;
    while (this.#rows[slot] !== 0) slot = (slot + 1) & mask;
    this.#tags[slot] = tag;
    this.#rows[slot] = row;
    this.#used += 1;
  }

  find(tag: number): number | number[] | undefined {
    const mask = this.#rows.length - 1;
    let found: number | number[] | undefined;
    for (let slot = this.#home(tag) & mask; this.#rows[slot] !== 0; slot = (slot + 1) & mask) {
      if (this.#tags[slot] !== tag) continue;
      const row = this.#rows[slot] as number;
      if (found === undefined) found = row;
      else if (typeof found === 'number') found = [found, row];
      else found.push(row);
    }
    return found;
  }

  remove(tag: number, row: number): boolean {
    const mask = this.#rows.length - 1;
    let slot = this.#home(tag) & mask;
    while (this.#tags[slot] !== tag || this.#rows[slot] !== row) {
      if (this.#rows[slot] === 0) return false;
      slot = (slot + 1) & mask;
    }
    // Whoever stands behind the gap and could not be found across it moves into it.
    for (let next = (slot + 1) & mask; this.#rows[next] !== 0; next = (next + 1) & mask) {
      const distance = (next - this.#home(this.#tags[next] as number)) & mask;
      if (distance < ((next - slot) & mask)) continue;
      this.#tags[slot] = this.#tags[next] as number;
      this.#rows[slot] = this.#rows[next] as number;
      slot = next;
    }
    this.#rows[slot] = 0;
    this.#tags[slot] = 0;
    this.#used -= 1;
    return true;
  }

  // The low bits have chosen the segment.
  #home(tag: number): number {
    return this.#place(tag) >>> 8;
  }

  #grow(): void {
    const tags = this.#tags;
    const rows = this.#rows;
    this.#tags = new Uint32Array(tags.length * 2);
    this.#rows = new Uint32Array(rows.length * 2);
    this.#used = 0;
    for (let slot = 0; slot < rows.length; slot += 1) {
      if (rows[slot] !== 0) this.add(tags[slot] as number, rows[slot] as number);
    }
  }
}

/**
 * Callers can compute the tags of their calls. Where those stand they cannot know, so that they cannot crowd them into
 * one place.
 */
function secretPlace(tag: number): number {
  const mixed = Math.imul(tag ^ secret, secretFactor);
  const spread = Math.imul(mixed ^ (mixed >>> 15), 0x85ebca6b);
  return (spread ^ (spread >>> 13)) >>> 0;
}

const secret = randomInt(2 ** 32);
const secretFactor = randomInt(2 ** 31) * 2 + 1;
