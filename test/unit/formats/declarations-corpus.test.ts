import { readdirSync, readFileSync } from 'node:fs';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { JsonObject } from '../../../src/core/json.ts';
import { anthropicSchema } from '../../../src/formats/anthropic-schema.ts';
import { bedrockSchema } from '../../../src/formats/bedrock-schema.ts';
import type { Format } from '../../../src/formats/format.ts';
import { formats } from '../../../src/formats/formats.ts';
import { geminiSchema } from '../../../src/formats/gemini-schema.ts';
import { ollamaSchema } from '../../../src/formats/ollama-schema.ts';
import { openaiSchema } from '../../../src/formats/openai-schema.ts';
import type { ToolDefinition } from '../../../src/tools/definition.ts';
import type { SchemaRules } from '../../../src/tools/projection.ts';
import { checkTools } from '../../support/provider-rules/index.ts';
import { createTestService, type TestService, tool } from '../../support/service.ts';
import { describeWithShared, sharedPath } from '../../support/shared.ts';

type Family = 'openai' | 'claude' | 'gemini' | 'ollama' | 'mcp';

const families: ReadonlyMap<SchemaRules | undefined, Family> = new Map<SchemaRules | undefined, Family>([
  [openaiSchema, 'openai'],
  [anthropicSchema, 'claude'],
  [bedrockSchema, 'claude'],
  [geminiSchema, 'gemini'],
  [ollamaSchema, 'ollama'],
  [undefined, 'mcp'],
]);
const formatList = [...formats.values()];

function familyOf({ name, schemaRules }: Format): Family {
  const family = families.get(schemaRules);
  if (family === undefined) throw new Error(`Say here what is expected of declarations for ${name}.`);
  return family;
}

interface Declarations {
  readonly tools: readonly JsonObject[];
  readonly names: readonly string[];
  /** By declared name: the steps, those with loss marked by a `!`. */
  readonly adjusted: ReadonlyMap<string, readonly string[]>;
  readonly omitted: ReadonlyMap<string, string>;
  readonly warnings: readonly { readonly code: string }[];
}

/** The declarations of all tools, which the provider has to take. */
async function declarations(service: TestService, format: Format, query = ''): Promise<Declarations> {
  const { status, json } = await service.get(`/v1/declarations?format=${format.name}${query}`, {
    scopes: ['tools:*:*'],
  });
  expect(status).toBe(200);
  const tooMany = json.warnings.some(({ code }: { code: string }) => code === 'too_many_tools');
  const violations = json.tools.length === 0 ? [] : checkTools(format.name, json.tools);
  expect([
    format.name,
    violations.filter((violation) => !tooMany || !/are more than/.test(violation)),
  ]).toEqual([format.name, []]);
  type Adjusted = { name: string; steps: { step: string; path: string; loss: boolean }[] };
  return {
    tools: json.tools,
    names: functionsOf(json.tools).map(({ name }) => String(name)),
    adjusted: new Map(
      json.adjusted.map(({ name, steps }: Adjusted) => [
        name,
        steps.map(({ step, path, loss }) => `${step} ${path}${loss ? '!' : ''}`),
      ]),
    ),
    omitted: new Map(
      json.omitted.map((entry: { tool: string; reason: string }) => [entry.tool, entry.reason]),
    ),
    warnings: json.warnings,
  };
}

/** The functions in a list of tools, whatever is around them. */
const functionsOf = (tools: readonly JsonObject[]): JsonObject[] =>
  tools.flatMap((entry): JsonObject[] => {
    const { functionDeclarations, toolSpec, function: nested } = entry;
    if (Array.isArray(functionDeclarations)) return functionDeclarations as JsonObject[];
    return [(toolSpec ?? nested ?? entry) as JsonObject];
  });

const schemaOf = (own: JsonObject): JsonObject =>
  (own.parameters ??
    own.input_schema ??
    own.parametersJsonSchema ??
    (own.inputSchema as JsonObject).json ??
    own.inputSchema) as JsonObject;

