import { describe, expect, test, vi } from 'vitest';
import type { JsonValue } from '../../../src/core/json.ts';
import { describeFinding } from '../../../src/tools/findings.ts';
import { type GatedSchema, gateSchema } from '../../../src/tools/schema-gate.ts';
import { ajvOptions, compileValidator, type Validator } from '../../../src/tools/validator.ts';

const gatedOf = (schema: unknown): GatedSchema => {
  const gated = gateSchema(schema);
  if (!gated.ok) throw new Error(gated.error);
  return gated.value;
};

const compiled = (gated: GatedSchema): Validator => {
  const validator = compileValidator(gated);
  if (!validator.ok) throw new Error(validator.error);
  return validator.value;
};

const validatorOf = (schema: unknown): Validator => compiled(gatedOf(schema));

/** Validates one property, and returns the findings as the model reads them. */
const told = (property: unknown, value: JsonValue): string[] =>
  validatorOf({ properties: { p: property } })({ p: value }).map(describeFinding);

test('the options of ajv are exactly these (SC-7)', () => {
  const { formats, code, ...options } = ajvOptions(false, gatedOf({ pattern: '^a$' }).patterns);
  expect(options).toEqual({
    strict: false,
    allErrors: false,
    ownProperties: true,
    meta: false,
    validateSchema: false,
    inlineRefs: false,
    validateFormats: true,
    messages: false,
    logger: false,
    loopRequired: 4,
    loopEnum: 4,
  });
  expect(Object.keys(code ?? {})).toEqual(['regExp', 'optimize']);
  expect(code?.optimize).toBe(false);
  expect(code?.regExp?.('^a$', 'u')).toMatchObject({ steps: expect.any(Number) });
  expect(Object.keys(formats ?? {}).sort()).toEqual(
    'binary byte date date-time double duration email float hostname int32 int64 ipv4 ipv6 iso-date-time iso-time json-pointer json-pointer-uri-fragment password regex relative-json-pointer time uri uri-reference uri-template uuid'.split(
      ' ',
    ),
  );
  expect(() => code?.regExp?.('other', 'u')).toThrow('has not seen');
  expect(ajvOptions(true, new Map()).allErrors).toBe(true);
});

describe('schemas that one shared validator cannot hold (O05)', () => {
  test('t1: prefixItems of 2020-12', () => {
    const schema = {
      $schema: 'https://json-schema.org/draft/2020-12/schema',
      properties: { p: { type: 'array', prefixItems: [{ type: 'string' }, { type: 'integer' }] } },
    };
    expect(validatorOf(schema)({ p: ['a', 1] })).toEqual([]);
    expect(validatorOf(schema)({ p: ['a', 'b'] }).map(describeFinding)).toEqual([
      '/p/1: expected integer, got a string of 1 character',
    ]);
  });

  test('t2: definitions of draft-07', () => {
    const schema = {
      $schema: 'http://json-schema.org/draft-07/schema#',
      properties: { p: { $ref: '#/definitions/P' } },
      definitions: { P: { items: [{ type: 'string' }] } },
    };
    expect(validatorOf(schema)({ p: ['a', 1] })).toEqual([]);
    expect(validatorOf(schema)({ p: [1] })).toHaveLength(1);
  });

  test('t3 and t4: the same $id for different schemas', () => {
    const $id = 'https://schema.test/args';
    const needsA = validatorOf({ $id, required: ['a'] });
    const needsB = validatorOf({ $id, required: ['b'] });
    expect([needsA({ a: 1 }), needsB({ b: 1 })]).toEqual([[], []]);
    expect([needsA({ b: 1 }).length, needsB({ a: 1 }).length]).toEqual([1, 1]);
  });

  test('t7: vendor keywords and unknown formats, without a word on the console', () => {
    const written = (['log', 'warn', 'error'] as const).map((method) => vi.spyOn(console, method));
    expect(told({ type: 'integer', 'x-vendor': { $id: 5 }, format: 'uint64' }, 5)).toEqual([]);
    for (const spy of written) expect(spy).not.toHaveBeenCalled();
    vi.restoreAllMocks();
  });

  test('t9: a schema without a type takes any object', () => {
    expect(validatorOf({})({ a: 1 })).toEqual([]);
  });

  test('an $id of the meta-schema, and one that another tool uses, mean nothing', () => {
    expect(
      validatorOf({ $id: 'https://json-schema.org/draft/2020-12/schema', required: ['a'] })({}),
    ).toHaveLength(1);
  });

  test('a schema that passes the gate but not ajv is an error that blames the schema', () => {
    const gated = {
      dialect: '2020-12',
      schema: { type: 'nonsense' },
      cost: 1,
      patternSteps: 0,
      patterns: new Map(),
      isRecursive: false,
    } as const;
    expect(compileValidator(gated)).toEqual({
      ok: false,
      error: expect.stringMatching(/^the schema cannot be compiled: ./),
    });
  });
});

