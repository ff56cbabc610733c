import { constants, fstatSync, openSync, write, writeSync } from 'node:fs';
import type { Redact } from '../core/redact.ts';

/** Lines are written together: a system call for each would cost a call more than its checks do. */
const batchCharsMin = 64_000;
const batchMsMax = 100;
/** What may wait while the other end does not take it; lines beyond are counted and lost, calls go on. */
const waitingCharsMax = 16_777_216;
const retryMs = 50;
const closeMsMax = 1_000;

/** Characters that JSON leaves as they are and that some readers take for an end of line or a terminal command. */
const rawControls = /[\u007f-\u009f\u2028\u2029]/g;

/** Escapes in a text of JSON lines what a reader of lines, or a terminal, would act upon. */
export const quietJson = (text: string): string =>
  text.replace(rawControls, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`);

/**
 * Where finished lines go: a file descriptor, written to in batches and never waited for.
 *
 * Every line passes the redactor, so no secret of the configuration reaches the outside by any field (MT-14). A full
 * disk, a closed pipe or a reader that does not read costs lines, which are counted and told, and nothing else.
 */
export class LineSink {
  readonly #redact: Redact;
  readonly #descriptor: number;
  #waiting = '';
  #lost = 0;
  #timer: NodeJS.Timeout | undefined;
  #writing: Promise<void> | undefined;
  /** Whether what waits goes out as soon as it can. */
  #isDue = false;
  #hasComplained = false;

  constructor(redact: Redact, descriptor: number) {
    this.#redact = redact;
    this.#descriptor = withoutWaiting(descriptor);
  }

  /** @param line with its line feed */
  readonly write = (line: string): void => {
    if (this.#waiting.length + line.length > waitingCharsMax) {
      this.#lost += 1;
      return;
    }
    this.#waiting += line;
    if (this.#waiting.length >= batchCharsMin) this.#send();
    else this.#timer ??= setTimeout(this.#sendDue, batchMsMax).unref();
  };

  /**
   * As `write`, for a line that must not be lost when the process dies: what waits goes out with it as soon as the
   * event loop turns, in one system call for all such lines of the turn.
   */
  readonly writeSoon = (line: string): void => {
    this.write(line);
    if (this.#isDue) return;
    this.#isDue = true;
    setImmediate(this.#send);
  };

  /** Writes what waits, within a second; to be awaited before the process ends. */
  async close(): Promise<void> {
    this.#sendDue();
    let limit: NodeJS.Timeout | undefined;
    const patience = new Promise<void>((resolve) => {
      limit = setTimeout(resolve, closeMsMax);
    });
    await Promise.race([this.#drain(), patience]);
    clearTimeout(limit);
  }

  /** Writes what waits before it returns, for a process that has no time left; a line may be lost. */
  flushNow(): void {
    if (this.#writing !== undefined) return;
    try {
      writeSync(this.#descriptor, this.#takeBatch());
    } catch (error) {
      this.#complain(error);
    }
  }

  async #drain(): Promise<void> {
    while (this.#writing !== undefined) await this.#writing;
  }

  readonly #send = (): void => {
    if (this.#writing !== undefined) return;
    this.#isDue = false;
    if (this.#waiting === '') return;
    this.#writing = this.#writeAll(Buffer.from(this.#takeBatch())).then(() => {
      this.#writing = undefined;
      if (this.#isDue || this.#waiting.length >= batchCharsMin) this.#send();
    });
  };

  readonly #sendDue = (): void => {
    this.#isDue = true;
    this.#send();
  };

  #takeBatch(): string {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const batch = this.#waiting;
    this.#waiting = '';
    const lost =
      this.#lost === 0
        ? ''
        : `${JSON.stringify({ level: 'error', event: 'log.lines_lost', lines: this.#lost })}\n`;
    this.#lost = 0;
    return quietJson(this.#redact(batch + lost));
  }

  async #writeAll(bytes: Buffer): Promise<void> {
    let offset = 0;
    while (offset < bytes.length) {
      try {
        offset += await this.#writeSome(bytes, offset);
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code === 'EAGAIN') {
          await new Promise((resolve) => setTimeout(resolve, retryMs).unref());
          continue;
        }
        this.#lost += bytes.subarray(offset).toString('latin1').split('\n').length - 1;
        this.#complain(error);
        return;
      }
    }
  }

  #writeSome(bytes: Buffer, offset: number): Promise<number> {
    return new Promise((resolve, reject) => {
      write(this.#descriptor, bytes, offset, (error, written) =>
        error === null ? resolve(written) : reject(error),
      );
    });
  }

  // Once: whoever reads standard error has the reason, and each further line would meet the same fault.
  #complain(error: unknown): void {
    if (this.#hasComplained) return;
    this.#hasComplained = true;
    const code = (error as NodeJS.ErrnoException).code ?? 'unknown error';
    process.stderr.write(
      `callgate: the log cannot be written (${code}); lines are lost until it can, calls go on\n`,
    );
  }
}

/**
 * A pipe that nobody reads would hold a write for ever, and with it the end of the process. Opened once more, it
 * refuses instead. Elsewhere than on Linux there is no such way, and what is no pipe does not need one.
 */
function withoutWaiting(descriptor: number): number {
  try {
    if (!fstatSync(descriptor).isFIFO()) return descriptor;
    return openSync(`/proc/self/fd/${descriptor}`, constants.O_WRONLY | constants.O_NONBLOCK);
  } catch {
    return descriptor;
  }
}
