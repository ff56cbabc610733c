import { describe, expect, test } from 'vitest';
import { compilePattern, type Pattern, patternSize } from '../../../src/tools/pattern.ts';

const compiled = (source: string): Pattern => {
  const pattern = compilePattern(source);
  if (!pattern.ok) throw new Error(`${source} ${pattern.error}`);
  return pattern.value;
};

const texts = [
  ...Array.from({ length: 0x3100 }, (_, code) => String.fromCharCode(code)),
  ...[
    '',
    '\ufeff',
    '\uff00',
    '\ud800',
    '😀',
    'aa',
    'a\n',
    'a,b',
    'a{,2}',
    'x',
    ' x ',
    '[a]',
    'a]',
    'k<n>',
    '12',
    '2026-01-01',
  ],
];

describe('a pattern', () => {
  test.each([
    '^\\s$',
    '^\\S$',
    '^[\\s]$',
    '^[^\\s]$',
    '^[\\S]$',
    '^[^\\S]$',
    '^.$',
    '^[.]$',
    '^[[:alpha:]]$',
    '^a$',
    '',
    '^\\w$',
    '^\\W$',
    '^\\d+$',
    '^\\ud83d\\ude00$',
    '^[\\ud83d\\ude00]$',
    '^\\u{1F600}$',
    '^\\A$',
    '^\\0$',
    '^\\cA$',
    '\\bx\\b',
    '^[\\b]$',
    '^[\\w-]$',
    '^(?<n>a)$',
    '^[^]$',
    '[]',
    '^\\p{L}$',
    '^\\P{L}$',
    '^\\/$',
    '^\\-$',
    '^\\_$',
    '^[]a]$',
    '^a{,2}$',
    '^{$',
    'a|b',
    '^\\x41$',
    '^[\\d\\D]$',
    '^😀$',
    '^\\d{4}-\\d{2}-\\d{2}$',
  ])('%s matches what it matches in JavaScript', (source) => {
    const pattern = compiled(source);
    let native: RegExp;
    try {
      native = new RegExp(source, 'u');
    } catch {
      native = new RegExp(source);
    }
    expect(texts.filter((text) => pattern.test(text) !== native.test(text))).toEqual([]);
  });

  test.each([
    '(?=a)',
    '(?!a)',
    '(?<=a)b',
    '(?<!a)b',
    '(a)\\1',
    '(?<n>a)\\k<n>',
    '\\p{Letter}',
    '((a{0,1000}){0,1000}){0,1000}',
  ])('%s is refused, for it has no linear form (SC-8)', (source) => {
    expect(compilePattern(source)).toMatchObject({
      ok: false,
      error: expect.stringContaining('linear time'),
    });
  });

  test.each(['(', '[a', 'a{2,1}', '*'])('%s is refused as no regular expression', (source) => {
    expect(compilePattern(source)).toEqual({ ok: false, error: 'is not a regular expression' });
  });

  test('is filed under its source, so that ajv never mixes two of them up (SC-7)', () => {
    expect(`${compiled('^a$')}`).toBe('^a$');
    expect(`${compiled('^b$')}`).toBe('^b$');
  });

  test('takes linear time on the text that stops a backtracking engine', () => {
    expect(compiled('^(a+)+$').test(`${'a'.repeat(100_000)}!`)).toBe(false);
  });
});

describe('the size of a pattern', () => {
  test.each([
    ['', 0],
    ['abc', 3 + 3],
    ['[a-z0-9\\]]{1,64}', 16 + 64],
    ['a{1000}', 7 + 1_000],
    ['\\d{4}-\\d{2}', 11 + 7],
    ['(ab){3}', 7 + 6],
    ['(?:ab){2,}', 10 + 4],
    ['((a{10}){20}){3}', 16 + 600],
    ['(a{10}b', 7 + 11],
    ['a{,5}', 5 + 5],
  ])('%j is %d', (source, size) => {
    expect(patternSize(source)).toBe(size);
  });

  test('bounds the compiled program, so that a large one is refused before it is compiled (SC-9)', () => {
    const sources = ['a{1000}', '(a?){500}', '(a|b){0,300}', '[^x]{20,40}', '((ab){10}c){20}', '(?:a*){100}'];
    for (const source of sources) expect(compiled(source).steps).toBeLessThanOrEqual(5 * patternSize(source));
  });
});
