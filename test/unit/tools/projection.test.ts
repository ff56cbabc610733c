import { Ajv2020 } from 'ajv/dist/2020.js';
import { describe, expect, test } from 'vitest';
import { ExactNumber, type JsonObject, type JsonValue } from '../../../src/core/json.ts';
import { anthropicSchema } from '../../../src/formats/anthropic-schema.ts';
import { geminiSchema } from '../../../src/formats/gemini-schema.ts';
import { ollamaSchema } from '../../../src/formats/ollama-schema.ts';
import { openaiSchema } from '../../../src/formats/openai-schema.ts';
import {
  type Projection,
  projectSchema,
  restoreKeys,
  type SchemaRules,
} from '../../../src/tools/projection.ts';

const project = (schema: JsonObject, rules: SchemaRules = openaiSchema): Projection => {
  const source = { type: 'object', properties: {}, ...schema };
  const before = JSON.stringify(source);
  const projection = projectSchema(source, rules);
  if (!projection.ok) throw new Error(projection.error);
  expect(JSON.stringify(source)).toBe(before);
  return projection.value;
};

const told = ({ steps }: Projection): string[] =>
  steps.map(({ step, path, loss }) => `${step} ${path}${loss ? ' with loss' : ''}`);

/** The projection of a property. */
const property = (schema: JsonValue, rules?: SchemaRules, rest: JsonObject = {}): unknown =>
  (project({ properties: { a: schema }, ...rest }, rules).schema.properties as JsonObject).a;

