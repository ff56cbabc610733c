import { describe, expect, test } from 'vitest';
import { checkTools } from '../../support/provider-rules/index.ts';

/** How each provider is told of a function. */
const shapes: Readonly<Record<string, (name: string, schema: unknown, description?: string) => unknown>> = {
  'openai-responses': (name, parameters, description) => ({
    type: 'function',
    name,
    description,
    parameters,
  }),
  'openai-chat': (name, parameters, description) => ({
    type: 'function',
    function: { name, description, parameters },
  }),
  anthropic: (name, input_schema, description) => ({ name, description, input_schema }),
  gemini: (name, parametersJsonSchema, description) => ({
    functionDeclarations: [{ name, description, parametersJsonSchema }],
  }),
  'gemini-interactions': (name, parameters, description) => ({
    type: 'function',
    name,
    description,
    parameters,
  }),
  bedrock: (name, json, description) => ({ toolSpec: { name, description, inputSchema: { json } } }),
  mistral: (name, parameters, description) => ({
    type: 'function',
    function: { name, description, parameters },
  }),
  cohere: (name, parameters, description) => ({
    type: 'function',
    function: { name, description, parameters },
  }),
  ollama: (name, parameters, description) => ({
    type: 'function',
    function: { name, description, parameters },
  }),
};
const all = Object.keys(shapes);
const openai = ['openai-responses', 'openai-chat', 'mistral', 'cohere'];
const claude = ['anthropic', 'bedrock'];
const gemini = ['gemini', 'gemini-interactions'];
const none = { type: 'object', properties: {} };
const withProperty = (a: unknown, rest: object = {}): object => ({
  type: 'object',
  properties: { a },
  ...rest,
});

const refusedBy = (name: string, schema: unknown, description?: string): string[] =>
  all.filter((format) => checkTools(format, [shapes[format]?.(name, schema, description)]).length > 0);

