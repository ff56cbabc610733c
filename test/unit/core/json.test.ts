import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  canCarryExactNumbers,
  canonicalJson,
  ExactNumber,
  isJsonObject,
  type JsonValue,
  parseJson,
  pointerStep,
} from '../../../src/core/json.ts';

const parse = (text: string) => parseJson(text, { depthMax: 64 });

const read = (text: string): JsonValue => {
  const parsed = parse(text);
  if (!parsed.ok) throw new Error(parsed.error.message);
  return parsed.value;
};

const messageOf = (text: string): string => {
  const parsed = parse(text);
  if (parsed.ok) throw new Error(`accepted: ${text}`);
  return parsed.error.message;
};

describe('parseJson', () => {
  test('reads what JSON.parse writes, whatever it is', () => {
    fc.assert(
      fc.property(fc.json({ depthSize: 'medium' }), fc.constantFrom(undefined, 2, '\t'), (text, space) => {
        const spaced = JSON.stringify(JSON.parse(text), undefined, space);
        expect(read(spaced)).toEqual(JSON.parse(spaced));
      }),
    );
  });

  test('accepts no text that JSON.parse refuses, and reads the others alike', () => {
    const pieces = fc.constantFrom(
      '{',
      '}',
      '[',
      ']',
      ',',
      ':',
      '"',
      '"a"',
      '\\',
      '\\u0041',
      '1',
      '-',
      '0',
      '.5',
      'e3',
      ' ',
      '\n',
      'true',
      'nul',
      'l',
      '\u0001',
    );
    fc.assert(
      fc.property(fc.array(pieces, { maxLength: 12 }), (parts) => {
        const text = parts.join('');
        const parsed = parse(text);
        if (parsed.ok) expect(parsed.value).toEqual(JSON.parse(text));
        else if (parsed.error.kind === 'syntax') expect(() => JSON.parse(text)).toThrow(SyntaxError);
      }),
      { numRuns: 2000 },
    );
  });

  test('reads long texts with long strings like short ones', () => {
    const value = Array.from({ length: 2000 }, (_, index) => ({
      name: `a name of some length ${index}`,
      text: 'a "b"\n',
    }));
    expect(read(JSON.stringify(value))).toEqual(value);
  });

  test.each([
    ['{"a":1', 'broken JSON at position 6: expected a comma or }, but the text ends there'],
    ['{"a":1 "b":2}', 'broken JSON at position 7: expected a comma or }'],
    ['{"a":1,}', 'broken JSON at position 7: expected a member name in double quotes'],
    ["{'a':1}", 'broken JSON at position 1: expected a member name in double quotes'],
    ['{"a" 1}', 'broken JSON at position 5: expected a colon'],
    ['{"a":True}', 'broken JSON at position 5: expected a value'],
    ['{"a":NaN}', 'broken JSON at position 5: expected a value'],
    ['{"a":-Infinity}', 'broken JSON at position 5: expected a value'],
    ['[1,]', 'broken JSON at position 3: expected a value'],
    ['[1 2]', 'broken JSON at position 3: expected a comma or ]'],
    ['[01]', 'broken JSON at position 2: expected a comma or ]'],
    ['{}{}', 'broken JSON at position 2: expected the end of the text'],
    ['```json\n{}\n```', 'broken JSON at position 0: expected a value'],
    ['"abc', 'broken JSON at position 4: expected a closing double quote, but the text ends there'],
    ['"abc\\', 'broken JSON at position 6: expected a closing double quote, but the text ends there'],
    ['"a\tb"', 'broken JSON at position 2: expected an escape instead of the raw control character'],
    ['"\\x"', 'broken JSON at position 0: expected a string with valid escapes'],
    ['\ufeff{}', 'broken JSON at position 0: expected a value'],
    ['', 'broken JSON at position 0: expected a value, but the text ends there'],
  ])('says where %j is broken', (text, message) => {
    expect(messageOf(text)).toBe(message);
  });

  test.each(['{"a":1,"a":2}', '{"a":1,"\\u0061":2}', '{"x":{"b":[{"a":1,"a":1}]}}'])(
    'refuses the name that is twice in %s',
    (text) => {
      expect(parse(text)).toMatchObject({
        ok: false,
        error: { kind: 'duplicate_name', position: text.lastIndexOf('"', text.lastIndexOf(':') - 2) },
      });
    },
  );

  test('shows no more than 64 printable characters of a duplicate name', () => {
    const name = `\\u0007${'n'.repeat(500)}`;
    expect(messageOf(`{"${name}":1,"${name}":2}`).length).toBeLessThan(150);
    expect(messageOf(`{"${name}":1,"${name}":2}`)).not.toContain('\u0007');
  });

  test('refuses nesting over the limit and accepts it up to there', () => {
    expect(parseJson('[[[]]]', { depthMax: 3 }).ok).toBe(true);
    expect(parseJson('[[[[]]]]', { depthMax: 3 })).toMatchObject({
      ok: false,
      error: { kind: 'too_deep', position: 3 },
    });
    expect(parse('['.repeat(100_000))).toMatchObject({ ok: false, error: { kind: 'too_deep' } });
    expect(parseJson('5', { depthMax: 0 }).ok).toBe(true);
  });

  test('refuses a text of more values than anybody means, before it has read them all', () => {
    expect(parse(`[${'0,'.repeat(249_998)}0]`).ok).toBe(true);
    const flood = `[${'[],'.repeat(5_000_000)}[]]`;
    expect(parse(flood)).toMatchObject({ ok: false, error: { kind: 'too_many_values', position: 749_998 } });
  });

  test('refuses numbers that would become infinite', () => {
    expect(parse('{"a":1e999}')).toMatchObject({ ok: false, error: { kind: 'not_finite', position: 5 } });
    expect(parse(`-${'9'.repeat(400)}`)).toMatchObject({ ok: false, error: { kind: 'not_finite' } });
  });

  test('lets lone surrogates pass', () => {
    expect(read('"\\ud800"')).toBe('\ud800');
    expect(read('"\ud800"')).toBe('\ud800');
  });

  test('makes __proto__, constructor and prototype ordinary members (O22)', () => {
    const value = read('{"__proto__":{"isAdmin":true},"constructor":1,"prototype":2}') as object;
    expect(Object.keys(value)).toEqual(['__proto__', 'constructor', 'prototype']);
    expect(Object.getPrototypeOf(value)).toBe(Object.prototype);
    expect(({} as { isAdmin?: boolean }).isAdmin).toBeUndefined();
    expect(JSON.stringify(value)).toBe('{"__proto__":{"isAdmin":true},"constructor":1,"prototype":2}');
    expect(parse('{"__proto__":1,"__proto__":2}')).toMatchObject({ error: { kind: 'duplicate_name' } });
  });

  test('stays linear on long runs of digits', () => {
    expect(read(`1${'0'.repeat(400_000)}1e-399995`)).toBe(1_000_000);
    expect(parse(`1${'0'.repeat(400_000)}1e-399980`)).toMatchObject({ ok: true });
  });
});