describe('without loss', () => {
  test('a schema that needs nothing stays as it is', () => {
    const schema = {
      type: 'object',
      properties: { q: { type: 'string', minLength: 1 }, n: { type: ['integer', 'null'] } },
      required: ['q'],
      additionalProperties: false,
    };
    for (const rules of [openaiSchema, anthropicSchema, geminiSchema]) {
      expect(project(schema, rules)).toEqual({
        ...{ schema, steps: [], grownChars: 0, note: undefined, renames: new Map() },
      });
    }
  });

  test('what only names or comments a schema is left out', () => {
    const projection = project({
      $schema: 'http://json-schema.org/draft-07/schema#',
      $id: 'urn:x',
      $comment: 'c',
      'x-vendor': { a: 1 },
      properties: { a: { type: 'string', 'x-mcp-header': 'H', title: 5, $comment: 'd' } },
      required: [],
    });
    expect(projection.schema).toEqual({ type: 'object', properties: { a: { type: 'string' } } });
    expect(told(projection)).toEqual([
      'drop_keyword /properties/a/x-mcp-header',
      'drop_keyword /properties/a/title',
      'drop_keyword /properties/a/$comment',
      'drop_keyword /$schema',
      'drop_keyword /$id',
      'drop_keyword /$comment',
      'drop_keyword /x-vendor',
      'drop_keyword /required',
    ]);
  });

  test('a property may be called like a keyword', () => {
    const properties = { $ref: { type: 'string' }, $id: { type: 'string' }, 'x-a': {}, definitions: {} };
    expect(project({ properties }).schema.properties).toEqual(properties);
  });

  test('definitions move to $defs, and those that nothing refers to go', () => {
    const projection = project({
      properties: { a: { $ref: '#/definitions/A' } },
      definitions: {
        A: { type: 'array', items: { $ref: '#/definitions/B' } },
        B: { type: 'string' },
        C: { type: 'number' },
      },
    });
    expect(projection.schema).toEqual({
      type: 'object',
      properties: { a: { $ref: '#/$defs/A' } },
      $defs: { A: { type: 'array', items: { $ref: '#/$defs/B' } }, B: { type: 'string' } },
    });
    expect(told(projection)).toEqual([
      'move_definitions /definitions/A',
      'move_definitions /definitions/B',
      'prune_definitions /definitions',
    ]);
  });

  test.each<[string, JsonObject]>([
    ['another property', { properties: { a: { $ref: '#/properties/b' }, b: { type: 'string' } } }],
    [
      'a name with escapes',
      { properties: { a: { $ref: '#/$defs/x~1y%20z' } }, $defs: { 'x/y z': { type: 'string' } } },
    ],
    ['an anchor', { properties: { a: { $ref: '#here' }, b: { $anchor: 'here', type: 'string' } } }],
    [
      'an anchor of draft-07',
      {
        $schema: 'http://json-schema.org/draft-07/schema#',
        properties: { a: { $ref: '#here' } },
        definitions: { x: { $id: '#here', type: 'string' } },
      },
    ],
    [
      'a definition below the root',
      { properties: { a: { $ref: '#/properties/b/$defs/c' }, b: { $defs: { c: { type: 'string' } } } } },
    ],
  ])('a reference to %s leads into $defs', (_, schema) => {
    const projected = project(schema).schema;
    const [[name, definition] = []] = Object.entries(projected.$defs ?? {});
    expect(definition).toEqual({ type: 'string' });
    expect((projected.properties as JsonObject).a).toEqual({ $ref: `#/$defs/${name}` });
  });

  test('a reference to the root leads to a copy, which keeps what the root itself may not have', () => {
    const anyOf = [{ required: ['a$'] }, { required: ['b'] }];
    const { schema, renames } = project(
      { properties: { a$: { $ref: '#' }, b: { type: 'string' } }, anyOf },
      anthropicSchema,
    );
    const [declared = ''] = renames.keys();
    expect((schema.properties as JsonObject)[declared]).toEqual({ $ref: '#/$defs/root' });
    expect(schema.anyOf).toBeUndefined();
    expect((schema.$defs as JsonObject).root).toEqual({
      type: 'object',
      properties: { a$: { $ref: '#/$defs/root' }, b: { type: 'string' } },
      anyOf,
    });
  });

  test('two definitions of one name stay two', () => {
    const { schema } = project({
      properties: { a: { $ref: '#/$defs/A' }, b: { $ref: '#/definitions/A' } },
      $defs: { A: { type: 'string' } },
      definitions: { A: { type: 'number' } },
    });
    expect(schema.properties).toEqual({ a: { $ref: '#/$defs/A' }, b: { $ref: '#/$defs/A_2' } });
    expect(schema.$defs).toEqual({ A: { type: 'string' }, A_2: { type: 'number' } });
  });

  test('a tuple is written as one of 2020-12', () => {
    const $schema = 'http://json-schema.org/draft-07/schema#';
    const tuple = { type: 'array', items: [{ type: 'string' }, true], additionalItems: false };
    expect(property(tuple, anthropicSchema, { $schema })).toEqual({
      type: 'array',
      prefixItems: [{ type: 'string' }, true],
      items: false,
    });
    expect(
      property({ type: 'array', items: {}, additionalItems: false }, anthropicSchema, { $schema }),
    ).toEqual({
      type: 'array',
      items: {},
    });
  });

  test('a keyword that its dialect does not have means nothing in another one either', () => {
    const $schema = 'http://json-schema.org/draft-07/schema#';
    expect(
      property(
        { type: 'object', dependentRequired: { a: ['b'] }, unevaluatedProperties: false },
        openaiSchema,
        { $schema },
      ),
    ).toEqual({ type: 'object' });
  });

  test('dependencies are written as those of names and those of schemas', () => {
    expect(property({ dependencies: { a: ['b'], c: { required: ['d'] } } })).toEqual({
      dependentRequired: { a: ['b'] },
      dependentSchemas: { c: { required: ['d'] } },
    });
  });

  test('nullable of OpenAPI is written as a type', () => {
    expect(property({ type: 'string', nullable: true })).toEqual({ type: ['string', 'null'] });
    expect(property({ type: 'string', nullable: false })).toEqual({ type: 'string' });
  });

  test('properties of what can be no object say nothing', () => {
    expect(property({ type: 'string', properties: { b: {} }, required: ['b'] })).toEqual({ type: 'string' });
    expect(property({ properties: { b: {} }, required: ['b'] })).toEqual({
      properties: { b: {} },
      required: ['b'],
    });
  });

  test('what an array may hold is said where the provider asks for it', () => {
    expect(property({ type: ['array', 'null'] })).toEqual({ type: ['array', 'null'], items: {} });
    expect(property({ type: 'array' }, anthropicSchema)).toEqual({ type: 'array' });
  });
});

