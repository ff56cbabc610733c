/** Far over what a talkative server writes, far under what one connection can carry. */
const unaskedPerSecondMax = 50_000;
const floodSecondsMax = 5;

/** Why a connection was ended whose server floods it. */
export const floodReason = `it sent more than ${unaskedPerSecondMax} lines a second that nobody had asked for, for ${floodSecondsMax} s`;

/** Notices a server that floods its connection, second after second, with what nobody asked for. */
export class FloodWatch {
  readonly #nowMs: () => number;
  #secondStartedMs: number;
  #lines = 0;
  #floodedSeconds = 0;

  constructor(nowMs: () => number = () => performance.now()) {
    this.#nowMs = nowMs;
    this.#secondStartedMs = nowMs();
  }

  /** Counts one line that answers nothing. True once the flood has lasted too long. */
  note(): boolean {
    const now = this.#nowMs();
    const passedMs = now - this.#secondStartedMs;
    if (passedMs >= 1_000) {
      const isFlooded = this.#lines > (unaskedPerSecondMax * passedMs) / 1_000;
      this.#floodedSeconds = isFlooded ? this.#floodedSeconds + 1 : 0;
      this.#secondStartedMs = now;
      this.#lines = 0;
    }
    this.#lines += 1;
    return this.#floodedSeconds >= floodSecondsMax;
  }
}
