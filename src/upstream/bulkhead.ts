import type { CancelSignal } from '../core/cancellation.ts';

/** How a wait for a place ended. */
export type Entry = 'entered' | 'full' | 'timed_out' | 'cancelled' | 'closed';

interface Waiting {
  readonly end: (entry: Entry) => void;
}

/** Bounds how many calls run on one server at once, and how many may wait for that (RL-6, RL-13). First come, first in. */
export class Bulkhead {
  readonly #concurrencyMax: number;
  readonly #queueMax: number;
  readonly #queue = new Set<Waiting>();
  #running = 0;

  constructor(concurrencyMax: number, queueMax: number) {
    this.#concurrencyMax = concurrencyMax;
    this.#queueMax = queueMax;
  }

  /** Whether there is a free place. Nobody waits while there is one. */
  get hasRoom(): boolean {
    return this.#running < this.#concurrencyMax;
  }

  /** Takes a free place if there is one. */
  tryEnter(): boolean {
    if (!this.hasRoom) return false;
    this.#running++;
    return true;
  }

  /** Waits for a place, at most `waitMaxMs`, and not once the signal has come. Who entered must `leave`. */
  enter(waitMaxMs: number, signal?: CancelSignal): Promise<Entry> {
    if (signal?.aborted === true) return Promise.resolve('cancelled');
    if (this.tryEnter()) return Promise.resolve('entered');
    if (this.#queue.size >= this.#queueMax) return Promise.resolve('full');
    return new Promise((resolve) => {
      const cancel = (): void => waiting.end('cancelled');
      const waiting: Waiting = {
        end: (entry) => {
          this.#queue.delete(waiting);
          clearTimeout(timer);
          signal?.removeEventListener('abort', cancel);
          resolve(entry);
        },
      };
      const timer = setTimeout(waiting.end, waitMaxMs, 'timed_out');
      signal?.addEventListener('abort', cancel);
      this.#queue.add(waiting);
    });
  }

  /** Gives a place back; the one that waited longest gets it. */
  leave(): void {
    const [next] = this.#queue;
    if (next === undefined) this.#running--;
    else next.end('entered');
  }

  /** Sends everybody away who waits. */
  close(): void {
    for (const waiting of this.#queue) waiting.end('closed');
  }
}