describe('combinators at the root', () => {
  test('alternatives become optional properties and a sentence', () => {
    const projection = project({
      properties: { a: { type: 'string' }, b: { type: 'string' }, c: {} },
      required: ['c'],
      anyOf: [{ required: ['a'] }, { required: ['b', 'c'] }],
    });
    expect(projection.schema).toEqual({
      type: 'object',
      properties: { a: { type: 'string' }, b: { type: 'string' }, c: {} },
      required: ['c'],
    });
    expect(projection.note).toBe('Send the arguments of at least one of these: a; b.');
    expect(told(projection)).toEqual(['merge_root /anyOf with loss']);
  });

  test('a discriminated union keeps its properties, and the marks of its variants', () => {
    const variant = (kind: string, name: string): JsonObject => ({
      type: 'object',
      properties: {
        kind: { type: 'string', const: kind },
        [name]: { type: 'string' },
        same: { type: kind === 'a' ? 'string' : 'number' },
      },
      required: ['kind', name],
      additionalProperties: false,
    });
    const { schema, note } = project({ oneOf: [variant('a', 'x'), variant('b', 'y')] });
    expect(schema).toEqual({
      type: 'object',
      properties: {
        kind: { type: 'string', enum: ['a', 'b'] },
        x: { type: 'string' },
        same: { anyOf: [{ type: 'string' }, { type: 'number' }] },
        y: { type: 'string' },
      },
      required: ['kind'],
      additionalProperties: false,
    });
    expect(note).toBe('Send the arguments of exactly one of these: kind = "a", x; kind = "b", y.');
  });

  test('allOf is merged, without loss where one list of keywords says the same', () => {
    const projection = project({
      properties: { a: { type: 'number', minimum: 1 } },
      allOf: [
        { $ref: '#/$defs/Page' },
        { properties: { a: { type: 'integer', minimum: 3, maximum: 9 } }, required: ['a'] },
      ],
      $defs: { Page: { type: 'object', properties: { page: { type: 'integer' } }, required: ['page'] } },
    });
    expect(projection.schema).toEqual({
      type: 'object',
      properties: { a: { type: 'integer', minimum: 3, maximum: 9 }, page: { type: 'integer' } },
      required: ['page', 'a'],
    });
    expect(told(projection)).toEqual(['merge_root /allOf']);
    expect(projection.note).toBeUndefined();
  });

  test('what two parts say of a property and no one list can stays two parts', () => {
    expect(
      project({
        allOf: [{ properties: { a: { pattern: 'x' } } }, { properties: { a: { pattern: 'y' } } }],
      }),
    ).toMatchObject({
      schema: { properties: { a: { allOf: [{ pattern: 'x' }, { pattern: 'y' }] } } },
      steps: [{ step: 'merge_root', loss: false }],
    });
  });

  test('conditions bring optional properties and a remark', () => {
    const projection = project({
      properties: { a: { type: 'string' } },
      if: { properties: { a: { const: 'x' } } },
      // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema
      then: { properties: { b: { type: 'string' } }, required: ['b'] },
      not: { required: ['z'] },
      dependentSchemas: { a: { properties: { c: { type: 'number' } } } },
    });
    expect(projection.schema).toEqual({
      type: 'object',
      properties: { a: { type: 'string' }, b: { type: 'string' }, c: { type: 'number' } },
    });
    expect(projection.note).toBe('Further conditions on the arguments are checked when the tool is called.');
    expect(projection.steps.every(({ loss }) => loss)).toBe(true);
  });

  test('alternatives that are no objects, or nothing at all, are none', () => {
    const { schema } = project({
      anyOf: [{ type: 'string' }, false, { properties: { a: {} }, required: ['a'] }],
    });
    expect(schema).toEqual({ type: 'object', properties: { a: {} }, required: ['a'] });
    expect(project({ anyOf: [false] }).schema).toEqual({ type: 'object', properties: {} });
  });

  test('alternatives bring nothing that the root excludes', () => {
    const schema = {
      properties: { a: {} },
      additionalProperties: false,
      anyOf: [{ properties: { b: {} } }, true],
    };
    expect(project(schema).schema.properties).toEqual({ a: {} });
  });

  test('a reference at the root is written out', () => {
    const projection = project({
      $ref: '#/$defs/Args',
      $defs: { Args: { type: 'object', properties: { a: { $ref: '#/$defs/Args' } }, required: ['a'] } },
    });
    expect(projection.schema).toMatchObject({ properties: { a: { $ref: '#/$defs/Args' } }, required: ['a'] });
    expect(projection.schema.$ref).toBeUndefined();
    expect(told(projection)).toEqual(['inline_ref /$ref']);
  });
});

