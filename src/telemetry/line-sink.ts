import { pino } from 'pino';
import type { Redact } from '../core/redact.ts';

/** Lines are written together: a system call for each would cost a call more than its checks do. */
const batchCharsMin = 16_000;
const batchMsMax = 100;

/**
 * Where finished lines go: standard output, or a file descriptor of its own.
 *
 * Every line passes the redactor, so no secret of the configuration reaches the outside by any field (MT-14). `flush`
 * writes what is left; it has to be called before the process ends.
 */
export class LineSink {
  readonly #redact: Redact;
  readonly #destination: ReturnType<typeof pino.destination>;
  #batch = '';
  #timer: NodeJS.Timeout | undefined;

  constructor(redact: Redact, descriptor: number) {
    this.#redact = redact;
    this.#destination = pino.destination({ dest: descriptor, sync: true });
  }

  /** @param line with its line feed */
  readonly write = (line: string): void => {
    this.#batch += line;
    if (this.#batch.length >= batchCharsMin) this.flush();
    else this.#timer ??= setTimeout(() => this.flush(), batchMsMax).unref();
  };

  flush(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (this.#batch === '') return;
    const batch = this.#batch;
    this.#batch = '';
    this.#destination.write(this.#redact(batch));
  }
}
