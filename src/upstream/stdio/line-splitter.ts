import { isAscii } from 'node:buffer';

const newline = 0x0a;
/** Enough of a line to hold the members around the payload of an answer. */
const edgeBytes = 256;
const capacityBytesMin = 65_536;

/** A line over the limit, of which only the edges were kept. */
export interface OversizeLine {
  readonly head: string;
  readonly tail: string;
  readonly bytes: number;
}

export interface LineHandlers {
  /** One line without its line feed. */
  readonly onLine: (line: string) => void;
  /** A line has just passed the limit; the rest of it will be dropped. */
  readonly onOverflow: (head: string) => void;
  /** A line that had passed the limit came to its end. */
  readonly onOversizeLine: (line: OversizeLine) => void;
}

/**
 * Splits a stream of bytes at line feeds, in linear time and with bounded memory.
 * An unfinished line is gathered in one buffer that doubles, so that neither a long line nor one that drips in
 * byte by byte costs more than a small multiple of its length.
 */
export class LineSplitter {
  readonly #bytesMax: number;
  readonly #handlers: LineHandlers;
  #pending = Buffer.alloc(0);
  #pendingBytes = 0;
  #oversize: { head: string; tail: Buffer; bytes: number } | undefined;

  constructor(bytesMax: number, handlers: LineHandlers) {
    this.#bytesMax = bytesMax;
    this.#handlers = handlers;
  }

  push(chunk: Buffer): void {
    let start = 0;
    for (let end = chunk.indexOf(newline); end !== -1; end = chunk.indexOf(newline, start)) {
      const holdsWholeLine =
        this.#pendingBytes === 0 && this.#oversize === undefined && end - start <= this.#bytesMax;
      if (holdsWholeLine) {
        this.#handlers.onLine(chunk.toString('utf8', start, end));
      } else {
        this.#gather(chunk.subarray(start, end));
        this.#endLine();
      }
      start = end + 1;
    }
    if (start < chunk.length) this.#gather(chunk.subarray(start));
  }

  /** Hands out what stands after the last line feed, for a stream that has ended. */
  end(): void {
    if (this.#pendingBytes > 0 || this.#oversize !== undefined) this.#endLine();
  }

  #gather(bytes: Buffer): void {
    if (this.#oversize !== undefined) {
      this.#drop(bytes);
      return;
    }
    const total = this.#pendingBytes + bytes.length;
    if (total > this.#bytesMax) {
      const begin = Buffer.concat([
        this.#pending.subarray(0, Math.min(this.#pendingBytes, edgeBytes)),
        bytes.subarray(0, edgeBytes),
      ]);
      const head = begin.toString('utf8', 0, edgeBytes);
      const tail = this.#pending.subarray(Math.max(0, this.#pendingBytes - edgeBytes), this.#pendingBytes);
      this.#oversize = { head, tail: Buffer.from(tail), bytes: this.#pendingBytes };
      this.#forget();
      this.#drop(bytes);
      this.#handlers.onOverflow(head);
      return;
    }
    if (total > this.#pending.length) {
      const capacity = Math.min(this.#bytesMax, Math.max(capacityBytesMin, 2 * this.#pending.length, total));
      const grown = Buffer.allocUnsafeSlow(capacity);
      this.#pending.copy(grown, 0, 0, this.#pendingBytes);
      this.#pending = grown;
    }
    bytes.copy(this.#pending, this.#pendingBytes);
    this.#pendingBytes = total;
  }

  #drop(bytes: Buffer): void {
    if (this.#oversize === undefined) return;
    this.#oversize.bytes += bytes.length;
    this.#oversize.tail = Buffer.concat([this.#oversize.tail, bytes.subarray(-edgeBytes)]).subarray(
      -edgeBytes,
    );
  }

  #endLine(): void {
    const oversize = this.#oversize;
    if (oversize !== undefined) {
      this.#oversize = undefined;
      this.#handlers.onOversizeLine({
        head: oversize.head,
        tail: oversize.tail.toString(),
        bytes: oversize.bytes,
      });
      return;
    }
    const bytes = this.#pending.subarray(0, this.#pendingBytes);
    // The same text for ASCII, at a fraction of the cost of decoding a megabyte as UTF-8.
    const line = bytes.toString(isAscii(bytes) ? 'latin1' : 'utf8');
    if (this.#pending.length > capacityBytesMin) this.#forget();
    this.#pendingBytes = 0;
    this.#handlers.onLine(line);
  }

  #forget(): void {
    this.#pending = Buffer.alloc(0);
    this.#pendingBytes = 0;
  }
}