const properties = (of: JsonObject, rest: JsonObject = {}): JsonObject => ({
  type: 'object',
  properties: of,
  ...rest,
});
const draft07 = { $schema: 'http://json-schema.org/draft-07/schema#' };
const asIs: readonly string[] = [];

/** The steps that a family takes, or why it is not told of the tool. */
type Expected = readonly string[] | { readonly omitted: RegExp };
interface Trigger {
  readonly schema: JsonObject;
  readonly all?: Expected;
  readonly expected?: Partial<Record<Family, Expected>>;
}

/** Steps that make the form of MCP itself are taken for every provider. */
const allButMcp = (expected: Expected, mcp: Expected = asIs): Partial<Record<Family, Expected>> => ({
  ...Object.fromEntries(['openai', 'claude', 'gemini', 'ollama'].map((family) => [family, expected])),
  mcp,
});

// The numbers are those of public issues about tools of MCP that a provider refused.
const triggers: Readonly<Record<string, Trigger>> = {
  'root-anyof-1-2': {
    schema: { type: 'object', anyOf: [{ required: ['a'] }, { required: ['b'] }] },
    expected: allButMcp(['add_keyword /properties', 'merge_root /anyOf!'], ['add_keyword /properties']),
  },
  'root-allof-if-3': {
    // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema
    schema: properties({}, { allOf: [{ if: {}, then: {} }] }),
    expected: {
      ...allButMcp(['merge_root /allOf!']),
      gemini: ['drop_keyword /allOf/0/if!', 'drop_keyword /allOf/0/then!', 'merge_root /allOf'],
      ollama: ['drop_keyword /allOf/0/if!', 'drop_keyword /allOf/0/then!', 'merge_root /allOf'],
    },
  },
  'brackets-4': {
    schema: properties({ 'filter[id]': {} }),
    expected: {
      claude: ['rename_property /properties/filter[id]'],
      gemini: ['rename_property /properties/filter[id]'],
    },
  },
  'dollar-5': {
    schema: properties({ $top: {}, '@x.y': {}, 'a.b': {}, 'a-b': {} }),
    expected: {
      claude: ['rename_property /properties/$top', 'rename_property /properties/@x.y'],
      gemini: ['$top', '@x.y', 'a.b', 'a-b'].map((name) => `rename_property /properties/${name}`),
    },
  },
  'draft-04-bound-6': {
    schema: properties({ n: { exclusiveMinimum: true } }),
    all: { omitted: /exclusiveMinimum is not a number/ },
  },
  'no-properties-7': { schema: { type: 'object' }, all: ['add_keyword /properties'] },
  'no-items-8': {
    schema: properties({ l: { type: 'array' } }),
    expected: { openai: ['add_items /properties/l/items'] },
  },
  'open-items-9': { schema: properties({ f: { type: 'array', items: { type: 'object' } } }) },
  'not-closed-10': { schema: properties({}) },
  'uri-11': {
    schema: properties({ u: { type: 'string', format: 'uri' } }),
    expected: { ollama: ['drop_keyword /properties/u/format!'] },
  },
  'closed-12': {
    schema: properties({}, { additionalProperties: false }),
    expected: { ollama: ['drop_keyword /additionalProperties!'] },
  },
  'dialect-13': { schema: properties({}, draft07), expected: allButMcp(['drop_keyword /$schema']) },
  'unknown-dialect-13': { schema: properties({}, { $schema: 'x' }), all: { omitted: /names x in \$schema/ } },
  'type-list-14': { schema: properties({ a: { type: ['string', 'null'] } }) },
  'number-enum-15': { schema: properties({ n: { type: 'number', enum: [1] } }) },
  'tuple-15': {
    schema: properties({ t: { type: 'array', items: [{ type: 'string' }] } }, draft07),
    expected: {
      openai: ['rewrite_tuple /properties/t/items', 'add_items /properties/t/items', 'drop_keyword /$schema'],
      claude: ['rewrite_tuple /properties/t/items', 'drop_keyword /$schema'],
      gemini: ['rewrite_tuple /properties/t/items', 'drop_keyword /$schema'],
      ollama: [
        'rewrite_tuple /properties/t/items',
        'drop_keyword /properties/t/items!',
        'drop_keyword /$schema',
      ],
    },
  },
  'reference-16-31-35': {
    schema: properties({ q: { $ref: '#/$defs/Q' } }, { $defs: { Q: { type: 'string' } } }),
    expected: { ollama: ['inline_ref /properties/q/$ref'] },
  },
  'reference-with-title-17': {
    schema: properties({ q: { $ref: '#/$defs/Q', title: 't' } }, { $defs: { Q: { type: 'string' } } }),
    expected: {
      gemini: ['inline_ref /properties/q/$ref'],
      ollama: ['drop_keyword /properties/q/title!', 'inline_ref /properties/q/$ref'],
    },
  },
  'recursion-18': {
    schema: properties(
      { a: { $ref: '#/$defs/A' } },
      { $defs: { A: { type: 'array', items: { $ref: '#/$defs/A' } } } },
    ),
    expected: { gemini: { omitted: /refers to itself/ }, ollama: { omitted: /refers to itself/ } },
  },
  'properties-of-text-19': {
    schema: properties({ a: { type: 'string', properties: {} } }),
    expected: allButMcp(['drop_keyword /properties/a/properties']),
  },
  'const-20': {
    schema: properties({ a: { const: 'a' }, b: { anyOf: [{ type: 'string' }, { type: 'null' }] } }),
    expected: {
      gemini: ['rewrite_const /properties/a/const'],
      ollama: ['rewrite_const /properties/a/const'],
    },
  },
  'properties-list-26': {
    schema: { type: 'object', properties: [] },
    all: { omitted: /is not a map to schemas/ },
  },
  'lost-definitions-31': {
    schema: properties({ q: { $ref: '#/$defs/Q' } }),
    all: { omitted: /which does not exist/ },
  },
  'many-optional-32': {
    schema: properties(
      Object.fromEntries(Array.from({ length: 25 }, (_, n) => [`p${n}`, { type: 'string' }])),
    ),
  },
  'empty-33': { schema: {}, all: ['add_keyword /type', 'add_keyword /properties'] },
  // The other rows of what each provider takes.
  'root-string': { schema: { type: 'string' }, all: { omitted: /is not "object"/ } },
  'root-enum-not': {
    schema: properties({ a: {} }, { enum: [{ a: 1 }], not: { required: ['b'] } }),
    expected: allButMcp(['merge_root /not!', 'merge_root /enum!']),
  },
  'external-reference': {
    schema: properties({ a: { $ref: 'https://example.com/a.json' } }),
    all: { omitted: /leads out of the schema/ },
  },
  'open-map': {
    schema: properties({ m: { type: 'object', additionalProperties: { type: 'number' } } }),
    expected: { ollama: ['drop_keyword /properties/m/additionalProperties!'] },
  },
  'one-of': {
    schema: properties({ a: { oneOf: [{ type: 'string' }, { type: 'number' }] } }),
    expected: {
      gemini: ['rewrite_one_of /properties/a/oneOf!'],
      ollama: ['rewrite_one_of /properties/a/oneOf!'],
    },
  },
  'all-of': {
    schema: properties({ a: { allOf: [{ type: 'string' }, { enum: ['x'] }] } }),
    expected: {
      gemini: ['merge_all_of /properties/a/allOf'],
      ollama: ['merge_all_of /properties/a/allOf'],
    },
  },
  'pattern-properties': {
    schema: properties({
      a: { type: 'object', patternProperties: { '^x': {} }, propertyNames: { maxLength: 3 } },
    }),
    expected: Object.fromEntries(
      ['gemini', 'ollama'].map((family) => [
        family,
        ['drop_keyword /properties/a/patternProperties!', 'drop_keyword /properties/a/propertyNames!'],
      ]),
    ),
  },
  'boolean-enum': {
    schema: properties({ a: { enum: [true, false] } }),
    expected: { gemini: ['rewrite_enum /properties/a/enum!'] },
  },
  'boolean-schema': {
    schema: properties({ a: true }),
    expected: {
      gemini: ['rewrite_boolean_schema /properties/a'],
      ollama: ['rewrite_boolean_schema /properties/a'],
    },
  },
};

