import { describe, expect, test } from 'vitest';
import type { JsonObject } from '../../../src/core/json.ts';
import { eventsOf } from '../../support/contract.ts';
import { mediaBlock, picture, textBlock } from '../../support/outcomes.ts';
import { createTestService, type TestServer, textResult, tool } from '../../support/service.ts';

const query: JsonObject = { type: 'object', properties: { q: { type: 'string' } }, required: ['q'] };
const lab: TestServer = { alias: 'lab', tools: [tool('echo', query), tool('fail'), tool('shot')] };
const mayAll = { scopes: ['tools:lab:*'] };
const start = () =>
  createTestService({
    servers: [lab],
    behaviours: {
      'lab:echo': ({ arguments: { q } }) => textResult(`<${q}>`),
      'lab:fail': () => textResult('quota exceeded', true),
      'lab:shot': () => ({ content: [textBlock('shot'), mediaBlock('image/png')] }),
    },
  });

/** The calls of each test turn: one that is done, one that fails, one of nothing, one with an image. */
const asked: readonly [id: string, name: string, input: JsonObject][] = [
  ['id-1', 'lab__echo', { q: 'X' }],
  ['id-2', 'lab__fail', {}],
  ['id-3', 'own__clock', {}],
  ['id-4', 'lab__shot', {}],
];

interface Dialect {
  /** The whole answer of a model, as the SDK has it. */
  readonly answer: (withIds?: boolean) => unknown;
  /** The calls alone, as a list. */
  readonly list: (withIds?: boolean) => readonly unknown[];
  /** Where the first call stands in the list that holds it. */
  readonly offset: number;
  /** The outputs in `append`. */
  readonly outputs: (append: readonly JsonObject[]) => readonly JsonObject[];
  /** The id that an output answers. */
  readonly idOf: (output: JsonObject) => unknown;
  /** What it says. */
  readonly saidBy: (output: JsonObject) => string;
  readonly isFlagged: (output: JsonObject) => boolean;
}

const inText = (output: JsonObject): boolean => JSON.stringify(output).includes('\\"ok\\":false');
const sideBySide = (append: readonly JsonObject[]) => append;
const inOne = (member: string) => (append: readonly JsonObject[]) => {
  expect(append).toHaveLength(1);
  expect(append[0]?.role).toBe('user');
  return append[0]?.[member] as readonly JsonObject[];
};
const idMember = (id: string, withIds: boolean, key = 'id') => (withIds ? { [key]: id } : {});
const chatCalls = (withIds = true) =>
  asked.map(([id, name, input]) => ({
    ...idMember(id, withIds),
    type: 'function',
    function: { name, arguments: JSON.stringify(input) },
  }));
const chatMessage = (withIds = true) => ({
  role: 'assistant',
  content: null,
  tool_calls: chatCalls(withIds),
});
const chat: Dialect = {
  answer: (withIds) => ({
    id: 'chatcmpl-1',
    choices: [{ index: 0, finish_reason: 'tool_calls', message: chatMessage(withIds) }],
  }),
  list: chatCalls,
  offset: 0,
  outputs: sideBySide,
  idOf: (output) => output.tool_call_id,
  saidBy: (output) => JSON.stringify(output.content),
  isFlagged: inText,
};

const geminiParts = (withIds = true) =>
  asked.map(([id, name, args]) => ({ functionCall: { name, args, ...idMember(id, withIds) } }));
const responseOf = (output: JsonObject) => output.functionResponse as JsonObject;

const anthropicUses = () => asked.map(([id, name, input]) => ({ type: 'tool_use', id, name, input }));
const steps = () => asked.map(([id, name, input]) => ({ type: 'function_call', id, name, arguments: input }));
const bedrockUses = () => asked.map(([toolUseId, name, input]) => ({ toolUse: { toolUseId, name, input } }));