describe('values are judged as they are (O06)', () => {
  const schema = {
    type: 'object',
    additionalProperties: false,
    properties: {
      depth: { type: 'integer', default: 1 },
      sheet: { type: 'string' },
      tags: { type: 'array', items: { type: 'string' } },
      off: { type: 'boolean' },
    },
  };

  test.each<[JsonValue, string[]]>([
    [{ tags: '["x"]' }, ['/tags: expected array, got a string of 5 characters']],
    [{ depth: '3' }, ['/depth: expected integer, got a string of 1 character']],
    [{ sheet: '1' }, []],
    [{ sheet: 1 }, ['/sheet: expected string, got an integer']],
    [{ off: 0 }, ['/off: expected boolean, got an integer']],
    [{ sheet: '1', extra: true }, ['/extra: expected no member of this name, got a boolean']],
    [{ depth: null }, ['/depth: expected integer, got null']],
  ])('%j', (value, findings) => {
    const before = JSON.stringify(value);
    expect(validatorOf(schema)(value).map(describeFinding)).toEqual(findings);
    expect(JSON.stringify(value)).toBe(before);
  });

  test.each([
    [0.01, 19.99, true],
    [0.01, 19.995, false],
    [0.01, 123_456_789.01, true],
    [2, 9_007_199_254_740_991, false],
    [0.123456789, 1e308, false],
  ])('a multiple of %d: %d is %s (SC-13)', (multipleOf, value, isValid) => {
    expect(told({ multipleOf }, value).length === 0).toBe(isValid);
  });
});

describe('names from the object prototype (O22)', () => {
  test('are required like any other', () => {
    expect(
      validatorOf({ type: 'object', required: ['toString', 'constructor'] })({}).map(describeFinding),
    ).toEqual([
      '/toString: expected this required member, got nothing',
      '/constructor: expected this required member, got nothing',
    ]);
  });

  test('are refused by a closed schema, by name, and are members like any other for an open one', () => {
    const value = JSON.parse('{"__proto__":{"isAdmin":true},"a":1}') as JsonValue;
    expect(
      validatorOf({ properties: { a: {} }, additionalProperties: false })(value).map(describeFinding),
    ).toEqual(['/__proto__: expected no member of this name, got an object with 1 member']);
    expect(validatorOf({ properties: { a: {} } })(value)).toEqual([]);
    expect(({} as { isAdmin?: boolean }).isAdmin).toBeUndefined();
  });

  test('are declared and judged like any other', () => {
    expect(validatorOf({ properties: { constructor: { type: 'string' } } })({})).toEqual([]);
    expect(validatorOf({ properties: { constructor: { type: 'string' } } })({ constructor: 1 })).toHaveLength(
      1,
    );
  });
});