describe('names of parameters', () => {
  const schema = {
    properties: {
      'filter[id]': { type: 'string' },
      $top: { type: 'integer' },
      ok: {},
      [`${'l'.repeat(70)}`]: {},
    },
    required: ['filter[id]', 'ok'],
    dependentRequired: { $top: ['filter[id]', 'ok'] },
    anyOf: [{ required: ['$top'] }, { required: ['ok', 'other'] }],
  };

  test('that the provider refuses are replaced wherever they stand', () => {
    const projection = project(schema, anthropicSchema);
    const names = Object.keys(projection.schema.properties ?? {});
    expect(names).toEqual([
      expect.stringMatching(/^filter_id_[0-9a-f]{8}$/),
      expect.stringMatching(/^top_[0-9a-f]{8}$/),
      'ok',
      expect.stringMatching(/^l{54}_[0-9a-f]{8}$/),
    ]);
    expect(projection.schema).toMatchObject({
      required: [names[0], 'ok'],
      dependentRequired: { [names[1] ?? '']: [names[0], 'ok'] },
    });
    expect(projection.note).toContain(names[1]);
    expect(told(projection)).toContain('rename_property /properties/filter[id]');
    expect([...projection.renames.values()]).toEqual(['filter[id]', '$top', 'l'.repeat(70)]);
  });

  test('depend on the own name alone, and never meet', () => {
    const declared = (...names: string[]): string[] =>
      Object.keys(
        project({ properties: Object.fromEntries(names.map((name) => [name, {}])) }, geminiSchema).schema
          .properties ?? {},
      );
    const [one = '', other = ''] = declared('a[b]', 'a(b)');
    expect(one).not.toBe(other);
    expect(declared('z', 'a(b)', 'a[b]')).toEqual(['z', other, one]);
    const [again = ''] = declared(one);
    expect(again).not.toBe(one);
    expect(declared('1st', '', '日本', '_')).toEqual([
      expect.stringMatching(/^p1st_/),
      expect.stringMatching(/^p_/),
      expect.stringMatching(/^p_/),
      '_',
    ]);
  });

  test('further down are not touched', () => {
    const nested = { type: 'object', properties: { $top: {} }, required: ['$top'] };
    expect(property(nested, anthropicSchema)).toEqual(nested);
  });

  test('come back as the server has them, in order, with numbers to the last digit', () => {
    const { renames } = project(schema, anthropicSchema);
    const [id = '', top = ''] = renames.keys();
    const exact = new ExactNumber('12345678901234567890');
    const restored = restoreKeys({ ok: 1, [top]: exact, [id]: { [top]: 'inside' } }, renames);
    expect(Object.entries(restored)).toEqual([
      ['ok', 1],
      ['$top', exact],
      ['filter[id]', { [top]: 'inside' }],
    ]);
    expect(restored.$top).toBe(exact);
    const own = JSON.parse('{"__proto__":{"a":1},"$top":2}') as JsonObject;
    expect(restoreKeys(own, renames)).toBe(own);
    const both = JSON.parse(`{"__proto__":{"a":1},"$top":2,"${top}":3}`) as JsonObject;
    expect(JSON.stringify(restoreKeys(both, renames))).toBe(`{"__proto__":{"a":1},"$top":2,"${top}":3}`);
  });
});

