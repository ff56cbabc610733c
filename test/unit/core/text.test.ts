import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { foreignText, printable, truncate, visible } from '../../../src/core/text.ts';

describe('text that is cut', () => {
  test('stays whole up to the limit', () => {
    expect(truncate('x'.repeat(50), 50)).toBe('x'.repeat(50));
  });

  test('says inside the limit how much is missing', () => {
    expect(truncate('x'.repeat(1_000), 100)).toBe(`${'x'.repeat(69)} [... 931 more characters cut]`);
    expect(truncate('x'.repeat(1_000), 101)).toBe(`${'x'.repeat(70)} [... 930 more characters cut]`);
  });

  test('ends before a character that would be split', () => {
    const text = `${'x'.repeat(69)}😀${'y'.repeat(100)}`;
    expect(truncate(text, 100)).toBe(`${'x'.repeat(69)} [... 102 more characters cut]`);
    expect(truncate(text, 101)).toBe(`${'x'.repeat(69)}😀 [... 100 more characters cut]`);
  });

  test('is never longer than the limit, and never holds half a character', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), fc.nat(120), (text, charsMax) => {
        const cut = truncate(text, charsMax);
        expect(cut.length).toBeLessThanOrEqual(charsMax);
        expect(cut.isWellFormed()).toBe(true);
      }),
    );
  });
});

describe('text of another party', () => {
  test('becomes one line without control characters (O24)', () => {
    const forged = 'a\r\nlevel=info msg="admin login ok"\u001b[2J\u0000\u0085b';
    expect(printable(forged)).toBe('a level=info msg="admin login ok"[2Jb');
  });

  test('loses what reorders or hides text', () => {
    expect(printable('a\u202eb\u2066c\u200bd\ufeffe\u{e0041}f\u2028g')).toBe('abcdefg');
  });

  test('keeps its lines where it may have several', () => {
    expect(visible('a\r\n\tb\u001b[2Jc\u202ed\u{e0041}e\ud800')).toBe('a\r\n\tb[2Jcde\ufffd');
  });

  test('is cut and never empty', () => {
    expect(foreignText('\u0000 \n', 50)).toBe('(no text)');
    expect(foreignText('  word  ', 50)).toBe('word');
    expect(foreignText('x'.repeat(200), 50)).toHaveLength(50);
  });
});