describe('what providers refuse', () => {
  const tools = Object.entries(triggers).map(([name, { schema }]) => tool(name, schema));
  const service = createTestService({ servers: [{ alias: 'x', tools }] });

  test.each(formatList.map((format) => [format.name, format] as const))(
    'is declared so that %s takes it',
    async (_, format) => {
      const { names, adjusted, omitted } = await declarations(service, format);
      const family = familyOf(format);
      for (const [name, { all, expected }] of Object.entries(triggers)) {
        const wanted = expected?.[family] ?? all ?? asIs;
        const declared = `x__${name}`;
        if ('omitted' in wanted) {
          expect([name, omitted.get(name), names.includes(declared)]).toEqual([
            name,
            expect.stringMatching(wanted.omitted),
            false,
          ]);
        } else {
          expect([name, omitted.get(name), names.includes(declared)]).toEqual([name, undefined, true]);
          expect([name, adjusted.get(declared) ?? []]).toEqual([name, wanted]);
        }
      }
    },
  );

  test.each(formatList.map((format) => [format.name, format] as const))(
    'of a schema is said in a sentence to %s',
    async (_, format) => {
      const { tools: list } = await declarations(service, format);
      const { description } = functionsOf(list).find(({ name }) => name === 'x__root-anyof-1-2') ?? {};
      const note = 'Send the arguments of at least one of these: a; b.';
      expect(description).toBe(format.schemaRules === undefined ? undefined : note);
    },
  );

  test('in strict mode is declared strict only where nothing is lost', async () => {
    for (const format of formatList.filter(({ options }) => options.has('strict'))) {
      const { tools: list } = await declarations(service, format, '&strict=lossless');
      const strict = functionsOf(list).filter((own) => own.strict === true);
      expect(strict.map(({ name }) => name)).toEqual(
        expect.arrayContaining([
          'x__not-closed-10',
          'x__no-properties-7',
          'x__many-optional-32',
          'x__dialect-13',
        ]),
      );
      for (const name of ['x__open-items-9', 'x__uri-11', 'x__type-list-14', 'x__open-map'])
        expect(strict.some((own) => own.name === name)).toBe(false);
    }
  });

  test.each(formatList.map((format) => [format.name, format] as const))(
    'of names and descriptions is mended for %s',
    async (_, format) => {
      const tools = [
        ...['calendar.list', 'a/b', 'do-thing', 'do_thing', '日本', 'x'.repeat(300), '1st', 'a__b', ' '].map(
          (name) => tool(name),
        ),
        ...['create', 'delete'].map((verb) => tool(`notebook_items_${verb}_many_entries_at_once_quickly`)),
        { ...tool('mute'), description: '' },
      ];
      const own = createTestService({ servers: [{ alias: 'x', tools }] });
      const { names, omitted } = await declarations(own, format);
      expect(omitted.size).toBe(0);
      expect(new Set(names).size).toBe(tools.length);
    },
  );

  test.each(formatList.map((format) => [format.name, format] as const))(
    'of a number of tools is warned of for %s',
    async (_, format) => {
      const tools = Array.from({ length: (format.toolsMax ?? 128) + 1 }, (__, index) => tool(`t${index}`));
      const own = createTestService({ servers: [{ alias: 'x', tools }] });
      const { names, warnings } = await declarations(own, format);
      expect(names).toHaveLength(tools.length);
      expect(warnings.map(({ code }) => code)).toEqual(
        format.toolsMax === undefined ? [] : ['too_many_tools'],
      );
    },
  );
});

