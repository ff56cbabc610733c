import { RE2JS } from 're2js';
import { fail, ok, type Result } from '../core/result.ts';

/** A regular expression of a schema, run by RE2 in time linear in the text. */
export interface Pattern {
  readonly test: (text: string) => boolean;
  /** The source. ajv files compiled patterns under this text, so two patterns must never share it (SC-7). */
  readonly toString: () => string;
  /** Size of the compiled program: the upper bound of the steps that one character can cost. */
  readonly steps: number;
  /** Compiles it anew at the next test, for a test that was interrupted may have left it in the middle of a step. */
  readonly renew: () => void;
}

/**
 * Compiles a pattern of ECMA-262 for RE2, with the meaning it has in JavaScript. Look-around and back-references
 * cannot be matched in linear time and are refused, with the reason (SC-8).
 */
export function compilePattern(source: string): Result<Pattern, string> {
  if (!isJavaScriptPattern(source)) return fail('is not a regular expression');
  try {
    const compile = (): RE2JS => RE2JS.compile(RE2JS.translateRegExp(spellForRe2(source)));
    let compiled: RE2JS | undefined = compile();
    return ok({
      test: (text) => {
        compiled ??= compile();
        return compiled.test(text);
      },
      toString: () => source,
      steps: compiled.programSize(),
      renew: () => {
        compiled = undefined;
      },
    });
  } catch {
    return fail(
      'cannot be matched in linear time (look-around, back-references, long property names) or is too large',
    );
  }
}

const sizeToken = /\\.|\[(?:\\.|[^\]\\])*\]|\((?:\?:)?|\{(\d+)(?:,(\d*))?\}|./gs;

/**
 * What a pattern takes to compile, told from its text: its characters, and its characters, classes and escapes once
 * more for every repeat that it counts. `(a{100}){9}` has 9 characters and 900 repeats.
 */
export function patternSize(source: string): number {
  const around: number[] = [];
  let written = 0;
  let last = 0;
  for (const [token, min = '0', max = ''] of source.matchAll(sizeToken)) {
    if (token.startsWith('(')) {
      around.push(written);
      written = 0;
    } else if (token === ')') {
      last = written;
      written += around.pop() ?? 0;
    } else if (token.startsWith('{') && token.length > 1) {
      written += last * Math.max(0, Number(min) - 1, Number(max) - 1);
    } else {
      last = 1;
      written += 1;
    }
  }
  return source.length + around.reduce((sum, before) => sum + before, written);
}

/** JSON Schema asks for Unicode patterns; real schemas also hold escapes such as `\_`, which only the old mode reads. */
const isJavaScriptPattern = (source: string): boolean =>
  ['u', ''].some((flags) => {
    try {
      return new RegExp(source, flags) instanceof RegExp;
    } catch {
      return false;
    }
  });

/** White space of ECMA-262, wider than RE2's, and everything else; both fit inside brackets. */
const space = String.raw`\t-\r\x20\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}\x{feff}`;
const notSpace = String.raw`\x00-\x08\x0e-\x1f\x21-\x{9f}\x{a1}-\x{167f}\x{1681}-\x{1fff}\x{200b}-\x{2027}\x{202a}-\x{202e}\x{2030}-\x{205e}\x{2060}-\x{2fff}\x{3001}-\x{fefe}\x{ff00}-\x{10ffff}`;

/** An escaped surrogate pair, another escape, or one character. */
const patternToken = /\\u([dD][89abAB][\da-fA-F]{2})\\u([dD][c-fC-F][\da-fA-F]{2})|\\.|./gs;

/** Respells what RE2 reads differently from JavaScript: white space, the dot, brackets in brackets, odd escapes. */
function spellForRe2(source: string): string {
  let isInBrackets = false;
  return source.replace(patternToken, (token: string, high: string | undefined, low: string | undefined) => {
    if (high !== undefined && low !== undefined) {
      const pair = String.fromCharCode(Number.parseInt(high, 16), Number.parseInt(low, 16));
      return `\\x{${pair.codePointAt(0)?.toString(16)}}`;
    }
    switch (token) {
      case '[':
        if (isInBrackets) return '\\[';
        isInBrackets = true;
        return token;
      case ']':
        isInBrackets = false;
        return token;
      case '.':
        return isInBrackets ? token : String.raw`[^\n\r\x{2028}\x{2029}]`;
      case '\\s':
        return isInBrackets ? space : `[${space}]`;
      case '\\S':
        return isInBrackets ? notSpace : `[${notSpace}]`;
      case '\\0':
        return '\\x00';
      case '\\b':
        return isInBrackets ? '\\x08' : token;
      case '\\k':
        // RE2 would read the name of a back-reference as plain text; a numbered one it refuses.
        return '\\1';
      default:
        // Letters that JavaScript does not know after a backslash stand for themselves; RE2 has a meaning for some.
        return /^\\[ACEGHIJKLMNOQRTUVXYZaeghijlmoqyz]$/.test(token) ? token.slice(1) : token;
    }
  });
}
