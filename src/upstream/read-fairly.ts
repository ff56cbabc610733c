import type { Readable } from 'node:stream';

/** Work on what one peer sends, after which everybody else has a turn. */
const turnMs = 5;

/**
 * Reads a stream to its end. However fast the peer writes, and however dear its bytes are to read, the event loop
 * gets to everything else in between: calls of other servers, timers, signals.
 */
export function readFairly(stream: Readable, take: (chunk: Buffer) => void): void {
  let spentMs = 0;
  stream.on('data', (chunk: Buffer) => {
    const startedMs = performance.now();
    take(chunk);
    spentMs += performance.now() - startedMs;
    if (spentMs < turnMs) return;
    spentMs = 0;
    stream.pause();
    setImmediate(() => stream.resume());
  });
}
