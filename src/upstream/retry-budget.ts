/** One call in ten may be sent a second time. */
const perCall = 0.1;
/** So many at the start, before there were calls to count. */
const initial = 3;
const savedMax = 10;

/** Bounds how many calls of one server are sent once more: a server in trouble does not get twice the load (RL-3). */
export class RetryBudget {
  #saved = initial;

  /** Counts a call. */
  noteCall(): void {
    this.#saved = Math.min(savedMax, this.#saved + perCall);
  }

  /** Whether one more call may be sent again now; if so, it is counted as sent. */
  take(): boolean {
    if (this.#saved < 1) return false;
    this.#saved -= 1;
    return true;
  }
}