describe('for a provider with a list of keywords', () => {
  test('what has another word is said with it', () => {
    expect(property({ const: 'a' }, geminiSchema)).toEqual({ enum: ['a'] });
    expect(property({ oneOf: [{ const: 1 }, { type: 'string' }] }, geminiSchema)).toEqual({
      anyOf: [{ enum: [1] }, { type: 'string' }],
    });
    expect(
      property({ description: 'd', allOf: [{ type: 'string' }, { minLength: 2 }] }, geminiSchema),
    ).toEqual({
      description: 'd',
      type: 'string',
      minLength: 2,
    });
    expect(property({ type: 'object', properties: { a: true, b: false } }, geminiSchema)).toEqual({
      type: 'object',
      properties: { a: {} },
    });
    expect(property({ type: 'object', additionalProperties: false }, geminiSchema)).toEqual({
      type: 'object',
      additionalProperties: false,
    });
  });

  test('values that no enum may hold are told by their types', () => {
    expect(property({ const: true }, geminiSchema)).toEqual({ type: 'boolean' });
    expect(property({ type: ['string', 'null'], enum: ['a', null], title: 't' }, geminiSchema)).toEqual({
      title: 't',
      anyOf: [{ type: 'string', enum: ['a'] }, { type: 'null' }],
    });
    expect(property({ enum: ['a', {}, 1, false] }, geminiSchema)).toEqual({
      type: ['string', 'object', 'number', 'boolean'],
    });
  });

  test('what has none is left out, and that is told', () => {
    const projection = project(
      { properties: { a: { type: 'string', not: { const: 'x' }, default: 'y' } } },
      ollamaSchema,
    );
    expect(projection.schema.properties).toEqual({ a: { type: 'string' } });
    expect(told(projection)).toEqual([
      'drop_keyword /properties/a/not with loss',
      'drop_keyword /properties/a/default with loss',
    ]);
  });

  test('a reference stands alone or is written out', () => {
    const $defs = { A: { type: 'string', title: 'A' } };
    expect(project({ properties: { a: { $ref: '#/$defs/A' } }, $defs }, geminiSchema).schema.$defs).toEqual(
      $defs,
    );
    expect(property({ $ref: '#/$defs/A', title: 'mine' }, geminiSchema, { $defs })).toEqual({
      title: 'mine',
      type: 'string',
    });
    expect(property({ $ref: '#/$defs/A' }, ollamaSchema, { $defs })).toEqual({ type: 'string' });
  });

  test.each([geminiSchema, ollamaSchema])('a schema that refers to itself is omitted', (rules) => {
    const schema = {
      type: 'object',
      properties: { a: { $ref: '#/$defs/A' } },
      $defs: { A: { type: 'array', items: { $ref: '#/$defs/A' } } },
    };
    expect(projectSchema(schema, rules)).toEqual({
      ok: false,
      error: 'its input schema refers to itself, which the API does not take',
    });
    expect(projectSchema(schema, anthropicSchema)).toMatchObject({ ok: true, value: { schema, steps: [] } });
  });
});

