import type { Writable } from 'node:stream';

/** Proof that a message was never written to the server: it cannot have acted on it. */
export class NotSentError extends Error {
  override readonly name = 'NotSentError';
}

/** More than as many calls as run at once by default can bring, each with the longest arguments. */
const queuedCharsMax = 67_108_864;

interface Batch {
  readonly texts: string[];
  chars: number;
  readonly written: Promise<void>;
  readonly resolve: () => void;
  readonly reject: (error: Error) => void;
}

function newBatch(): Batch {
  let resolve = (): void => {};
  let reject = (_error: Error): void => {};
  const written = new Promise<void>((onWritten, onFailed) => {
    resolve = onWritten;
    reject = onFailed;
  });
  return { texts: [], chars: 0, written, resolve, reject };
}

/**
 * Joins all messages of one turn of the event loop into one write.
 * While the pipe is full, messages wait here and not in the stream, so that it stays known which ones were never
 * handed over.
 */
export class BatchWriter {
  readonly #stream: Writable;
  #waiting: Batch | undefined;
  #isWriting = false;
  #ended: NotSentError | undefined;

  constructor(stream: Writable) {
    this.#stream = stream;
  }

  /** Resolves when the text was handed to the pipe. @throws NotSentError when that can no longer happen. */
  send(text: string): Promise<void> {
    if (this.#ended !== undefined) return Promise.reject(this.#ended);
    if (this.#waiting === undefined) {
      this.#waiting = newBatch();
      if (!this.#isWriting) setImmediate(this.#flush);
    } else if (this.#waiting.chars + text.length > queuedCharsMax) {
      return Promise.reject(
        new NotSentError('the server does not read its input, and too much is waiting for it already'),
      );
    }
    this.#waiting.texts.push(text);
    this.#waiting.chars += text.length;
    return this.#waiting.written;
  }

  /** Refuses everything that was not written yet, and all that is still to come. */
  end(reason: string): void {
    this.#ended ??= new NotSentError(reason);
    this.#waiting?.reject(this.#ended);
    this.#waiting = undefined;
  }

  readonly #flush = (): void => {
    const batch = this.#waiting;
    if (batch === undefined) return;
    if (!this.#stream.writable) {
      this.end('the server has closed its input');
      return;
    }
    this.#waiting = undefined;
    this.#isWriting = true;
    this.#stream.write(batch.texts.join(''), this.#onWritten);
    // A write that failed before it returned has put nothing into the pipe; one that fails later may have put a part.
    if (this.#stream.errored === null) batch.resolve();
    else batch.reject(new NotSentError('the server has closed its input'));
  };

  readonly #onWritten = (error?: Error | null): void => {
    this.#isWriting = false;
    if (error) this.end('the server has closed its input');
    else this.#flush();
  };
}
