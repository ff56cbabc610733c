/** The limit that ended a call. */
export interface TimeLimit {
  readonly ms: number;
  /** No answer within it, neither an answer nor progress, or no answer in spite of progress. */
  readonly kind: 'answer' | 'silence' | 'total';
}

/** When a request is given up: after a time without a sign of life, and at the latest after its whole time. */
export class Deadline {
  readonly #nowMs: () => number;
  readonly #startedMs: number;
  readonly #timeoutMs: number;
  readonly #totalMs: number;
  #endMs: number;
  #hasProgress = false;

  /** @param nowMs a monotonic clock: no jump of the wall clock moves a deadline (RL-14) */
  constructor(nowMs: () => number, timeoutMs: number, totalMs = timeoutMs) {
    this.#nowMs = nowMs;
    this.#startedMs = nowMs();
    this.#timeoutMs = timeoutMs;
    this.#totalMs = totalMs;
    this.#endMs = this.#startedMs + Math.min(timeoutMs, totalMs);
  }

  /** The same clock that the deadline goes by. */
  nowMs(): number {
    return this.#nowMs();
  }

  passedMs(): number {
    return this.#nowMs() - this.#startedMs;
  }

  /** When it comes, as its clock tells the time. */
  get endMs(): number {
    return this.#endMs;
  }

  remainingMs(): number {
    return this.#endMs - this.#nowMs();
  }

  /** A sign of life: the time begins anew, within the whole time (RL-5). */
  beginAnew(): void {
    this.#hasProgress = true;
    this.#endMs = Math.min(this.#nowMs() + this.#timeoutMs, this.#startedMs + this.#totalMs);
  }

  /** Which limit the end is due to. */
  get limit(): TimeLimit {
    const isTotal = this.#endMs === this.#startedMs + this.#totalMs;
    if (isTotal && this.#totalMs !== this.#timeoutMs) return { ms: this.#totalMs, kind: 'total' };
    return { ms: this.#timeoutMs, kind: this.#hasProgress && !isTotal ? 'silence' : 'answer' };
  }
}
