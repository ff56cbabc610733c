import { StringDecoder } from 'node:string_decoder';
import type { Redact } from '../../core/redact.ts';
import { lookedAtChars, shown } from '../shown.ts';

const lineCharsMax = 2_000;
/** One more than is looked at, so that it is still known that the line was longer. */
const rawLineCharsMax = lookedAtChars(lineCharsMax) + 1;
const linesMax = 200;
const tailCharsMax = 32_768;

/**
 * Keeps the last lines of a child's stderr within a few tens of kilobytes (MT-9). They are redacted and made printable
 * when somebody looks: most are never looked at.
 */
export class StderrTail {
  readonly #redact: Redact;
  readonly #onLine: (show: () => string) => void;
  readonly #decoder = new StringDecoder('utf8');
  #lines: readonly string[] = [];
  #partial = '';

  /** @param onLine takes each line, and a way to make it fit to be shown */
  constructor(redact: Redact, onLine: (show: () => string) => void) {
    this.#redact = redact;
    this.#onLine = onLine;
  }

  push(chunk: Buffer): void {
    const pieces = (this.#partial + this.#decoder.write(chunk)).split('\n');
    this.#partial = (pieces.pop() ?? '').slice(0, rawLineCharsMax);
    this.#add(pieces);
  }

  /** Takes the line that the child did not finish. */
  end(): void {
    const last = this.#partial;
    this.#partial = '';
    this.#add([last]);
  }

  /** Redacted and printable. */
  lines(): string[] {
    const lines: string[] = [];
    let chars = 0;
    for (const raw of this.#lines.toReversed()) {
      const line = this.#shown(raw);
      chars += line.length;
      if (chars > tailCharsMax) break;
      if (line !== '') lines.unshift(line);
    }
    return lines;
  }

  #add(pieces: readonly string[]): void {
    const lines = pieces.filter((piece) => piece.trim() !== '');
    if (lines.length === 0) return;
    for (const line of lines) this.#onLine(() => this.#shown(line));
    const newest = lines.slice(-linesMax).map((line) => line.slice(0, rawLineCharsMax));
    this.#lines = [...this.#lines, ...newest].slice(-linesMax);
  }

  #shown(raw: string): string {
    return shown(raw, this.#redact, lineCharsMax);
  }
}