describe('arguments under declared names', () => {
  const search = properties(
    { 'filter[id]': { type: 'integer' }, 'sort by': { type: 'string' } },
    { required: ['filter[id]'], additionalProperties: false },
  );
  const call = async (
    format: string,
    body: (name: string, input: JsonObject) => JsonObject,
    input: (names: string[]) => JsonObject,
  ) => {
    const service = createTestService({ servers: [{ alias: 'x', tools: [tool('search', search)] }] });
    const { tools: list } = await declarations(service, formats.get(format) as Format);
    const [own = {}] = functionsOf(list);
    const names = Object.keys(schemaOf(own).properties ?? {});
    await service.post(`/v1/turns?format=${format}`, body(String(own.name), input(names)), {
      scopes: ['tools:*:*'],
    });
    return service.sent.map((sent) => sent.arguments);
  };
  const toolUse = (name: string, input: JsonObject): JsonObject => ({
    type: 'tool_use',
    id: 'toolu_1',
    name,
    input,
  });

  test('reach the server under its own', async () => {
    expect(await call('anthropic', toolUse, ([id = '', sort = '']) => ({ [sort]: 'a', [id]: 7 }))).toEqual([
      { 'sort by': 'a', 'filter[id]': 7 },
    ]);
    expect(await call('anthropic', toolUse, () => ({ 'filter[id]': 7 }))).toEqual([{ 'filter[id]': 7 }]);
  });

  test('are checked by the schema of the server', async () => {
    expect(await call('anthropic', toolUse, ([id = '']) => ({ [id]: 'seven' }))).toEqual([]);
    expect(await call('anthropic', toolUse, ([, sort = '']) => ({ [sort]: 'a' }))).toEqual([]);
  });

  test('lose the nulls that stand for what is left out', async () => {
    const item = (name: string, input: JsonObject): JsonObject => ({
      type: 'function_call',
      call_id: 'call_1',
      name,
      arguments: JSON.stringify(input),
    });
    expect(
      await call('openai-responses', item, ([id = '', sort = '']) => ({ [id]: 7, [sort]: null })),
    ).toEqual([{ 'filter[id]': 7 }]);
    expect(await call('openai-responses', item, ([id = '']) => ({ [id]: null }))).toEqual([]);
  });
});