describe('numbers that a double rounds (SC-13)', () => {
  test.each([
    '9007199254740993',
    '-9007199254740993',
    '1917043659912705296',
    '9.007199254740993e15',
    '90071992547409930e-1',
    '9007199254740993.0',
    '123456789012345678901',
  ])('%s is kept exactly', (text) => {
    const value = read(text);
    expect(value).toBeInstanceOf(ExactNumber);
    expect((value as ExactNumber).text).toBe(text);
  });

  test.each([
    ['9007199254740991', 9007199254740991],
    ['9007199254740992', 9007199254740992],
    ['0.9007199254740994e16', 9007199254740994],
    ['1e20', 1e20],
    ['1e23', 1e23],
    ['123456789012345680000', 123456789012345680000],
    ['0.30000000000000000001', 0.3],
    ['1e-999', 0],
  ])('%s is an ordinary number', (text, number) => {
    expect(read(text)).toBe(number);
  });

  test('every whole number keeps its value', () => {
    fc.assert(
      fc.property(fc.bigInt({ min: -(10n ** 20n), max: 10n ** 20n }), (number) => {
        const value = read(String(number));
        expect(BigInt(canonicalJson(value))).toBe(number);
        if (canCarryExactNumbers) expect(BigInt(JSON.stringify(value))).toBe(number);
      }),
    );
  });

  test('JSON.stringify writes all digits where the runtime can', () => {
    const id = canCarryExactNumbers ? '1917043659912705296' : '1917043659912705300';
    expect(JSON.stringify({ ids: [read('1917043659912705296')] })).toBe(`{"ids":[${id}]}`);
  });
});

describe('canonicalJson', () => {
  test('does not depend on the order of members or the spelling of numbers', () => {
    expect(canonicalJson(read('{"b":[1.0,1e2,-0],"a":{"d":"\\u00e9","c":null}}'))).toBe(
      '{"a":{"c":null,"d":"é"},"b":[1,100,0]}',
    );
    expect(canonicalJson(read('{"\\ud83d\\ude00":1,"\\ufb33":2,"a":3}'))).toBe('{"a":3,"😀":1,"\ufb33":2}');
    expect(canonicalJson({})).toBe('{}');
    expect(canonicalJson([])).toBe('[]');
  });

  test('is stable, and JSON of the same value', () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        const text = canonicalJson(value as JsonValue);
        expect(canonicalJson(read(text))).toBe(text);
        expect(JSON.parse(text)).toEqual(JSON.parse(JSON.stringify(value)));
      }),
    );
  });

  test('writes exact numbers as their digits, whatever their spelling', () => {
    for (const text of [
      '9007199254740993',
      '9.007199254740993e15',
      '90071992547409930e-1',
      '0.9007199254740993E+16',
    ]) {
      expect(canonicalJson(read(`[${text}]`))).toBe('[9007199254740993]');
    }
    expect(canonicalJson(read('-12345678901234567891000'))).toBe('-12345678901234567891000');
  });

  test('survives any nesting', () => {
    let value: JsonValue = 1;
    for (let depth = 0; depth < 50_000; depth += 1) value = depth % 2 === 0 ? [value] : { a: value };
    expect(canonicalJson(value)).toHaveLength(25_000 * 2 + 25_000 * 6 + 1);
  });

  test('keeps __proto__ as a member', () => {
    expect(canonicalJson(read('{"a":1,"__proto__":{"x":1}}'))).toBe('{"__proto__":{"x":1},"a":1}');
  });
});

test('only objects are JSON objects', () => {
  expect([{}, [], null, 'a', new ExactNumber('1'), undefined].map(isJsonObject)).toEqual([
    true,
    false,
    false,
    false,
    false,
    false,
  ]);
});

test('a step of a JSON Pointer escapes what RFC 6901 says', () => {
  expect(pointerStep('a/b~c')).toBe('/a~1b~0c');
});
