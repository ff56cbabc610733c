/** Failures in a row after which no more calls are let through for a while (RL-6). */
const failuresMax = 5;
const openMinMs = 1_000;
const openMaxMs = 30_000;

/** Whether a call may go to the server, and as what. */
export type Pass = 'pass' | 'probe' | 'refused';

/**
 * Keeps calls from a server whose transport has failed again and again, and lets one through from time to time to see
 * whether it is well again. What a tool answers, errors included, shows that the server is.
 */
export class Breaker {
  readonly #monotonicMs: () => number;
  readonly #random: () => number;
  #failures = 0;
  /** How often it has opened since the last success. */
  #openings = 0;
  #opensAgainAtMs: number | undefined;
  #isProbing = false;
  #lastSuccessMs = Number.NEGATIVE_INFINITY;

  constructor(monotonicMs: () => number, random: () => number = Math.random) {
    this.#monotonicMs = monotonicMs;
    this.#random = random;
  }

  get state(): 'closed' | 'open' | 'half_open' {
    if (this.#opensAgainAtMs === undefined) return 'closed';
    return this.#isProbing || this.#monotonicMs() >= this.#opensAgainAtMs ? 'half_open' : 'open';
  }

  /** Whether a call that came now would be let through. */
  get isPassable(): boolean {
    return this.state !== 'open' && !this.#isProbing;
  }

  /** Milliseconds until a call may be let through; 0 where one may be now. */
  get waitMs(): number {
    return Math.max(0, Math.ceil((this.#opensAgainAtMs ?? 0) - this.#monotonicMs()));
  }

  /** To be asked once for each call. Whoever got `probe` must tell the end of it, by one of the three below. */
  admit(): Pass {
    if (this.#opensAgainAtMs === undefined) return 'pass';
    if (!this.isPassable) return 'refused';
    this.#isProbing = true;
    return 'probe';
  }

  /** The server has answered. */
  succeeded(): void {
    this.#lastSuccessMs = this.#monotonicMs();
    this.#failures = 0;
    this.#openings = 0;
    this.#opensAgainAtMs = undefined;
    this.#isProbing = false;
  }

  /**
   * The transport has failed a call.
   * @param startedMs when the call began: what failed in spite of an answer to another call since then says nothing
   */
  failed(startedMs: number): void {
    if (startedMs <= this.#lastSuccessMs) return;
    this.#failures++;
    if (this.#opensAgainAtMs === undefined ? this.#failures >= failuresMax : this.#isProbing) this.#open();
  }

  /** The probe came to no end that says anything about the server. */
  abandoned(): void {
    this.#isProbing = false;
  }

  #open(): void {
    const ceilingMs = Math.min(openMaxMs, openMinMs * 2 ** Math.min(this.#openings, 30));
    this.#openings++;
    this.#isProbing = false;
    // Random in its upper half, so that many replicas do not probe in step.
    this.#opensAgainAtMs = this.#monotonicMs() + ceilingMs * (0.5 + this.#random() / 2);
  }
}
