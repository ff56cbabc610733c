import { fail, type Result } from '../core/result.ts';
import { compilePattern, type Pattern, patternSize } from './pattern.ts';

/** What the patterns of all tools of one server may come to, each different one counted once (see `patternSize`). */
export const serverPatternsSizeMax = 200_000;

/**
 * The patterns of one tool list. Each is compiled once, however often it stands there, and not again where the list
 * before had it; patterns over the bound of the server are refused before they are compiled (SC-9).
 */
export class PatternBook {
  readonly #earlier: ReadonlyMap<string, Result<Pattern, string>>;
  readonly #checked = new Map<string, Result<Pattern, string>>();
  #sizeLeft = serverPatternsSizeMax;

  constructor(earlier?: PatternBook) {
    this.#earlier = earlier === undefined ? new Map() : earlier.#checked;
  }

  /** The compiled pattern; the error is the reason why it cannot be used. */
  check(source: string): Result<Pattern, string> {
    const known = this.#checked.get(source);
    if (known !== undefined) return known;
    const size = patternSize(source);
    if (size > this.#sizeLeft) {
      return fail(
        `brings the patterns of all tools of the server to a size of more than ${serverPatternsSizeMax}`,
      );
    }
    this.#sizeLeft -= size;
    const checked = this.#earlier.get(source) ?? compile(source);
    this.#checked.set(source, checked);
    return checked;
  }
}

function compile(source: string): Result<Pattern, string> {
  const pattern = compilePattern(source);
  return pattern.ok ? pattern : fail(`is a pattern that ${pattern.error}`);
}
