import { StringDecoder } from 'node:string_decoder';
import type { Redact } from '../core/redact.ts';
import { printable, truncate } from '../core/text.ts';

const lineCharsMax = 2_000;
/** More than is shown, so that a secret lying across the cut is redacted before it is cut. */
const rawLineCharsMax = 2 * lineCharsMax;
const tailCharsMax = 32_768;

/** Keeps the last lines of a child's stderr: redacted, printable, and within a few tens of kilobytes (MT-9). */
export class StderrTail {
  readonly #redact: Redact;
  readonly #onLine: (line: string) => void;
  readonly #decoder = new StringDecoder('utf8');
  readonly #lines: string[] = [];
  #chars = 0;
  #partial = '';

  constructor(redact: Redact, onLine: (line: string) => void) {
    this.#redact = redact;
    this.#onLine = onLine;
  }

  push(chunk: Buffer): void {
    const pieces = this.#decoder.write(chunk).split('\n');
    for (const [index, piece] of pieces.entries()) {
      if (index > 0) this.#endLine();
      const room = rawLineCharsMax - this.#partial.length;
      if (room > 0) this.#partial += piece.slice(0, room);
    }
  }

  /** Takes the line that the child did not finish. */
  end(): void {
    this.#endLine();
  }

  lines(): string[] {
    return [...this.#lines];
  }

  #endLine(): void {
    const line = truncate(printable(this.#redact(this.#partial)).trimEnd(), lineCharsMax);
    this.#partial = '';
    if (line === '') return;
    this.#lines.push(line);
    this.#chars += line.length;
    while (this.#chars > tailCharsMax) this.#chars -= this.#lines.shift()?.length ?? 0;
    this.#onLine(line);
  }
}
