import { describe, expect, test } from 'vitest';
import { canCarryExactNumbers, type JsonValue, parseJson } from '../../../src/core/json.ts';
import { numericCopy, readArguments } from '../../../src/tools/arguments.ts';

const nested = (depth: number): string => `${'{"a":'.repeat(depth)}1${'}'.repeat(depth)}`;

const refusal = (raw: JsonValue | undefined): string => {
  const read = readArguments(raw);
  if (read.ok) throw new Error(`accepted: ${JSON.stringify(raw)}`);
  return read.error.message;
};

describe('readArguments', () => {
  test.each([undefined, null, '', '   ', '\n', '{}', 'null', ' null '])(
    'takes %j as no arguments (O04)',
    (raw) => {
      expect(readArguments(raw)).toEqual({
        ok: true,
        value: { value: {}, parsed: {}, hasExactNumbers: false },
      });
    },
  );

  test('takes an object as it is, text or not', () => {
    const value = { depth: '3', sheet: '1', off: false, tags: '["x"]', none: null };
    expect(readArguments(value)).toEqual({
      ok: true,
      value: { value, parsed: value, hasExactNumbers: false },
    });
    expect(readArguments(JSON.stringify(value))).toEqual(readArguments(value));
  });

  test('unwraps an object that was encoded twice, once, and says so (O06 a)', () => {
    const once = '{"sheet":"1"}';
    expect(readArguments(JSON.stringify(once))).toEqual({
      ok: true,
      value: { value: { sheet: '1' }, parsed: once, mended: 'unwrapped', hasExactNumbers: false },
    });
    expect(refusal(JSON.stringify(JSON.stringify(once)))).toBe(
      'the arguments must be a JSON object, not a string of 19 characters',
    );
  });

  test.each([
    ['[]', 'the arguments must be a JSON object, not an array of 0 items'],
    ['5', 'the arguments must be a JSON object, not an integer'],
    ['true', 'the arguments must be a JSON object, not a boolean'],
    ['"hello"', 'the arguments must be a JSON object, not a string of 5 characters'],
    ['"null"', 'the arguments must be a JSON object, not a string of 4 characters'],
    ['""', 'the arguments must be a JSON object, not a string of 0 characters'],
    ['"[]"', 'the arguments must be a JSON object, not a string of 2 characters'],
    [[1], 'the arguments must be a JSON object, not an array of 1 item'],
    [5, 'the arguments must be a JSON object, not an integer'],
    [false, 'the arguments must be a JSON object, not a boolean'],
    ['9007199254740993', 'the arguments must be a JSON object, not an integer'],
    [
      '{"id":',
      'the arguments cannot be read: broken JSON at position 6: expected a value, but the text ends there',
    ],
    [
      '{"a":1}{"b":2}',
      'the arguments cannot be read: broken JSON at position 7: expected the end of the text',
    ],
    [
      '{"a":1,}',
      'the arguments cannot be read: broken JSON at position 7: expected a member name in double quotes',
    ],
    ['{"a":NaN}', 'the arguments cannot be read: broken JSON at position 5: expected a value'],
    [
      '{"a":1e999}',
      'the arguments cannot be read: the number at position 5 is too large; only finite numbers are accepted',
    ],
    ['{"a":1,"a":2}', 'the arguments cannot be read: the member name "a" appears twice, again at position 7'],
    [nested(65), 'the arguments cannot be read: nested deeper than 64 levels at position 320'],
  ])('refuses %j in words that the model can act on', (raw, message) => {
    expect(refusal(raw)).toBe(message);
  });

  test('accepts 64 levels', () => {
    expect(readArguments(nested(64)).ok).toBe(true);
  });

  test('bounds the length of the text', () => {
    expect(readArguments('{"a":"b"}', { charsMax: 9 }).ok).toBe(true);
    expect(readArguments('{"a":"bc"}', { charsMax: 9 })).toEqual({
      ok: false,
      error: { path: '', message: 'the arguments are 10 characters long; at most 9 are accepted' },
    });
  });

  test('repeats no value', () => {
    for (const text of ['{"a":"canary-value"', '["canary-value"]', '"canary-value"', '{"a":canary-value}']) {
      expect(refusal(text)).not.toContain('canary');
    }
  });

  test('carries whole numbers beyond 2^53 exactly, or refuses them naming the place (O06 e)', () => {
    const text = '{"id":1917043659912705296,"in":[{"a/b":-9007199254740993}]}';
    const read = readArguments(text);
    if (canCarryExactNumbers) {
      expect(read).toMatchObject({ ok: true, value: { hasExactNumbers: true } });
      expect(JSON.stringify(read.ok && read.value.value)).toBe(text);
    } else {
      const message =
        'the number at /id has more digits than can be passed on exactly; send a string if the tool takes one';
      expect(read).toEqual({ ok: false, error: { path: '/id', message } });
    }
  });

  test('keeps __proto__ as a member of its own (O22)', () => {
    const read = readArguments('{"__proto__":{"isAdmin":true},"a":1}');
    expect(JSON.stringify(read.ok && read.value.value)).toBe('{"__proto__":{"isAdmin":true},"a":1}');
    expect(({} as { isAdmin?: boolean }).isAdmin).toBeUndefined();
  });
});

test('a numeric copy has doubles in place of exact numbers and leaves the original alone', () => {
  const parsed = parseJson(
    '{"id":9007199254740993,"in":[1,{"__proto__":9007199254740993}],"s":"9007199254740993"}',
    { depthMax: 9 },
  );
  if (!parsed.ok) throw new Error(parsed.error.message);
  const before = JSON.stringify(parsed.value);
  expect(JSON.stringify(numericCopy(parsed.value))).toBe(
    '{"id":9007199254740992,"in":[1,{"__proto__":9007199254740992}],"s":"9007199254740993"}',
  );
  expect(JSON.stringify(parsed.value)).toBe(before);
});
