/** A burst of notices that tools have changed is answered by one look. */
const debounceMs = 100;
const gapMaxMs = 30_000;
/** Reading and binding a list may take this part of the time, not more. */
const restFactor = 10;

/**
 * Says when a tool list is read again after a notice, so that a server whose notices never end costs little. The first
 * notice after a pause is answered at once; while they go on, the gap between two looks doubles.
 */
export class ListPace {
  #gapMs = debounceMs;
  #restsUntilMs = Number.NEGATIVE_INFINITY;

  /** How long the look waits that a notice asks for. To be asked once for each look. */
  waitMs(nowMs: number): number {
    const isAfterPause = nowMs >= this.#restsUntilMs;
    this.#gapMs = isAfterPause ? debounceMs : Math.min(2 * this.#gapMs, gapMaxMs);
    return Math.max(debounceMs, this.#restsUntilMs - nowMs);
  }

  /** A look that a notice asked for has come to its end. */
  looked(startedMs: number, endedMs: number): void {
    const restMs = Math.max(this.#gapMs, restFactor * (endedMs - startedMs));
    this.#restsUntilMs = endedMs + Math.min(restMs, gapMaxMs);
  }
}
