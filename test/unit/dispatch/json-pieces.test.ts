import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { ExactNumber, type JsonValue } from '../../../src/core/json.ts';
import { jsonPieces } from '../../../src/dispatch/json-pieces.ts';

describe('the pieces of a JSON text', () => {
  const joined = (value: JsonValue): string => [...jsonPieces(value)].join('');

  test('are what JSON.stringify writes', () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        expect(joined(value as JsonValue)).toBe(JSON.stringify(value));
      }),
    );
    expect(joined({ a: [], b: [{}, { c: [] }], '"': [new ExactNumber('5')] })).toBe(
      '{"a":[],"b":[{},{"c":[]}],"\\"":[5]}',
    );
  });

  test('of a long list are one for each item, also where the list is a member of one', () => {
    const tools = Array.from({ length: 1_000 }, (_, name) => ({ name, schema: { type: 'object' } }));
    expect([...jsonPieces({ tools })].length).toBeGreaterThan(1_000);
    expect([...jsonPieces({ tools: [{ functions: tools }] })].length).toBeGreaterThan(1_000);
    expect([...jsonPieces({ schema: { deep: { tools } } })]).toHaveLength(1);
  });
});
