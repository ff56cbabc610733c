/** Failures in a row after which no more calls are let through for a while (RL-6). */
const failuresMax = 5;
const openMinMs = 1_000;
const openMaxMs = 30_000;
/** A probe that takes longer, as a long call does, keeps other calls back no more. */
const probeMsMax = 30_000;

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
  /** Until when a probe keeps other calls back. */
  #probeUntilMs = Number.NEGATIVE_INFINITY;
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

  get #isProbing(): boolean {
    return this.#monotonicMs() < this.#probeUntilMs;
  }

  /** Milliseconds until a call may be let through; 0 where one may be now. */
  get waitMs(): number {
    // Nobody knows when the probe ends; most take no longer than this.
    if (this.#isProbing) return openMinMs;
    return Math.max(0, Math.ceil((this.#opensAgainAtMs ?? 0) - this.#monotonicMs()));
  }

  /** To be asked once for each call. Whoever got `probe` must tell the end of it, by one of the three below. */
  admit(): Pass {
    if (this.#opensAgainAtMs === undefined) return 'pass';
    if (!this.isPassable) return 'refused';
    this.#probeUntilMs = this.#monotonicMs() + probeMsMax;
    return 'probe';
  }

  /** The server has answered. */
  succeeded(): void {
    this.#lastSuccessMs = this.#monotonicMs();
    this.#failures = 0;
    this.#openings = 0;
    this.#opensAgainAtMs = undefined;
    this.abandoned();
  }

  /**
   * The transport has failed a call.
   * @param pass as what it was let through
   * @param startedMs when the call began: what failed in spite of an answer to another call since then says nothing
   */
  failed(pass: Pass, startedMs: number): void {
    if (startedMs <= this.#lastSuccessMs) return;
    this.#failures++;
    const isOpen = this.#opensAgainAtMs !== undefined;
    // What was under way when it opened says nothing about the server as the probe finds it.
    if (isOpen ? pass === 'probe' : this.#failures >= failuresMax) this.#open();
  }

  /** The probe came to no end that says anything about the server. */
  abandoned(): void {
    this.#probeUntilMs = Number.NEGATIVE_INFINITY;
  }

  #open(): void {
    const ceilingMs = Math.min(openMaxMs, openMinMs * 2 ** Math.min(this.#openings, 30));
    this.#openings++;
    this.abandoned();
    // Random in its upper half, so that many replicas do not probe in step.
    this.#opensAgainAtMs = this.#monotonicMs() + ceilingMs * (0.5 + this.#random() / 2);
  }
}
