import { describe, expect, test } from 'vitest';
import type { JsonObject } from '../../../src/core/json.ts';
import { mirroredHeaders, mirrorFault } from '../../../src/upstream/mirrored-headers.ts';

const parameter = (header: unknown, type: unknown = 'string'): JsonObject =>
  ({ type, 'x-mcp-header': header }) as JsonObject;
const object = (properties: JsonObject, more: JsonObject = {}): JsonObject => ({
  type: 'object',
  properties,
  ...more,
});

describe('which annotations a tool may have (MT-16)', () => {
  test.each([
    ['none', object({ a: { type: 'string' } })],
    [
      'on a string, an integer and a boolean',
      object({ a: parameter('A'), b: parameter('B', 'integer'), c: parameter('C', 'boolean') }),
    ],
    ['below other properties', object({ place: object({ zip: parameter('Zip', 'integer') }) })],
    [
      'in a default or an example, where it is none',
      object({ a: { type: 'object', default: parameter('A'), examples: [parameter('B')] } }),
    ],
    ['as the name of a parameter', object({ 'x-mcp-header': { type: 'string' } })],
  ])('%s', (_, schema) => {
    expect(mirrorFault(schema)).toBeUndefined();
  });

  test.each([
    ['an empty name', object({ a: parameter('') }), 'x-mcp-header at "a" is not a name'],
    ['no name', object({ a: parameter(7) }), 'x-mcp-header at "a" is not a name'],
    ['a space', object({ a: parameter('My Region') }), 'x-mcp-header at "a" is not the name of a header'],
    ['a line end', object({ a: parameter('A\r\nB') }), 'x-mcp-header at "a" is not the name of a header'],
    ['a colon', object({ a: parameter('A:') }), 'x-mcp-header at "a" is not the name of a header'],
    [
      'a letter of another script',
      object({ a: parameter('Größe') }),
      'x-mcp-header at "a" is not the name of a header',
    ],
    [
      'a long name',
      object({ a: parameter('A'.repeat(81)) }),
      'x-mcp-header at "a" is longer than 80 characters',
    ],
    [
      'a number',
      object({ a: parameter('A', 'number') }),
      'x-mcp-header at "a" belongs to a parameter that is no string, integer or boolean',
    ],
    [
      'several types',
      object({ a: parameter('A', ['string', 'null']) }),
      'x-mcp-header at "a" belongs to a parameter that is no string, integer or boolean',
    ],
    [
      'the same name twice',
      object({ a: parameter('Region'), b: parameter('REGION') }),
      'x-mcp-header "REGION" is used twice',
    ],
    ['the root', parameter('A', 'object'), 'x-mcp-header at the root stands where no value can be'],
    [
      'items',
      object({ a: { type: 'array', items: parameter('A') } }),
      'x-mcp-header at "a" stands where no value can be',
    ],
    [
      'a branch',
      object({ a: { anyOf: [parameter('A')] } }),
      'x-mcp-header at "a" stands where no value can be',
    ],
    [
      'a definition',
      object({}, { $defs: { a: parameter('A') } }),
      'x-mcp-header at the root stands where no value can be',
    ],
  ])('refused: %s', (_, schema, reason) => {
    expect(mirrorFault(schema)).toBe(reason);
  });

  test('refused: more of them than a request can carry', () => {
    const many = Object.fromEntries(
      Array.from({ length: 33 }, (_, index) => [`p${index}`, parameter(`H${index}`)]),
    );
    expect(mirrorFault(object(many))).toBe('it has more than 32 parameters with x-mcp-header');
  });
});

describe('what of the arguments goes into headers', () => {
  const headersOf = (value: unknown, type = 'string'): unknown =>
    mirroredHeaders(object({ a: parameter('A', type) }), { a: value } as JsonObject);

  test.each([
    ['eu-west 1', 'string', 'eu-west 1'],
    ['', 'string', '=?base64??='],
    [' eu', 'string', '=?base64?IGV1?='],
    ['a\r\nSet-Cookie: b', 'string', '=?base64?YQ0KU2V0LUNvb2tpZTogYg==?='],
    ['Zürich', 'string', '=?base64?WsO8cmljaA==?='],
    ['=?base64?IGV1?=', 'string', '=?base64?PT9iYXNlNjQ/SUdWMT89?='],
    [42, 'integer', '42'],
    [false, 'boolean', 'false'],
  ])('%j', (value, type, header) => {
    expect(headersOf(value, type)).toEqual({ 'Mcp-Param-A': header });
  });

  test.each([undefined, null, { b: 1 }, [1], 2 ** 60])('nothing of %j', (value) => {
    expect(headersOf(value)).toEqual({});
  });

  test('a value is found under the names that lead to it, and nowhere else', () => {
    const schema = object({ place: object({ zip: parameter('Zip') }) });
    expect(mirroredHeaders(schema, { place: { zip: '8001' } })).toEqual({ 'Mcp-Param-Zip': '8001' });
    expect(mirroredHeaders(schema, { zip: '8001' })).toEqual({});
    expect(mirroredHeaders(object({ constructor: object({ name: parameter('N') }) }), {})).toEqual({});
  });

  test('a tool without annotations, or with faulty ones, has none', () => {
    expect(mirroredHeaders(object({ a: { type: 'string' } }), { a: 'x' })).toBeUndefined();
    expect(mirroredHeaders(object({ a: parameter('A B') }), { a: 'x' })).toBeUndefined();
    expect(mirroredHeaders(undefined, { a: 'x' })).toBeUndefined();
  });
});

test('a schema that is too large for any use is not looked through', () => {
  const names = Array.from({ length: 100_000 }, (_, index) => `a_property_${index}`);
  const properties = Object.fromEntries(names.map((name) => [name, { 'x-mcp-header': 'not a token' }]));
  expect(mirrorFault({ type: 'object', properties })).toBeUndefined();
});