describeWithShared('toollists', 'the tools of real servers', () => {
  const lists = readdirSync(sharedPath('toollists')).filter((file) => file !== 'index.json');
  const servers = lists.map((file, index) => {
    const list = JSON.parse(readFileSync(sharedPath(`toollists/${file}`), 'utf8'));
    return { alias: `s${index}`, tools: (list.tools ?? list) as ToolDefinition[] };
  });
  const count = servers.reduce((sum, { tools }) => sum + tools.length, 0);
  const service = createTestService({ servers });

  test.each(formatList.map((format) => [format.name, format] as const))(
    'are all declared for %s, and little is lost',
    async (_, format) => {
      const { names, adjusted, omitted } = await declarations(service, format);
      expect(names).toHaveLength(count);
      if (format.options.has('strict')) await declarations(service, format, '&strict=lossless');
      expect([...omitted]).toEqual([]);
      const losses = [...adjusted.values()].flat().filter((step) => step.endsWith('!'));
      const kinds = new Set(losses.map((step) => step.split(' ')[0]));
      const family = familyOf(format);
      if (family === 'ollama') expect(kinds).toEqual(new Set(['drop_keyword', 'rewrite_one_of']));
      else if (family === 'gemini') expect(losses.length).toBeLessThan(10);
      else expect(losses).toEqual([]);
    },
  );

  test('are declared in much less text where definitions stand that nothing uses', async () => {
    const alias = `s${lists.indexOf('notion-mcp-server.json')}`;
    const chars = async (format: string): Promise<number> => {
      const known = formats.get(format);
      if (known === undefined) throw new Error(format);
      const { tools: list } = await declarations(service, known, `&server=${alias}`);
      return JSON.stringify(functionsOf(list).map(schemaOf)).length;
    };
    expect(await chars('openai-responses')).toBeLessThan((await chars('mcp')) * 0.3);
  });
});