const dialects: Readonly<Record<string, Dialect>> = {
  'openai-chat': chat,
  anthropic: {
    answer: () => ({
      id: 'msg_1',
      type: 'message',
      role: 'assistant',
      content: [{ type: 'text', text: 'I look.' }, ...anthropicUses()],
      stop_reason: 'tool_use',
    }),
    list: anthropicUses,
    offset: 1,
    outputs: inOne('content'),
    idOf: (output) => output.tool_use_id,
    saidBy: (output) => JSON.stringify(output.content),
    isFlagged: (output) => output.is_error === true,
  },
  gemini: {
    answer: (withIds) => ({
      candidates: [
        { content: { role: 'model', parts: [{ text: 'x' }, ...geminiParts(withIds)] }, finishReason: 'STOP' },
      ],
      modelVersion: 'gemini-3-pro',
    }),
    list: geminiParts,
    offset: 1,
    outputs: inOne('parts'),
    idOf: (output) => responseOf(output).id,
    saidBy: (output) => JSON.stringify(responseOf(output)),
    isFlagged: (output) => 'error' in (responseOf(output).response as JsonObject),
  },
  'gemini-interactions': {
    answer: () => ({
      id: 'v1_1',
      status: 'requires_action',
      steps: [{ type: 'thought' }, ...steps()],
    }),
    list: steps,
    offset: 1,
    outputs: sideBySide,
    idOf: (output) => output.call_id,
    saidBy: (output) => JSON.stringify(output.result),
    isFlagged: (output) => output.is_error === true,
  },
  bedrock: {
    answer: () => ({
      output: {
        message: { role: 'assistant', content: [{ text: 'x' }, ...bedrockUses()] },
      },
      stopReason: 'tool_use',
    }),
    list: bedrockUses,
    offset: 1,
    outputs: inOne('content'),
    idOf: (output) => (output.toolResult as JsonObject).toolUseId,
    saidBy: (output) => JSON.stringify((output.toolResult as JsonObject).content),
    isFlagged: (output) => (output.toolResult as JsonObject).status === 'error',
  },
  mistral: chat,
  cohere: { ...chat, answer: () => ({ finish_reason: 'TOOL_CALL', message: chatMessage() }) },
  ollama: {
    ...chat,
    answer: (withIds) => ({ done: true, done_reason: 'stop', message: chatMessage(withIds) }),
  },
};

describe.each(Object.entries(dialects))('a turn of %s', (format, dialect) => {
  const path = `/v1/turns?format=${format}`;

  test('answers every call in order, one that fails among them', async () => {
    const { json, status } = await start().post(path, dialect.answer(), mayAll);
    expect(status).toBe(200);
    const outputs = dialect.outputs(json.append);
    expect(outputs.map(dialect.idOf)).toEqual(['id-1', 'id-2', 'id-3', 'id-4']);
    expect(outputs.map(dialect.isFlagged)).toEqual([false, true, true, false]);
    expect(dialect.saidBy(outputs[0] ?? {})).toContain('<X>');
    expect(dialect.saidBy(outputs[1] ?? {})).toContain('quota exceeded');
    expect(dialect.saidBy(outputs[2] ?? {})).toContain('unknown_tool');
    expect(dialect.saidBy(outputs[3] ?? {})).toContain('shot');
    expect(JSON.stringify(outputs[3]).includes(picture)).toBe(!['openai-chat', 'cohere'].includes(format));
    expect(json.calls.map((call: { call_id: string; code?: string }) => [call.call_id, call.code])).toEqual([
      ['id-1', undefined],
      ['id-2', 'tool_error'],
      ['id-3', 'unknown_tool'],
      ['id-4', undefined],
    ]);
    expect(json.left).toEqual([]);
  });

  test('is the same for the list of calls, one after another, and replays', async () => {
    const service = start();
    const { json } = await service.post(`${path}&order=sequential`, dialect.list(), mayAll);
    expect(dialect.outputs(json.append).map(dialect.idOf)).toEqual(['id-1', 'id-2', 'id-3', 'id-4']);
    const again = (await service.post(path, dialect.list(), mayAll)).json;
    expect(again.append).toEqual(json.append);
    expect(again.calls.map((call: { replayed: boolean }) => call.replayed)).toEqual([
      ...[true, true, false, true],
    ]);
    expect(service.sent).toHaveLength(3);
  });

  test('leaves calls that are not ours to the caller, by their place in their own list', async () => {
    const { json } = await start().post(`${path}&unknown=leave`, dialect.answer(), mayAll);
    expect(json.left).toEqual([{ index: 2 + dialect.offset, call_id: 'id-3', name: 'own__clock' }]);
    expect(dialect.outputs(json.append).map(dialect.idOf)).toEqual(['id-1', 'id-2', 'id-4']);
  });

  test('tells each output as it is ready, and the whole at last', async () => {
    const service = start();
    const accept = { ...mayAll, headers: { accept: 'text/event-stream' } };
    const { text } = await service.post(path, dialect.answer(), accept);
    const events = eventsOf(text);
    const items = events.filter(({ event }) => event === 'output').map(({ data }) => data);
    items.sort((a, b) => a.index - b.index);
    const done = events.at(-1);
    expect(done?.event).toBe('done');
    expect(dialect.outputs(done?.data.append)).toEqual(items.map(({ item }) => item));
  });

  test('without calls appends nothing', async () => {
    expect((await start().post(path, [], mayAll)).json).toEqual({ append: [], calls: [], left: [] });
  });

  test('takes plain text for a rendering', async () => {
    const { json } = await start().post(`${path}&render=text`, dialect.list(), mayAll);
    const outputs = dialect.outputs(json.append);
    expect(dialect.saidBy(outputs[0] ?? {})).toContain('<X>');
    expect(JSON.stringify(outputs)).not.toContain('\\"ok\\":');
  });
});

