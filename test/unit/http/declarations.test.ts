import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { JsonObject } from '../../../src/core/json.ts';
import { createTestService, functionCall, type TestServer, tool } from '../../support/service.ts';

const query: JsonObject = { type: 'object', properties: { query: { type: 'string' } }, required: ['query'] };
const docs: TestServer = {
  alias: 'docs',
  tools: [tool('search', query), tool('get_page'), tool('get_index')],
};
const tickets: TestServer = { alias: 'tickets', tools: [tool('create'), tool('get')] };
const everything = { scopes: ['tools:*:*'] };

const names = (json: { tools: { name: string }[] }): string[] => json.tools.map(({ name }) => name);

describe('the declarations', () => {
  test('are function tools of the Responses API unless another format is named', async () => {
    const service = createTestService({ servers: [{ alias: 'docs', tools: [tool('search', query)] }] });
    const { json } = await service.get('/v1/declarations', everything);
    expect(json).toMatchObject({
      format: 'openai-responses',
      adjusted: [],
      omitted: [],
      pending: [],
      warnings: [],
    });
    expect(json.tools).toEqual([
      { type: 'function', name: 'docs__search', parameters: query, strict: false },
    ]);
    expect((await service.get('/v1/declarations?format=openai-responses', everything)).json).toEqual(json);
  });

  test('are strict where that is asked for and nothing is lost by it or was lost before', async () => {
    const union = {
      type: 'object',
      properties: {},
      anyOf: [
        { type: 'object', properties: { a: { type: 'string' } }, required: ['a'] },
        { type: 'object', properties: { b: { type: 'number' } }, required: ['b'] },
      ],
    };
    const tools = [tool('plain', query), tool('union', union), tool('open', { type: 'object' })];
    const service = createTestService({ servers: [{ alias: 'docs', tools }] });
    const strictness = async (parameters: string) =>
      (await service.get(`/v1/declarations?${parameters}`, everything)).json.tools.map(
        ({ name, strict }: { name: string; strict: boolean }) => [name, strict],
      );
    expect(await strictness('strict=lossless')).toContainEqual(['docs__union', false]);
    expect(await strictness('strict=off')).toContainEqual(['docs__plain', false]);
    const closed = { ...query, additionalProperties: false };
    service.list([{ alias: 'docs', tools: [tool('closed', closed)] }]);
    expect(await strictness('strict=lossless')).toEqual([['docs__closed', true]]);
  });

  test('in the neutral format are tools of MCP under declared names', async () => {
    const definition = {
      ...tool('search', query),
      title: 'Search',
      description: 'Searches.',
      outputSchema: { type: 'object' },
      annotations: { readOnlyHint: true },
    };
    const service = createTestService({
      servers: [{ alias: 'docs', tools: [definition], descriptionPrefix: '[docs]' }],
    });
    const { json } = await service.get('/v1/declarations?format=mcp', everything);
    expect(json.tools).toEqual([
      {
        name: 'docs__search',
        title: 'Search',
        description: '[docs] Searches.',
        inputSchema: query,
        outputSchema: { type: 'object' },
        annotations: { readOnlyHint: true },
      },
    ]);
  });

  test('hold only what the grants of the token allow', async () => {
    const service = createTestService({ servers: [docs, tickets] });
    const seen = async (...scopes: string[]) =>
      names((await service.get('/v1/declarations', { scopes })).json);
    expect(await seen()).toEqual([]);
    expect(await seen('tools:docs:get_*')).toEqual(['docs__get_index', 'docs__get_page']);
    expect(await seen('tools:docs:search:read')).toEqual([]);
    expect(await seen('tools:docs:search:write', 'tools:tickets:*')).toEqual([
      'docs__search',
      'tickets__create',
      'tickets__get',
    ]);
  });

  test('are narrowed by patterns of servers and of tools', async () => {
    const service = createTestService({ servers: [docs, tickets] });
    const seen = async (search: string) =>
      names((await service.get(`/v1/declarations?${search}`, everything)).json);
    expect(await seen('server=tickets')).toEqual(['tickets__create', 'tickets__get']);
    expect(await seen('tool=get*')).toEqual(['docs__get_index', 'docs__get_page', 'tickets__get']);
    expect(await seen('tool=docs__get_page&tool=create')).toEqual(['docs__get_page', 'tickets__create']);
    expect(await seen('server=d*&server=nobody&tool=search')).toEqual(['docs__search']);
    expect(await seen('server=*&tool=*')).toHaveLength(5);
    expect(await seen('server=doc')).toEqual([]);
  });

  test.each([
    'tool=',
    'tool=a*b',
    'server=**',
    `server=${'a'.repeat(257)}`,
    'format=openai',
    'order=parallel',
  ])('refuse the query %s by naming the parameter', async (search) => {
    const service = createTestService({ servers: [docs] });
    const { status, json } = await service.get(`/v1/declarations?${search}`, everything);
    expect(status).toBe(400);
    expect(json.errors[0].parameter).toBe(search.split('=')[0]);
  });

  test('refuse a parameter that stands twice, and one that stands 101 times', async () => {
    const service = createTestService({ servers: [docs] });
    expect((await service.get('/v1/declarations?format=mcp&format=mcp', everything)).status).toBe(400);
    const many = Array.from({ length: 101 }, () => 'tool=a').join('&');
    expect((await service.get(`/v1/declarations?${many}`, everything)).status).toBe(400);
  });

  test('tell which tools are left out and why, to those who may see them', async () => {
    const deep = { type: 'array', items: { $ref: '#/properties/a' } };
    const servers: TestServer[] = [
      {
        alias: 'docs',
        tools: [
          tool('deep', { type: 'object', properties: { a: deep } }),
          tool('gone', { type: 'object', properties: { a: { $ref: '#/$defs/Gone' } } }),
          tool('plain'),
        ],
        refused: [{ tool: 'odd', reason: 'its inputSchema is missing or not an object' }],
      },
    ];
    const service = createTestService({ servers });
    const { json } = await service.get('/v1/declarations?format=gemini-interactions', everything);
    expect(names(json)).toEqual(['docs__plain']);
    expect(json.omitted.map((entry: { tool: string }) => entry.tool)).toEqual(['deep', 'gone', 'odd']);
    expect(json.omitted[0]).toEqual({
      server: 'docs',
      tool: 'deep',
      reason: 'its input schema refers to itself, which the API does not take',
    });
    for (const format of ['mcp', 'openai-responses']) {
      const other = await service.get(`/v1/declarations?format=${format}`, everything);
      expect(names(other.json)).toEqual(['docs__deep', 'docs__plain']);
    }
    const narrow = await service.get('/v1/declarations', { scopes: ['tools:docs:odd'] });
    expect(narrow.json.omitted.map((entry: { tool: string }) => entry.tool)).toEqual(['odd']);
    const other = await service.get('/v1/declarations', { scopes: ['tools:tickets:*'] });
    expect(other.json.omitted).toEqual([]);
  });

  test('add a missing root type and properties, and say so only of tools that are declared', async () => {
    const servers = [
      { alias: 'docs', tools: [tool('bare', {}), tool('none', { type: 'string' })] },
    ] as const satisfies TestServer[];
    const service = createTestService({ servers });
    const { json } = await service.get('/v1/declarations', everything);
    expect(json.tools[0].parameters).toMatchObject({ type: 'object', properties: {} });
    expect(json.adjusted).toEqual([
      {
        name: 'docs__bare',
        steps: [
          { step: 'add_keyword', path: '/type', loss: false },
          { step: 'add_keyword', path: '/properties', loss: false },
        ],
      },
    ]);
  });

  test('name the servers that have not listed yet, to those with a grant on them', async () => {
    const servers: TestServer[] = [
      docs,
      { alias: 'slow', hasListed: false },
      { alias: 'late', hasListed: false },
    ];
    const service = createTestService({ servers });
    expect((await service.get('/v1/declarations', everything)).json.pending).toEqual(['late', 'slow']);
    expect((await service.get('/v1/declarations', { scopes: ['tools:slow:x'] })).json.pending).toEqual([
      'slow',
    ]);
    expect((await service.get('/v1/declarations', { scopes: ['tools:docs:*'] })).json.pending).toEqual([]);
    service.list([docs, { alias: 'slow', tools: [tool('x')] }, { alias: 'late', hasListed: false }]);
    const after = await service.get('/v1/declarations', everything);
    expect(after.json.pending).toEqual(['late']);
    expect(names(after.json)).toContain('slow__x');
  });

  test('warn of more tools than the provider takes, and cut nothing', async () => {
    const tools = Array.from({ length: 129 }, (_, index) => tool(`t${index}`));
    const service = createTestService({ servers: [{ alias: 'many', tools }] });
    const { json } = await service.get('/v1/declarations', everything);
    expect(json.tools).toHaveLength(129);
    expect(json.warnings).toEqual([{ code: 'too_many_tools', count: 129, max: 128 }]);
    expect((await service.get('/v1/declarations?format=mcp', everything)).json.warnings).toEqual([]);
    expect((await service.get('/v1/declarations?tool=t1', everything)).json.warnings).toEqual([]);
  });
});

