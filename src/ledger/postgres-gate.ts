import { LedgerUnavailable } from '../dispatch/ports.ts';

interface GateOptions {
  readonly insideMax: number;
  readonly waitingMax: number;
  readonly waitMaxMs: number;
  /** What whoever finds no place is told. */
  readonly refusal: string;
}

/** Lets a few in at once. Others wait in the order in which they came, not many and not long. */
export class Gate {
  readonly #options: GateOptions;
  /** In the order of their coming, as sets are. */
  readonly #waiting = new Set<() => void>();
  #inside = 0;

  constructor(options: GateOptions) {
    this.#options = options;
  }

  /** Whoever is in has to `leave`. @throws LedgerUnavailable where there is no place in time */
  async enter(): Promise<void> {
    const { insideMax, waitingMax, waitMaxMs, refusal } = this.#options;
    if (this.#inside < insideMax) {
      this.#inside += 1;
      return;
    }
    if (this.#waiting.size >= waitingMax) throw new LedgerUnavailable(refusal);
    await new Promise<void>((resolve, reject) => {
      const timer = setTimeout(() => {
        this.#waiting.delete(come);
        reject(new LedgerUnavailable(refusal));
      }, waitMaxMs);
      const come = (): void => {
        clearTimeout(timer);
        resolve();
      };
      this.#waiting.add(come);
    });
  }

  leave(): void {
    const [next] = this.#waiting;
    if (next === undefined) {
      this.#inside -= 1;
      return;
    }
    this.#waiting.delete(next);
    next();
  }
}