describe.each(['gemini', 'mistral', 'ollama'])('calls of %s without ids', (format) => {
  const dialect = dialects[format] as Dialect;
  const path = `/v1/turns?format=${format}`;
  const facts = (json: { calls: { call_id: string; replay_protected: boolean }[] }) => ({
    ids: json.calls.map(({ call_id }) => call_id),
    protected: new Set(json.calls.map(({ replay_protected }) => replay_protected)),
  });

  test('get one each, and are known again where the turn has a name', async () => {
    const service = start();
    const named = { ...mayAll, headers: { 'callgate-turn': 'turn-1' } };
    const first = (await service.post(path, dialect.answer(false), named)).json;
    const { ids } = facts(first);
    expect(new Set(ids).size).toBe(4);
    for (const id of ids) expect(id).toMatch(/^[0-9A-Za-z]{9}$/);
    const second = (await service.post(path, dialect.answer(false), named)).json;
    expect(facts(second).ids).toEqual(ids);
    expect(second.append).toEqual(first.append);
    expect(service.sent).toHaveLength(3);
    expect(first.calls.map((call: { replay_protected: boolean }) => call.replay_protected)).toEqual([
      ...[true, true, true, true],
    ]);
    const sent = dialect.outputs(first.append).map(dialect.idOf);
    expect(sent).toEqual(format === 'mistral' ? ids : [undefined, undefined, undefined, undefined]);
  });

  test('are not protected from running twice where it has none', async () => {
    const service = start();
    const first = facts((await service.post(path, dialect.answer(false), mayAll)).json);
    const second = facts((await service.post(path, dialect.answer(false), mayAll)).json);
    expect(first.protected).toEqual(new Set([false]));
    expect(second.ids).not.toEqual(first.ids);
    expect(service.sent).toHaveLength(6);
  });
});

describe('a turn is refused, and nothing of it is run,', () => {
  test.each<[string, unknown, string]>([
    [
      'openai-chat',
      { choices: [1, 2].map(() => ({ message: chatMessage() })) },
      '/choices/0 has calls, as others of choices have',
    ],
    [
      'gemini',
      { candidates: [1, 2].map(() => ({ content: { parts: geminiParts() } })) },
      '/candidates/0 has calls',
    ],
    ['openai-chat', chatCalls(false), '/0/id is missing'],
    ['anthropic', [{ type: 'tool_use', name: 'lab__fail', input: {} }], '/0/id is missing'],
    ['bedrock', [{ toolUse: { name: 'lab__fail', input: {} } }], '/0/toolUse/toolUseId is missing'],
    ['cohere', chatCalls(false), '/0/id is missing'],
    ['gemini-interactions', [{ type: 'function_call', name: 'lab__fail' }], '/0/id is missing'],
    ['anthropic', { choices: [] }, 'expected a whole message'],
    ['gemini', [...geminiParts(), ...geminiParts()], 'the call id "id-1" stands on 2 calls'],
  ])('when a body of %s is wrong', async (format, body, detail) => {
    const service = start();
    const { status, json } = await service.post(`/v1/turns?format=${format}`, body, mayAll);
    expect(status).toBe(400);
    expect(json.detail).toContain(detail);
    expect(service.sent).toEqual([]);
  });
});