describe('the bytes of the declarations', () => {
  test('leave out what grows without end where references are written out, and only that', async () => {
    const part = { type: 'string', description: 'd'.repeat(5_000) };
    const properties = Object.fromEntries(
      Array.from({ length: 100 }, (_, index) => [`p${index}`, { $ref: '#/$defs/D', title: 't' }]),
    );
    const growing: JsonObject = { type: 'object', properties, $defs: { D: part } };
    const servers = [
      { alias: 'big', tools: Array.from({ length: 100 }, (_, index) => tool(`t${index}`, growing)) },
      { alias: 'small', tools: [tool('one', growing)] },
    ];
    const service = createTestService({ servers });
    const { json, text } = await service.get('/v1/declarations?format=ollama', everything);
    expect(json.tools.length).toBeGreaterThan(50);
    expect(json.tools.at(-1).function.name).toBe('small__one');
    expect(json.tools.length + json.omitted.length).toBe(101);
    expect(json.omitted[0]).toMatchObject({
      server: 'big',
      reason: expect.stringMatching(/ characters together$/),
    });
    expect(text.length).toBeLessThan(40_000_000);
    expect((await service.get('/v1/declarations', everything)).json.omitted).toEqual([]);
  });

  test('do not depend on the order in which servers and tools came', async () => {
    const servers: TestServer[] = [
      {
        ...docs,
        refused: [
          { tool: 'z', reason: 'r' },
          { tool: 'a', reason: 'r' },
        ],
      },
      { ...tickets, refused: [{ tool: 'b', reason: 'r' }] },
      { alias: 'slow', hasListed: false },
      { alias: 'late', hasListed: false },
    ];
    const turned = servers.toReversed().map((server) => ({
      ...server,
      ...(server.tools === undefined ? {} : { tools: server.tools.toReversed() }),
      ...(server.refused === undefined ? {} : { refused: server.refused.toReversed() }),
    }));
    const one = await createTestService({ servers }).get('/v1/declarations', everything);
    const other = await createTestService({ servers: turned }).get('/v1/declarations', everything);
    expect(other.text).toBe(one.text);
    expect(other.headers.get('etag')).toBe(one.headers.get('etag'));
    expect(names(one.json)).toEqual(names(one.json).toSorted());
  });

  test('stay the same, with their tag, when an equal list comes again', async () => {
    const service = createTestService({ servers: [docs] });
    const one = await service.get('/v1/declarations', everything);
    service.list([structuredClone(docs)]);
    const other = await service.get('/v1/declarations', everything);
    expect(other.text).toBe(one.text);
    expect(other.headers.get('etag')).toBe(one.headers.get('etag'));
    expect(other.headers.get('callgate-revision')).toBe(one.headers.get('callgate-revision'));
  });

  test('are the same for tokens with the same rights, however they are written', async () => {
    const service = createTestService({ servers: [docs, tickets] });
    const one = await service.get('/v1/declarations', { scopes: ['tools:docs:*', 'tools:tickets:get'] });
    const other = await service.get('/v1/declarations', { scopes: ['tools:tickets:get', 'tools:docs:*'] });
    expect(other.text).toBe(one.text);
  });

  test('are not sent again to a caller that has them', async () => {
    const service = createTestService({ servers: [docs] });
    const first = await service.get('/v1/declarations', everything);
    const etag = first.headers.get('etag') ?? '';
    expect(first.headers.get('cache-control')).toBe('private');
    const again = (match: string) =>
      service.get('/v1/declarations', { ...everything, headers: { 'if-none-match': match } });
    for (const match of [etag, `W/${etag}`, `"x", ${etag}`, '*']) {
      const answer = await again(match);
      expect(answer.status).toBe(304);
      expect(answer.text).toBe('');
      expect(answer.headers.get('etag')).toBe(etag);
    }
    expect((await again('"x"')).status).toBe(200);
    service.list([docs, tickets]);
    const changed = await again(etag);
    expect(changed.status).toBe(200);
    expect(changed.headers.get('etag')).not.toBe(etag);
    expect(changed.headers.get('callgate-revision')).not.toBe(first.headers.get('callgate-revision'));
  });

  test('a filter changes the tag and not the revision', async () => {
    const service = createTestService({ servers: [docs] });
    const all = await service.get('/v1/declarations', everything);
    const some = await service.get('/v1/declarations?tool=search', everything);
    expect(some.headers.get('etag')).not.toBe(all.headers.get('etag'));
    expect(some.json.revision).toBe(all.json.revision);
    expect(some.headers.get('callgate-revision')).toBe(all.json.revision);
  });
});