describe('odd tools', () => {
  const text = fc.oneof(
    fc.string({ unit: 'grapheme', maxLength: 90 }),
    fc.constantFrom('a', 'a.b', 'A b', '$x', 'x[y]'),
  );
  const leaf = fc.constantFrom<JsonObject>(
    { type: 'string', format: 'uri', 'x-a': 1 },
    { type: 'array' },
    { type: ['integer', 'null'], minimum: 0 },
    { enum: ['a', 1, null, true] },
    { const: { a: 1 } },
    { $ref: '#/$defs/A' },
    { $ref: '#/$defs/B', description: 'd' },
    { $ref: '#/definitions/C' },
    { $ref: '#' },
    { type: 'string', properties: {}, required: [] },
    { type: 'number', nullable: true, title: '' },
    {},
  );
  const { schema } = fc.letrec<{ schema: JsonObject }>((tie) => ({
    schema: fc.oneof(
      { maxDepth: 3, withCrossShrink: true },
      leaf,
      fc
        .tuple(
          fc.dictionary(text, fc.oneof(tie('schema'), fc.boolean()), { maxKeys: 4, noNullPrototype: true }),
          fc.boolean(),
        )
        .map(
          ([of, isClosed]): JsonObject => ({
            type: 'object',
            properties: of as JsonObject,
            required: Object.keys(of).slice(0, 1),
            ...(isClosed ? { additionalProperties: false } : {}),
          }),
        ),
      fc
        .tuple(
          fc.constantFrom('anyOf', 'oneOf', 'allOf', 'prefixItems'),
          fc.array(tie('schema'), { minLength: 1, maxLength: 3 }),
          tie('schema'),
        )
        .map(([keyword, list, rest]): JsonObject => ({ ...rest, [keyword]: list })),
      fc
        .tuple(
          fc.constantFrom('items', 'not', 'if', 'then', 'additionalProperties', 'contains'),
          tie('schema'),
          tie('schema'),
        )
        .map(([keyword, inner, rest]): JsonObject => ({ ...rest, [keyword]: inner })),
    ),
  }));
  const definition = fc.record({ name: text, description: text, root: schema }).map(
    ({ name, description, root }): ToolDefinition => ({
      name,
      description,
      inputSchema: {
        ...root,
        type: 'object',
        $defs: {
          A: { type: 'object', properties: { a: { type: 'string' } } },
          B: { anyOf: [{ type: 'string' }] },
        },
        definitions: { C: { type: 'array', items: { $ref: '#/$defs/A' } } },
      },
    }),
  );

  test('are declared for every provider so that it takes them, or are told to be omitted', async () => {
    let declared = 0;
    await fc.assert(
      fc.asyncProperty(
        fc.uniqueArray(definition, { selector: ({ name }) => name, minLength: 1, maxLength: 6 }),
        async (tools) => {
          const service = createTestService({ servers: [{ alias: 'x', tools }] });
          const neutral = await declarations(service, formats.get('mcp') as Format);
          for (const format of formatList) {
            const { names, omitted } = await declarations(service, format);
            expect(names.length + omitted.size).toBe(tools.length);
            if (format.options.has('strict')) await declarations(service, format, '&strict=lossless');
            declared += names.length;
            const reasons = [...omitted]
              .filter(([name]) => !neutral.omitted.has(name))
              .map(([, reason]) => reason);
            const family = familyOf(format);
            if (family !== 'gemini' && family !== 'ollama') expect(reasons).toEqual([]);
            else for (const reason of reasons) expect(reason).toMatch(/refers to itself/);
          }
        },
      ),
      { numRuns: 40 },
    );
    expect(declared).toBeGreaterThan(100);
  });
});
