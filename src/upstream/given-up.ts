/** Requests of one connection that an answer may still come to. */
const entriesMax = 1_000;
/** How long an answer may still come. */
const entryMs = 3_600_000;

interface Entry<Value> {
  readonly value: Value;
  readonly untilMs: number;
}

/** Remembers, for a time, requests whose answer nobody waits for any more; the oldest are forgotten first. */
export class GivenUp<Value> {
  readonly #nowMs: () => number;
  readonly #entries = new Map<number | string, Entry<Value>>();

  constructor(nowMs: () => number = () => performance.now()) {
    this.#nowMs = nowMs;
  }

  get size(): number {
    return this.#entries.size;
  }

  add(id: number | string, value: Value): void {
    const nowMs = this.#nowMs();
    for (const [oldest, { untilMs }] of this.#entries) {
      if (untilMs > nowMs && this.#entries.size < entriesMax) break;
      this.#entries.delete(oldest);
    }
    this.#entries.set(id, { value, untilMs: nowMs + entryMs });
  }

  /** What belongs to a request, once. */
  take(id: number | string): Value | undefined {
    const entry = this.#entries.get(id);
    this.#entries.delete(id);
    return entry !== undefined && entry.untilMs > this.#nowMs() ? entry.value : undefined;
  }

  clear(): void {
    this.#entries.clear();
  }
}