describe('hostile schemas and values (O23, SC-9)', () => {
  const deep = (levels: number): JsonValue => (levels === 0 ? {} : { a: deep(levels - 1) });
  const again = { properties: { a: { $ref: '#' } }, required: ['a'] };

  test('a backtracking pattern is harmless, in values and in names', () => {
    const evil = `${'a'.repeat(30)}!`;
    expect(told({ pattern: '^(a+)+$' }, evil)).toEqual([
      '/p: expected a string that matches ^(a+)+$, got a string of 31 characters',
    ]);
    expect(validatorOf({ patternProperties: { '^(a+)+$': false } })({ [evil]: 1 })).toEqual([]);
  });

  test('work that doubles on every level is stopped, blames nothing wrongly, and does not spoil the next call', () => {
    const validate = validatorOf({ anyOf: [again, again, { maxProperties: 0, minProperties: 1 }] });
    const stopped = [
      {
        path: '',
        expected: 'a value that can be checked in 50 ms; try a smaller one',
        received: 'an object with 1 member',
      },
    ];
    expect(validate(deep(60))).toEqual(stopped);
    expect(validate(deep(1))).not.toEqual(stopped);
    expect(validate({ a: [] })).not.toEqual(stopped);
    expect(validate(deep(60))).toEqual(stopped);
  });

  test('a heavy pattern on a long string is stopped', () => {
    expect(told({ pattern: '^((a{0,30}){0,30})$' }, `${'a'.repeat(500_000)}!`)).toEqual([
      'the value: expected a value that can be checked in 50 ms; try a smaller one, got an object with 1 member',
    ]);
  });

  test('a pattern that was stopped is made anew, and else is the one that the gate compiled', () => {
    const endless = {
      test: () => {
        for (;;);
      },
      toString: () => 'a',
      steps: 1_000_000,
      renew: vi.fn(),
    };
    const gated = { ...gatedOf({ properties: { p: { pattern: 'a' } } }), patternSteps: 1_000_000 };
    const validate = compiled({ ...gated, patterns: new Map([['a', endless]]) });
    expect(validate({ p: 1 })).toEqual([]);
    expect(endless.renew).not.toHaveBeenCalled();
    expect(validate({ p: 'b' })).toMatchObject([{ expected: expect.stringContaining('50 ms') }]);
    expect(endless.renew).toHaveBeenCalledTimes(1);
  });

  test('of very many things that are wrong the first one is told', () => {
    const required = Array.from({ length: 1_000 }, (_, index) => `r${index}`);
    const empty = (length: number): JsonValue => Array.from({ length }, () => ({}));
    for (const items of [1, 2, 70, 3_000]) {
      expect(told({ items: { required } }, empty(items))).toHaveLength(items === 1 ? 5 : 1);
    }
  });

  test('large values are judged like small ones', () => {
    const many = Array.from({ length: 30_000 }, (_, index) => index);
    expect(told({ items: { type: 'integer' }, uniqueItems: true }, many)).toEqual([]);
    expect(told({ items: { type: 'integer' } }, [...many, 'x'])).toEqual([
      '/p/30000: expected integer, got a string of 1 character',
    ]);
  });

  test('a value too deep for the stack is a finding, not a crash', () => {
    const validate = validatorOf({ properties: { a: { $ref: '#' } } });
    let value: JsonValue = {};
    for (let level = 0; level < 50_000; level += 1) value = { a: value };
    // On a busy machine the bound on time may come before that of the stack.
    const told = expect.stringMatching(/the schema of the tool itself|can be checked in/);
    expect(validate(value)).toMatchObject([{ path: '', expected: told }]);
  });

  test('uniqueItems compares values, not spellings', () => {
    expect(
      told({ uniqueItems: true }, [
        { a: 1, b: [2] },
        { b: [2], a: 1 },
      ]),
    ).toEqual(['/p: expected items that all differ, got an array of 2 items']);
    expect(told({ uniqueItems: true }, [1, '1', [1], { a: 1 }, null, 'null', true])).toEqual([]);
    expect(told({ uniqueItems: false }, [1, 1])).toEqual([]);
  });

  test('a recursive schema works as usual on ordinary values', () => {
    const tree = {
      type: 'object',
      properties: { name: { type: 'string' }, kids: { type: 'array', items: { $ref: '#' } } },
      required: ['name'],
    };
    expect(validatorOf(tree)({ name: 'a', kids: [{ name: 'b' }, { name: 'c', kids: [] }] })).toEqual([]);
    expect(validatorOf(tree)({ name: 'a', kids: [{ kids: [] }] }).map(describeFinding)).toEqual([
      '/kids/0/name: expected this required member, got nothing',
    ]);
  });
});

