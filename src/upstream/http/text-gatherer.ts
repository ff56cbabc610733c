/** A piece may keep the whole text alive that it was cut out of: so few are left as they came. */
const piecesMax = 64;

/**
 * Gathers a long text from pieces: in linear time, and in little more room than the text itself takes, however small
 * the pieces are.
 */
export class TextGatherer {
  #blocks: string[] = [];
  #pieces: string[] = [];
  #chars = 0;

  get chars(): number {
    return this.#chars;
  }

  add(piece: string): void {
    this.#chars += piece.length;
    this.#pieces.push(piece);
    if (this.#pieces.length < piecesMax) return;
    this.#blocks.push(this.#pieces.join(''));
    this.#pieces = [];
  }

  /** The whole text; begins anew. */
  take(): string {
    const text = [...this.#blocks, ...this.#pieces].join('');
    this.#blocks = [];
    this.#pieces = [];
    this.#chars = 0;
    return text;
  }
}