describe('a hostile schema', () => {
  const fanOut = (levels: number, width: number): JsonObject => {
    const $defs: Record<string, JsonValue> = { L0: { type: 'string', description: 'd'.repeat(2_000) } };
    for (let level = 1; level <= levels; level += 1) {
      const names = Array.from({ length: width }, (_, index) => [
        `p${index}`,
        { $ref: `#/$defs/L${level - 1}` },
      ]);
      $defs[`L${level}`] = { type: 'object', properties: Object.fromEntries(names) };
    }
    return { type: 'object', properties: { a: { $ref: `#/$defs/L${levels}` } }, $defs };
  };

  test('that grows when references are written out is omitted', () => {
    expect(projectSchema(fanOut(4, 10), ollamaSchema)).toMatchObject({
      ok: false,
      error: expect.stringMatching(/has over \d+ characters$/),
    });
    expect(projectSchema(fanOut(4, 10), geminiSchema).ok).toBe(true);
  });

  test('that nests deeper when references are written out is omitted', () => {
    expect(projectSchema(fanOut(60, 1), ollamaSchema)).toMatchObject({
      ok: false,
      error: expect.stringMatching(/nests deeper than \d+ levels$/),
    });
  });

  test('that takes too long to merge is omitted', () => {
    const names = Array.from({ length: 200 }, (_, index) => [`p${index}`, { type: 'string' }]);
    const schema = {
      type: 'object',
      properties: {},
      anyOf: Array.from({ length: 400 }, () => ({ $ref: '#/$defs/A' })),
      $defs: { A: { properties: Object.fromEntries(names) } },
    };
    expect(projectSchema(schema, openaiSchema)).toEqual({
      ok: false,
      error: 'its input schema has too much to merge into one',
    });
  });

  const many = <T>(count: number, make: (index: number) => T): T[] =>
    Array.from({ length: count }, (_, index) => make(index));
  const unknown = Object.fromEntries(many(9_000, (index) => [`u${index}`, 1]));
  const onlyAllOf = { ...openaiSchema, keywords: new Set(['type', 'properties', 'enum']) };
  test.each<[string, JsonObject, SchemaRules]>([
    ['keywords', { allOf: [unknown, ...many(300, (index) => ({ [`k${index}`]: 1 }))] }, openaiSchema],
    [
      'conditions beside many keywords',
      { ...unknown, allOf: many(300, (index) => ({ anyOf: [{ properties: { [`p${index}`]: true } }] })) },
      openaiSchema,
    ],
    [
      'schemas that depend on a property',
      {
        ...unknown,
        dependentSchemas: Object.fromEntries(
          many(400, (index) => [`d${index}`, { properties: { [`p${index}`]: true } }]),
        ),
      },
      openaiSchema,
    ],
    [
      'names',
      { allOf: many(900, (part) => ({ required: many(11, (index) => `r${part}_${index}`) })) },
      openaiSchema,
    ],
    [
      'values',
      { properties: { a: { enum: many(9_000, String), allOf: many(900, () => ({ enum: ['x', 'y'] })) } } },
      onlyAllOf,
    ],
  ])('of which many parts bring many %s is omitted instead of merged for long', (_, schema, rules) => {
    expect(projectSchema({ type: 'object', properties: {}, ...schema }, rules)).toEqual({
      ok: false,
      error: 'its input schema has too much to merge into one',
    });
  });

  test('may call its keywords and properties like members of every object', () => {
    const odd = { constructor: 1, toString: 'x', valueOf: [] };
    const schema = {
      properties: { constructor: { $ref: '#/$defs/toString', ...odd } },
      anyOf: [{ properties: { hasOwnProperty: {} }, ...odd }],
      $defs: { toString: { type: 'string' } },
    };
    for (const rules of [openaiSchema, anthropicSchema, geminiSchema, ollamaSchema]) {
      const { properties: names } = project(schema, rules).schema;
      expect(Object.keys(names ?? {})).toEqual(['constructor', 'hasOwnProperty']);
    }
  });

  test('with a step in thousands of places tells of twenty and sums up the others', () => {
    const properties = Object.fromEntries(
      Array.from({ length: 500 }, (_, index) => [`p${index}`, { 'x-a': 1 }]),
    );
    const { steps, grownChars } = project({ properties });
    expect(grownChars).toBeGreaterThan(20 * '/properties/p0/x-a'.length);
    expect(steps).toHaveLength(21);
    expect(steps.at(-1)).toEqual({ member: 'inputSchema', step: 'drop_keyword', path: '', loss: false });
  });

  test('with a name as long as a book does not tell it again for each place below', () => {
    const properties = Object.fromEntries(
      Array.from({ length: 50 }, (_, index) => [`p${index}`, { const: 1, not: {} }]),
    );
    const { steps } = project({ properties: { ['n'.repeat(100_000)]: { properties } } }, geminiSchema);
    expect(steps).toEqual([
      { member: 'inputSchema', step: 'drop_keyword', path: '', loss: true },
      { member: 'inputSchema', step: 'rewrite_const', path: '', loss: false },
      { member: 'inputSchema', step: 'rename_property', path: '', loss: false },
    ]);
  });
});

test('a projection is one of JSON Schema 2020-12', () => {
  const ajv = new Ajv2020({ strict: false, logger: false });
  const own = {
    properties: {
      a: { type: 'array', items: [{ $ref: '#/definitions/A' }] },
      b: { examples: 'none', deprecated: 'yes', readOnly: 1, description: {} },
    },
    definitions: { A: { type: 'integer', dependencies: { x: ['y'] } } },
  };
  expect(ajv.validateSchema(own)).toBe(false);
  const schema = { $schema: 'https://json-schema.org/draft/2019-09/schema', ...own };
  for (const rules of [openaiSchema, anthropicSchema, geminiSchema]) {
    expect(ajv.validateSchema(project(schema, rules).schema)).toBe(true);
  }
});