describe('findings', () => {
  test.each<[unknown, JsonValue, string]>([
    [{ type: ['string', 'null'] }, 1, '/p: expected string or null, got an integer'],
    [
      { enum: ['low', 'high'] },
      'mid',
      '/p: expected one of 2 allowed values ["low","high"], got a string of 3 characters',
    ],
    [{ const: 'P1' }, 'P2', '/p: expected exactly the allowed value ["P1"], got a string of 2 characters'],
    [{ const: null }, 'P2', '/p: expected exactly the allowed value [null], got a string of 2 characters'],
    [
      { format: 'date-time' },
      'soon',
      '/p: expected a string in the format date-time, got a string of 4 characters',
    ],
    [{ minimum: 3 }, 2.5, '/p: expected a number >= 3, got a number'],
    [{ exclusiveMaximum: 3 }, 3, '/p: expected a number < 3, got an integer'],
    [{ multipleOf: 0.5 }, 0.3, '/p: expected a multiple of 0.5, got a number'],
    [{ minLength: 2 }, '', '/p: expected at least 2 characters, got a string of 0 characters'],
    [{ maxLength: 1 }, 'ab', '/p: expected at most 1 character, got a string of 2 characters'],
    [{ minItems: 1 }, [], '/p: expected at least 1 item, got an array of 0 items'],
    [{ maxItems: 1 }, [1, 2], '/p: expected at most 1 item, got an array of 2 items'],
    [{ prefixItems: [{}], items: false }, [1, 2], '/p: expected at most 1 item, got an array of 2 items'],
    [
      { prefixItems: [{}], unevaluatedItems: false },
      [1, 2],
      '/p: expected at most 1 item, got an array of 2 items',
    ],
    [{ minProperties: 1 }, {}, '/p: expected at least 1 member, got an object with 0 members'],
    [{ maxProperties: 0 }, { a: 1 }, '/p: expected at most 0 members, got an object with 1 member'],
    [
      { propertyNames: { maxLength: 1 } },
      { ab: 1 },
      '/p/ab: expected a member name that the schema allows, got an integer',
    ],
    [
      { dependentRequired: { a: ['b'] } },
      { a: 1 },
      '/p/b: expected this member, which a requires, got nothing',
    ],
    [{ dependencies: { a: ['b'] } }, { a: 1 }, '/p/b: expected this member, which a requires, got nothing'],
    [
      { properties: { a: {} }, unevaluatedProperties: false },
      { b: 1 },
      '/p/b: expected no member of this name, got an integer',
    ],
    [
      { contains: { type: 'string' } },
      [1],
      '/p: expected a value that fits the keyword contains of the schema, got an array of 1 item',
    ],
    [
      { not: { type: 'string' } },
      'a',
      '/p: expected a value that fits the keyword not of the schema, got a string of 1 character',
    ],
    [false, 1, '/p: expected nothing here, got an integer'],
    [
      JSON.parse('{"if":{"type":"string"},"then":{"minLength":2}}'),
      'a',
      '/p: expected at least 2 characters, got a string of 1 character',
    ],
    [{ anyOf: [{ type: 'string' }, { type: 'null' }] }, 1, '/p: expected string or null, got an integer'],
    [
      { anyOf: [{ type: 'array', items: { type: 'string' } }, { type: 'null' }] },
      [1],
      '/p/0: expected string, got an integer',
    ],
    [
      { anyOf: [{ $ref: '#/$defs/A' }, { type: 'null' }] },
      {},
      '/p/k: expected this required member, got nothing',
    ],
    [
      { oneOf: [{ properties: { k: { const: 1 } } }, { properties: { k: { const: 2 } } }] },
      { k: 3 },
      '/p: expected a value that fits exactly one of the alternatives of the schema (oneOf), got an object with 1 member',
    ],
    [
      { oneOf: [{ type: 'integer' }, { minimum: 1 }] },
      2,
      '/p: expected a value that fits exactly one of the alternatives of the schema (oneOf), got an integer',
    ],
  ])('%j', (property, value, finding) => {
    const validate = validatorOf({
      properties: { p: property },
      $defs: { A: { type: 'object', required: ['k'] } },
    });
    expect(validate({ p: value }).map(describeFinding)).toEqual([finding]);
  });

  test('are all told at once, five at most', () => {
    const names = ['a', 'b', 'c', 'd', 'e', 'f', 'g'];
    expect(validatorOf({ required: names.slice(0, 3) })({}).map(({ path }) => path)).toEqual([
      '/a',
      '/b',
      '/c',
    ]);
    expect(validatorOf({ required: names })({})).toHaveLength(5);
  });

  test('never hold the value, are printable, and fit into 2 KB whatever comes (SC-14)', () => {
    const canary = 'canary-secret';
    const wild = `\u0007\u202e${'名'.repeat(300)}`;
    const schema = {
      additionalProperties: false,
      required: [wild],
      properties: {
        s: { maxLength: 1 },
        e: { enum: [wild, wild + 1, wild + 2, { deep: wild }] },
        f: { pattern: `^${'x'.repeat(100)}$` },
        n: { type: 'number' },
      },
    };
    const findings = validatorOf(schema)({
      s: canary,
      e: canary,
      f: canary,
      n: canary,
      [`${wild}/x`]: 1,
      [`${wild}~y`]: 2,
    });
    const text = JSON.stringify(findings);
    expect(findings.length).toBeGreaterThan(1);
    expect(text).not.toContain('canary');
    expect(text).not.toMatch(/\\u0007|\u202e/);
    expect(Buffer.byteLength(text)).toBeLessThanOrEqual(2_048);
  });
});