describe('the list and the call', () => {
  const word = fc.constantFrom('a', 'b', 'get_a', 'get_b', 'set');
  const server = fc.record({
    alias: fc.constantFrom('x', 'y', 'z'),
    tools: fc.uniqueArray(word, { maxLength: 4 }),
    class: fc.constantFrom('read', 'write', undefined),
  });
  const grant = fc
    .tuple(
      fc.constantFrom('x', 'y', 'z', '*', 'X'),
      fc.constantFrom('a', 'b', 'get_*', '*', 'g*', 'set', 'get_a'),
      fc.constantFrom('', ':read', ':write', ':admin'),
    )
    .map(([alias, name, suffix]) => `tools:${alias}:${name}${suffix}`);

  test('agree: a tool is declared exactly when a call of it is allowed', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.uniqueArray(server, { selector: ({ alias }) => alias, maxLength: 3 }),
        fc.array(grant, { maxLength: 4 }),
        async (servers, scopes) => {
          const service = createTestService({
            servers: servers.map(({ alias, tools, class: toolClass }) => ({
              alias,
              tools: tools.map((name) => tool(name)),
              policy: { class: toolClass },
            })),
          });
          const declared = new Set(names((await service.get('/v1/declarations', { scopes })).json));
          const all = servers.flatMap(({ alias, tools }) => tools.map((name) => `${alias}__${name}`));
          const calls = all.map((name, index) => functionCall(`c${index}`, name));
          const { json } = await service.post('/v1/turns', calls, { scopes });
          for (const { name, status, code } of json.calls) {
            expect([name, status, code]).toEqual(
              declared.has(name) ? [name, 'succeeded', undefined] : [name, 'rejected', 'forbidden'],
            );
          }
          expect(service.sent).toHaveLength(declared.size);
        },
      ),
      { numRuns: 60 },
    );
  });
});

test('tell of a change only in a format that declares what was changed', async () => {
  const service = createTestService({
    servers: [
      {
        alias: 'docs',
        tools: [
          {
            ...tool('x'),
            title: 't'.repeat(9_000),
            description: 'd'.repeat(9_000),
            outputSchema: { $async: true },
          },
        ],
      },
    ],
  });
  const told = async (format: string) =>
    (await service.get(`/v1/declarations?format=${format}`, everything)).json.adjusted;
  const cut = { step: 'cut_description', path: '/description', loss: true };
  expect(await told('openai-responses')).toEqual([{ name: 'docs__x', steps: [cut] }]);
  expect(await told('mcp')).toEqual([
    {
      name: 'docs__x',
      steps: [
        { step: 'cut_title', path: '/title', loss: true },
        cut,
        { step: 'drop_output_schema', path: '/outputSchema', loss: true },
      ],
    },
  ]);
});
