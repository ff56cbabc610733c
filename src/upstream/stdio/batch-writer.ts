import type { Writable } from 'node:stream';
import type { Sender } from '../request-link.ts';

/** Proof that a message was never written to the server: it cannot have acted on it. */
export class NotSentError extends Error {
  override readonly name = 'NotSentError';
}

/** More than as many calls as run at once by default can bring, each with the longest arguments. */
const queuedCharsMax = 67_108_864;

/**
 * Joins all messages of one turn of the event loop into one write.
 * While the pipe is full, messages wait here and not in the stream, so that it stays known which ones were never
 * handed over.
 */
export class BatchWriter {
  readonly #stream: Writable;
  #text = '';
  #senders: Sender[] = [];
  #isScheduled = false;
  #isWriting = false;
  #ended: NotSentError | undefined;

  constructor(stream: Writable) {
    this.#stream = stream;
  }

  /** @param sender told what becomes of the text; undefined where nobody wants to know */
  write(text: string, sender: Sender | undefined): void {
    if (this.#ended !== undefined) {
      sender?.onUnsent(this.#ended);
      return;
    }
    if (this.#text !== '' && this.#text.length + text.length > queuedCharsMax) {
      sender?.onUnsent(
        new NotSentError('the server does not read its input, and too much is waiting for it already'),
      );
      return;
    }
    this.#text += text;
    if (sender !== undefined) this.#senders.push(sender);
    if (this.#isScheduled || this.#isWriting) return;
    this.#isScheduled = true;
    setImmediate(this.#flush);
  }

  /** Refuses everything that was not written yet, and all that is still to come. */
  end(reason: string): void {
    this.#ended ??= new NotSentError(reason);
    this.#text = '';
    for (const sender of this.#takeSenders()) sender.onUnsent(this.#ended);
  }

  #takeSenders(): readonly Sender[] {
    const senders = this.#senders;
    this.#senders = [];
    return senders;
  }

  readonly #flush = (): void => {
    this.#isScheduled = false;
    if (this.#text === '') return;
    if (!this.#stream.writable) {
      this.end('the server has closed its input');
      return;
    }
    const text = this.#text;
    const senders = this.#takeSenders();
    this.#text = '';
    this.#isWriting = true;
    this.#stream.write(text, this.#onWritten);
    // A write that failed before it returned has put nothing into the pipe; one that fails later may have put a part.
    if (this.#stream.errored === null) {
      for (const sender of senders) sender.onSent?.();
    } else {
      const error = new NotSentError('the server has closed its input');
      for (const sender of senders) sender.onUnsent(error);
    }
  };

  readonly #onWritten = (error?: Error | null): void => {
    this.#isWriting = false;
    if (error) this.end('the server has closed its input');
    else this.#flush();
  };
}