describe('the rules of the providers', () => {
  test('take a plain tool', () => {
    expect(refusedBy('plain', none, 'd')).toEqual([]);
    expect(refusedBy('plain', withProperty({ type: ['string', 'null'], enum: ['a'] }))).toEqual([]);
  });

  test.each<[string, unknown, readonly string[]]>([
    ['a root that is no object', { type: 'string' }, all],
    ['a union at the root', { ...none, anyOf: [{ required: ['a'] }] }, all],
    ['oneOf at the root', { ...none, oneOf: [{}] }, all],
    ['allOf at the root', { ...none, allOf: [{}] }, all],
    ['not at the root', { ...none, not: {} }, [...openai, ...gemini, 'ollama']],
    ['a root without properties', { type: 'object' }, openai],
    ['an array without items', withProperty({ type: 'array' }), openai],
    [
      'a tuple of an older draft',
      withProperty({ type: 'array', items: [{}] }),
      [...openai, ...claude, ...gemini],
    ],
    ['a bound of draft-04', withProperty({ type: 'integer', exclusiveMinimum: true }), all],
    ['a broken reference', withProperty({ $ref: '#/$defs/A' }), all],
    ['a reference to elsewhere', withProperty({ $ref: 'https://x.test/' }), all],
    ['$schema', { ...none, $schema: 'http://json-schema.org/draft-07/schema#' }, [...gemini, 'ollama']],
    ['brackets in a key', { type: 'object', properties: { 'a[b]': {} } }, [...claude, ...gemini]],
    ['a dot in a key', { type: 'object', properties: { 'a.b': {} } }, gemini],
    ['brackets in a key further down', withProperty({ type: 'object', properties: { 'a[b]': {} } }), []],
    [
      'a reference with a title',
      withProperty({ $ref: '#/$defs/A', title: 't' }, { $defs: { A: {} } }),
      [...gemini, 'ollama'],
    ],
    [
      'a schema that refers to itself',
      withProperty({ $ref: '#/$defs/A' }, { $defs: { A: { type: 'array', items: { $ref: '#/$defs/A' } } } }),
      [...gemini, 'ollama'],
    ],
    ['const', withProperty({ const: 'a' }), [...gemini, 'ollama']],
    ['an enum of booleans', withProperty({ enum: [true] }), gemini],
    ['a boolean schema', withProperty(true), ['ollama']],
    ['a pattern of names', withProperty({ patternProperties: { a: {} } }), [...gemini, 'ollama']],
  ])('know %s', (_, schema, expected) => {
    expect(refusedBy('t', schema).toSorted()).toEqual([...expected].toSorted());
  });

  test('know names, descriptions and unknown members', () => {
    expect(refusedBy('a.b', none)).toEqual(all.filter((format) => !gemini.includes(format)));
    expect(refusedBy('1st', none)).toEqual(gemini);
    expect(refusedBy('x'.repeat(65), none)).toEqual([
      'openai-chat',
      'bedrock',
      'mistral',
      'cohere',
      'ollama',
    ]);
    expect(refusedBy('x'.repeat(129), none)).toEqual(all);
    expect(refusedBy('t', none, '')).toEqual(['bedrock']);
    expect(
      all.filter(
        (format) => checkTools(format, [{ ...Object(shapes[format]?.('t', none)), extra: 1 }]).length === 0,
      ),
    ).toEqual([]);
  });

  test('know what may stand once, and how many may stand', () => {
    const twice = (format: string): unknown[] => [shapes[format]?.('t', none), shapes[format]?.('t', none)];
    expect(all.filter((format) => checkTools(format, twice(format)).length === 0)).toEqual([]);
    const many = (format: string, count: number): unknown[] =>
      Array.from({ length: count }, (_, index) => shapes[format]?.(`t${index}`, none));
    expect(all.filter((format) => checkTools(format, many(format, 129)).length > 0)).toEqual([
      'openai-responses',
      'openai-chat',
    ]);
    expect(checkTools('gemini', many('gemini', 513))).toEqual(['513 functions are more than 512']);
    expect(checkTools('bedrock', [])).toEqual(['at least one tool is needed']);
  });

  test('know strict mode', () => {
    const strict = (parameters: unknown): string[] =>
      checkTools('openai-responses', [{ type: 'function', name: 't', parameters, strict: true }]);
    const closed = {
      type: 'object',
      properties: { a: { type: 'string' } },
      required: ['a'],
      additionalProperties: false,
    };
    expect(strict(closed)).toEqual([]);
    for (const wrong of [
      none,
      { ...closed, required: [] },
      { ...closed, properties: { a: {} } },
      { ...closed, properties: { a: { type: 'string', format: 'uri' } } },
      { ...closed, properties: { a: { type: 'string', minLength: 1 } } },
    ])
      expect(strict(wrong)).not.toEqual([]);
  });

  test('know deferred tools and namespaces', () => {
    const deferred = { ...Object(shapes['openai-responses']?.('t', none)), defer_loading: true };
    expect(checkTools('openai-responses', [deferred])).toEqual(['defer_loading without a tool_search']);
    const group = { type: 'namespace', name: 'docs', description: 'd', tools: [deferred] };
    expect(checkTools('openai-responses', [group, { type: 'tool_search' }])).toEqual([]);
    expect(
      checkTools('openai-responses', [
        { ...group, name: 'file_search', description: '' },
        { type: 'tool_search' },
      ]),
    ).toHaveLength(2);
    const own = { ...Object(shapes.anthropic?.('t', none)), defer_loading: true };
    expect(checkTools('anthropic', [own])).toEqual(['defer_loading without a tool_search_tool']);
    const search = { type: 'tool_search_tool_regex_20251119', name: 'tool_search_tool_regex' };
    expect(checkTools('anthropic', [search, own])).toEqual([]);
  });

  test('are there for known formats alone', () => {
    expect(() => checkTools('telex', [])).toThrow('There are no rules for the format telex.');
  });
});
