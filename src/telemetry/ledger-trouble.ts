import type { EventLog } from '../core/events.ts';
import type { LedgerFailure } from './metrics.ts';

const windowMs = 1_000;

interface Window {
  leftOut: number;
  lastReason: string;
  readonly timer: NodeJS.Timeout;
}

/**
 * Logs what the ledger could not do: of each kind the first at once, and then at most one line a second, with the
 * number of those that it stands for. A ledger that is down fails every call.
 */
export class LedgerTrouble {
  readonly #log: EventLog;
  readonly #windows = new Map<LedgerFailure['during'], Window>();

  constructor(log: EventLog) {
    this.#log = log;
  }

  tell({ during, reason }: LedgerFailure): void {
    const window = this.#windows.get(during);
    if (window === undefined) {
      this.#log.error('ledger.failed', { during, reason });
      this.#open(during);
    } else {
      window.leftOut += 1;
      window.lastReason = reason;
    }
  }

  /** Tells at once what is left, for a process that is about to end. */
  flush(): void {
    for (const during of [...this.#windows.keys()]) this.#close(during);
  }

  #open(during: LedgerFailure['during']): void {
    const timer = setTimeout(() => {
      if (this.#close(during)) this.#open(during);
    }, windowMs).unref();
    this.#windows.set(during, { leftOut: 0, lastReason: '', timer });
  }

  /** Whether there was something left to tell. */
  #close(during: LedgerFailure['during']): boolean {
    const window = this.#windows.get(during);
    if (window === undefined) return false;
    clearTimeout(window.timer);
    this.#windows.delete(during);
    if (window.leftOut === 0) return false;
    this.#log.error('ledger.failed', { during, reason: window.lastReason, left_out: window.leftOut });
    return true;
  }
}
