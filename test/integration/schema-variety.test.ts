import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Callgate, startCallgate } from '../support/callgate.ts';
import { type ScriptedTool, scriptedServer, scriptFolder } from '../support/scripted.ts';

const of = (
  name: string,
  inputSchema: object,
  more: Readonly<Record<string, unknown>> = {},
): ScriptedTool => ({
  definition: { name, inputSchema, ...more },
});
const sharedId = 'https://schema.test/args';

const tools: readonly ScriptedTool[] = [
  of('t1', {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    type: 'object',
    properties: { p: { type: 'array', prefixItems: [{ type: 'string' }, { type: 'integer' }] } },
  }),
  of('t2', {
    $schema: 'http://json-schema.org/draft-07/schema#',
    type: 'object',
    definitions: { pair: { type: 'array', items: [{ type: 'string' }, { type: 'integer' }] } },
    properties: { p: { $ref: '#/definitions/pair' } },
  }),
  of('t3', { $id: sharedId, type: 'object', required: ['a'] }),
  of('t4', { $id: sharedId, type: 'object', required: ['b'] }),
  of('t5', {
    type: 'object',
    properties: { p: { type: 'integer', minimum: 0, exclusiveMinimum: true } },
  }),
  of('t6', { type: 'object', properties: { p: { $ref: '#/$defs/Gone' } } }),
  of('t7', { type: 'object', 'x-vendor': { hint: 1 }, properties: { p: { format: 'uint64' } } }),
  of(
    't8',
    { type: 'object' },
    { outputSchema: { type: 'object', properties: { x: { $ref: '#/$defs/Gone' } } } },
  ),
  of('t9', {}),
  of('t10', { type: 'object', properties: {} }),
  {
    ...of('t11', { type: 'object' }, { outputSchema: { $async: true, type: 'object', required: ['x'] } }),
    result: { content: [{ type: 'text', text: 'no x' }], structuredContent: { y: 1 } },
  },
  { ...of('end', { type: 'object' }), dies: true },
];

describe('schemas that one shared validator cannot hold, from the list to the call and over a reconnect (O05)', () => {
  const folder = scriptFolder();
  let gate: Callgate;
  let token: string;

  beforeAll(async () => {
    gate = await startCallgate({ mcpServers: { odd: scriptedServer(folder.path('tools.json'), tools) } });
    token = await gate.token(['tools:odd:*', 'callgate:operate']);
  });
  afterAll(() => folder.remove());

  const codeOf = async (tool: string, input: unknown): Promise<string> => {
    const { envelope } = await gate.call(token, crypto.randomUUID(), `odd__${tool}`, input);
    return envelope.error?.code ?? envelope.content[0]?.text ?? '';
  };
  const isSound = async (): Promise<void> => {
    expect(await codeOf('t1', { p: ['a', 1] })).toBe('{"p":["a",1]}');
    expect(await codeOf('t1', { p: ['a', 'b'] })).toBe('invalid_arguments');
    expect(await codeOf('t2', { p: ['a', 1] })).toBe('{"p":["a",1]}');
    expect(await codeOf('t2', { p: [1, 'a'] })).toBe('invalid_arguments');
    expect(await codeOf('t3', { a: 1 })).toBe('{"a":1}');
    expect(await codeOf('t4', { a: 1 })).toBe('invalid_arguments');
    expect(await codeOf('t4', { b: 1 })).toBe('{"b":1}');
    for (const tool of ['t7', 't8', 't9', 't10']) expect(await codeOf(tool, { p: 1 })).toBe('{"p":1}');
    expect(await codeOf('t11', {})).toBe('no x');
    for (const tool of ['t5', 't6']) expect(await codeOf(tool, { p: 1 })).toBe('unknown_tool');
  };
  const withheld = async (): Promise<unknown> => {
    const { body } = await gate.get<{ servers: { withheld: unknown }[] }>('/v1/servers', { token });
    return body.servers[0]?.withheld;
  };
  const withheldOnes = [
    { tool: 't5', reason: expect.stringContaining('exclusiveMinimum') },
    { tool: 't6', reason: expect.stringContaining('#/$defs/Gone') },
  ];

  test('each is judged by its own dialect, and one that cannot be used harms itself alone', async () => {
    await isSound();
    expect(await withheld()).toEqual(withheldOnes);
  });

  test('after the server was lost and listed again everything is as before', async () => {
    expect(await codeOf('end', {})).toBe('connection_lost');
    await isSound();
    expect(await withheld()).toEqual(withheldOnes);
    const pids = new Set(gate.executions().map(({ pid }) => pid));
    expect(pids.size).toBe(2);
  });

  test('the log has one line for each withheld tool and list, and none for a call', async () => {
    await gate.stop();
    const named = (name: string) => gate.logs().filter(({ event }) => event === name);
    const lists = named('tools.listed').length;
    expect(lists).toBeLessThanOrEqual(2);
    const told = Array.from({ length: lists }, () => ['t5', 't6']).flat();
    expect(named('tool.withheld').map(({ tool }) => tool)).toEqual(told);
    const others = gate.logs().filter(({ level, event }) => level !== 'info' && event !== 'tool.withheld');
    expect(others.map(({ event }) => event)).toEqual(['server.connection_lost']);
  });
});
