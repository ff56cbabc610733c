/** How a wait for a place ended. */
export type Entry = 'entered' | 'full' | 'timed_out' | 'closed';

interface Waiting {
  readonly enter: (entry: Entry) => void;
  readonly timer: NodeJS.Timeout;
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

  /** Takes a free place if there is one. */
  tryEnter(): boolean {
    if (this.#running >= this.#concurrencyMax) return false;
    this.#running++;
    return true;
  }

  /** Waits for a place, at most `waitMaxMs`. Who entered must `leave`. */
  enter(waitMaxMs: number): Promise<Entry> {
    if (this.tryEnter()) return Promise.resolve('entered');
    if (this.#queue.size >= this.#queueMax) return Promise.resolve('full');
    return new Promise((enter) => {
      const timer = setTimeout(() => {
        this.#queue.delete(waiting);
        enter('timed_out');
      }, waitMaxMs);
      const waiting: Waiting = { enter, timer };
      this.#queue.add(waiting);
    });
  }

  /** Gives a place back; the one that waited longest gets it. */
  leave(): void {
    const [next] = this.#queue;
    if (next === undefined) this.#running--;
    else this.#dismiss(next, 'entered');
  }

  /** Sends everybody away who waits. */
  close(): void {
    for (const waiting of this.#queue) this.#dismiss(waiting, 'closed');
  }

  #dismiss(waiting: Waiting, entry: Entry): void {
    this.#queue.delete(waiting);
    clearTimeout(waiting.timer);
    waiting.enter(entry);
  }
}