describe('a call in a namespace', () => {
  test('runs the tool that was declared in it, whatever was cut from its name', async () => {
    const long = `${'very_'.repeat(12)}long`;
    const service = createTestService({
      servers: [{ alias: 'lab', tools: [tool(long), tool('a b'), tool('plain')] }],
    });
    const { json } = await service.get('/v1/declarations?namespaces=1', mayAll);
    const [namespace] = json.tools as { name: string; tools: { name: string }[] }[];
    const calls = (namespace?.tools ?? []).map(({ name }, place) => ({
      type: 'function_call',
      call_id: `c${place}`,
      namespace: namespace?.name,
      name,
      arguments: '',
    }));
    const turn = (await service.post('/v1/turns', calls, mayAll)).json;
    expect(turn.calls.map((call: { status: string }) => call.status)).toEqual([
      ...['succeeded', 'succeeded', 'succeeded'],
    ]);
    expect(service.sent.map((call) => call.tool).sort()).toEqual([long, 'a b', 'plain'].sort());
  });
});

describe('the options of declarations', () => {
  const get = (search: string) => start().get(`/v1/declarations?${search}`, mayAll);

  test.each([
    'format=anthropic&strict=lossless',
    'format=anthropic&namespaces=1',
    'format=openai-chat&defer=1',
    'format=gemini&defer=1',
    'format=mistral&strict=lossless',
    'format=openai-chat&namespaces=1',
    'strict=on',
    'namespaces=yes',
    'defer=2',
    'format=openai',
  ])('are refused where the format has none: %s', async (search) => {
    const { status, json } = await get(search);
    expect(status).toBe(400);
    expect(json.code).toBe('invalid_request');
  });

  test.each([
    ...Object.keys(dialects).map((format) => `format=${format}`),
    'strict=lossless',
    'format=openai-chat&strict=lossless',
    'namespaces=1',
    'defer=1',
    'namespaces=1&defer=1&strict=lossless',
    'format=anthropic&defer=1',
    'format=anthropic&strict=off&namespaces=0&defer=0',
  ])('give tools as documented: %s', async (search) => {
    const { status, json } = await get(search);
    expect(status).toBe(200);
    expect(JSON.stringify(json.tools)).toContain('echo');
    expect((await get(`${search}&tool=nothing`)).json.tools).toEqual([]);
  });
});

describe('a property that a format calls otherwise than its server', () => {
  const filtered: TestServer = {
    alias: 'app',
    tools: [
      tool('list', {
        type: 'object',
        properties: { 'filter[id]': { type: 'integer' } },
        required: ['filter[id]'],
      }),
    ],
  };

  test('is mapped back for the server, and called by its declared name in what the model is told', async () => {
    const service = createTestService({ servers: [filtered] });
    const access = { scopes: ['tools:app:*'] };
    const { json } = await service.get('/v1/declarations?format=anthropic', access);
    const [declared = ''] = Object.keys(json.tools[0].input_schema.properties);
    expect(declared).toMatch(/^[A-Za-z0-9_.-]{1,64}$/);
    const answer = (input: Record<string, unknown>) => ({
      role: 'assistant',
      content: [{ type: 'tool_use', id: `toolu_${Object.values(input)}`, name: 'app__list', input }],
    });
    await service.post('/v1/turns?format=anthropic', answer({ [declared]: 7 }), access);
    expect(service.sent.map((call) => call.arguments)).toEqual([{ 'filter[id]': 7 }]);
    const refused = await service.post('/v1/turns?format=anthropic', answer({ [declared]: 'x' }), access);
    const [{ content }] = refused.json.append[0].content;
    expect(JSON.stringify(content)).toContain(`/${declared}: expected`);
  });
});
