import { describe, expect, test } from 'vitest';
import { ExactNumber, type JsonObject, type JsonValue } from '../../../src/core/json.ts';
import { openaiSchema } from '../../../src/formats/openai-schema.ts';
import { projectSchema } from '../../../src/tools/projection.ts';
import { strictSchema, withoutStrictNulls } from '../../../src/tools/strict-schema.ts';
import { looseFaults, strictFaults } from '../../support/provider-rules/openai.ts';

const text = { type: 'string' };
const object = (properties: JsonObject, rest: JsonObject = {}): JsonObject => ({
  type: 'object',
  properties,
  ...rest,
});

/** The strict form of a schema as its server sent it, which the rules of the API take. */
function strict(schema: JsonObject): JsonObject | undefined {
  const projection = projectSchema(schema, openaiSchema);
  if (!projection.ok) throw new Error(projection.error);
  const written = strictSchema(projection.value.schema);
  if (written !== undefined) expect([...looseFaults(written), ...strictFaults(written)]).toEqual([]);
  return written;
}

describe('the strict form', () => {
  test('closes objects, requires all properties and makes optional ones nullable', () => {
    const schema = object(
      {
        q: text,
        n: { type: 'integer', minimum: 1 },
        kind: { type: 'string', enum: ['a', 'b'], description: 'd' },
        mark: { const: 'x', title: 't' },
        list: { type: 'array', items: object({ a: text }, { required: ['a'] }) },
        at: { $ref: '#/$defs/At' },
      },
      { required: ['q'], $defs: { At: object({ x: { type: ['number', 'string'] } }) } },
    );
    expect(strict(schema)).toEqual({
      type: 'object',
      properties: {
        q: text,
        n: { type: ['integer', 'null'], minimum: 1 },
        kind: { type: ['string', 'null'], enum: ['a', 'b', null], description: 'd' },
        mark: { title: 't', anyOf: [{ const: 'x' }, { type: 'null' }] },
        list: {
          type: ['array', 'null'],
          items: { type: 'object', properties: { a: text }, required: ['a'], additionalProperties: false },
        },
        at: { anyOf: [{ $ref: '#/$defs/At' }, { type: 'null' }] },
      },
      required: ['q', 'n', 'kind', 'mark', 'list', 'at'],
      additionalProperties: false,
      $defs: {
        At: {
          type: 'object',
          properties: { x: { type: ['number', 'string', 'null'] } },
          required: ['x'],
          additionalProperties: false,
        },
      },
    });
  });

  test('of a tool without parameters is that of no properties', () => {
    const none = { type: 'object', properties: {}, required: [], additionalProperties: false };
    expect(strict(object({}))).toEqual(none);
  });

  test('may refer to itself, and may have one alternative to null with optional properties', () => {
    const schema = object(
      { a: { anyOf: [object({ b: text }), { type: 'null' }] }, n: { $ref: '#/$defs/N' } },
      { required: ['a', 'n'], $defs: { N: object({ next: { $ref: '#/$defs/N' } }) } },
    );
    expect(strict(schema)).toBeDefined();
  });

  const inProperty = (schema: JsonValue, required = ['a']): JsonObject => object({ a: schema }, { required });
  test.each<[string, JsonObject]>([
    ['an open map', inProperty({ type: 'object', additionalProperties: text })],
    ['an object that says it is open', inProperty(object({ b: text }, { additionalProperties: true }))],
    ['an object of which nothing is known', inProperty({ type: 'object' })],
    ['an optional property that may be null', inProperty({ type: ['string', 'null'] }, [])],
    [
      'an optional property that may be null by an alternative',
      inProperty({ anyOf: [text, { type: 'null' }] }, []),
    ],
    ['a keyword of objects on something else', inProperty({ type: 'number', additionalProperties: text })],
    ['anything', inProperty({})],
    ['true', inProperty(true)],
    ['an array of anything', inProperty({ type: 'array' })],
    ['a format that the mode does not know', inProperty({ type: 'string', format: 'uri' })],
    ['a keyword that it does not know', inProperty({ type: 'string', minLength: 1 })],
    ['a default', inProperty({ type: 'string', default: 'x' })],
    ['oneOf', inProperty({ oneOf: [text, { type: 'null' }] })],
    ['a reference with a remark', { ...inProperty({ $ref: '#/$defs/A', title: 't' }), $defs: { A: text } }],
    [
      'alternatives with optional properties',
      inProperty({ anyOf: [object({ b: text }), object({ c: text })] }),
    ],
    [
      'alternatives with optional properties further down',
      inProperty({ anyOf: [object({ b: object({ c: text }) }, { required: ['b'] }), text] }),
    ],
    [
      'alternatives with optional properties behind a reference',
      { ...inProperty({ anyOf: [{ $ref: '#/$defs/A' }, text] }), $defs: { A: object({ c: text }) } },
    ],
    ['a required property that is not described', object({ a: text }, { required: ['a', 'b'] })],
    [
      'more than 1,000 values',
      inProperty({ type: 'integer', enum: Array.from({ length: 1_001 }, (_, n) => n) }),
    ],
    ['more than 120,000 characters of values', inProperty({ type: 'string', enum: ['a'.repeat(120_001)] })],
    [
      'more than 10 levels',
      Array.from({ length: 11 }).reduce<JsonObject>(
        (inner) => object({ a: inner }, { required: ['a'] }),
        text,
      ),
    ],
  ])('is not made of %s', (_, schema) => {
    expect(strict(schema)).toBeUndefined();
  });
});

describe('nulls of a strict form', () => {
  const schema: JsonObject = {
    $schema: 'http://json-schema.org/draft-07/schema#',
    type: 'object',
    properties: {
      a: text,
      b: { type: ['string', 'null'] },
      c: text,
      list: { type: 'array', items: { $ref: '#/definitions/Item' } },
      sole: { anyOf: [{ $ref: '#item' }, { type: 'null' }] },
      open: { description: 'anything' },
      either: { anyOf: [{ const: 1 }, { enum: ['x'] }] },
      old: { type: 'string', nullable: true },
    },
    required: ['c'],
    definitions: { Item: { $id: '#item', type: 'object', properties: { x: text, next: { $ref: '#item' } } } },
  };

  test('go where the property is neither required nor may be null', () => {
    const exact = new ExactNumber('12345678901234567890');
    const value = {
      a: null,
      b: null,
      c: null,
      list: [{ x: null, next: { x: null, y: exact } }, null, 1],
      sole: { x: null },
      open: null,
      either: null,
      old: null,
      unknown: null,
    };
    expect(withoutStrictNulls(value, schema)).toEqual({
      b: null,
      c: null,
      list: [{ next: { y: exact } }, null, 1],
      sole: {},
      open: null,
      old: null,
      unknown: null,
    });
  });

  test('leave everything else as it is', () => {
    for (const value of [{}, { a: 'x', list: [{ x: 'y' }] }, { b: null, open: { a: null } }] as const)
      expect(withoutStrictNulls(value, schema)).toBe(value);
    const proto = JSON.parse('{"a":null,"__proto__":{"b":1}}') as JsonObject;
    expect(JSON.stringify(withoutStrictNulls(proto, schema))).toBe('{"__proto__":{"b":1}}');
  });

  test('go also where a root reference describes the arguments', () => {
    const referring = {
      type: 'object',
      properties: {},
      $ref: '#/$defs/Args',
      $defs: { Args: object({ a: text }) },
    };
    expect(strict(referring)).toMatchObject({ properties: { a: { type: ['string', 'null'] } } });
    expect(withoutStrictNulls({ a: null }, referring)).toEqual({});
  });
});
