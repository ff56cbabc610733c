import type { Readable } from 'node:stream';

/** Work on what one peer sends, after which everybody else has a turn. */
const turnMs = 5;

/**
 * Tells when work on what one peer sends has taken so long that everybody else is to have a turn. However fast the peer
 * writes, and however dear its bytes are to read, the event loop then gets to everything else in between: calls of
 * other servers, timers, signals.
 */
export class Turn {
  #startedMs = 0;
  #spentMs = 0;

  /** A piece of work begins. */
  begin(): void {
    this.#startedMs = performance.now();
  }

  /** It has ended: whether the turn is over with it. The next turn begins anew. */
  end(): boolean {
    this.#spentMs += performance.now() - this.#startedMs;
    if (this.#spentMs < turnMs) return false;
    this.#spentMs = 0;
    return true;
  }
}

/** Reads a stream to its end, and gives everybody else their turns. */
export function readFairly(stream: Readable, take: (chunk: Buffer) => void): void {
  const turn = new Turn();
  stream.on('data', (chunk: Buffer) => {
    turn.begin();
    take(chunk);
    if (!turn.end()) return;
    stream.pause();
    setImmediate(() => stream.resume());
  });
}
