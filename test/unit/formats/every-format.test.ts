import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { FunctionCall } from '../../../src/core/call.ts';
import { outcomeCodes } from '../../../src/core/errors.ts';
import type { JsonObject, JsonValue } from '../../../src/core/json.ts';
import { failed } from '../../../src/core/outcome.ts';
import type { DeclaredTool, Format } from '../../../src/formats/format.ts';
import { formats } from '../../../src/formats/formats.ts';
import { faultsAgainst } from '../../support/contract.ts';
import { done, mediaBlock, outcomes, picture, textBlock } from '../../support/outcomes.ts';
import { registryOf, tool } from '../../support/service.ts';

const all = [...formats.values()];
const flagging = new Set(['anthropic', 'gemini', 'gemini-interactions', 'bedrock', 'mcp']);
const call: FunctionCall = { callId: 'c1', name: 'lab__x', arguments: {} };
const kinds = [undefined, 'multimodal', 'toolCall'];

const schemaOf: Readonly<Record<string, string>> = {
  'openai-responses': 'FunctionCallOutput',
  'openai-chat': 'ChatOutput',
  anthropic: 'AnthropicOutput',
  gemini: 'GeminiOutput',
  'gemini-interactions': 'InteractionsOutput',
  bedrock: 'BedrockOutput',
  mistral: 'MistralOutput',
  cohere: 'CohereOutput',
  ollama: 'OllamaOutput',
  mcp: 'McpOutput',
};

const declared: DeclaredTool[] = registryOf([
  { alias: 'docs', tools: [tool('search'), tool('get')] },
  { alias: 'lab', tools: [tool('echo')] },
]).bindings.map((binding) => ({
  binding,
  description: 'Does it.',
  schema: binding.inputSchema,
  isStrict: false,
}));
const plain = { strict: 'off', namespaces: false, defer: false } as const;

describe.each(all.map((format) => [format.name, format] as const))('the format %s', (name, format) => {
  const fits = (item: JsonValue): void =>
    expect(faultsAgainst(`/components/schemas/${schemaOf[name]}`, item)).toBe('');

  test('writes every kind of outcome as documented, and the same twice', () => {
    for (const outcome of Object.values(outcomes)) {
      for (const render of ['envelope', 'text'] as const) {
        for (const kind of kinds) {
          const write = (): JsonObject => format.output({ ...call, kind }, outcome, render);
          fits(write());
          expect(JSON.stringify(write())).toBe(JSON.stringify(write()));
        }
      }
    }
  });

  test('tells every code, with a flag or in the text', () => {
    for (const code of Object.keys(outcomeCodes) as (keyof typeof outcomeCodes)[]) {
      const item = format.output(call, failed(code, 'what happened'), format.defaultRender);
      fits(item);
      const text = JSON.stringify(item);
      expect(text).toContain(code === 'tool_error' ? 'what happened' : code);
      expect(text).toMatch(
        flagging.has(name) ? /"is_?Error":true|"error":"|"status":"error"/i : /\\"ok\\":false/,
      );
    }
  });

  test('marks a failure in plain text where there is no flag', () => {
    const text = JSON.stringify(format.output(call, outcomes.toolError, 'text'));
    expect(text.includes('[tool error] quota exceeded')).toBe(!flagging.has(name) || name === 'bedrock');
  });

  test('never brings base64 into a text (O09)', () => {
    if (name === 'mcp') return;
    const big = Buffer.alloc(6_000, 7).toString('base64');
    const outcome = done(
      ['image/png', 'image/tiff', 'audio/wav', 'application/pdf'].map((type) => mediaBlock(type, big)),
      { same: big },
    );
    for (const render of ['envelope', 'text'] as const) {
      const texts = JSON.stringify(format.output(call, outcome, render), (key, value) =>
        /^(data|bytes|images|image_url|file_data)$/.test(key) ? undefined : value,
      );
      expect(texts).not.toContain(big.slice(0, 100));
      expect(texts).toMatch(/\[image image\/tiff, 6000 bytes, (attached|not shown)\]/);
    }
  });

  test.each(['c', '__proto__', 'functions.x:0', ' a"\\b/c\u00e9\ud83d\ude00 ', 'x'.repeat(256)])(
    'echoes the id %j byte for byte',
    (callId) => {
      const item = format.output({ ...call, callId }, outcomes.text, format.defaultRender);
      expect(Object.values(name === 'gemini' ? (item.functionResponse as JsonObject) : flat(item))).toContain(
        callId,
      );
    },
  );

  test('holds the outputs of a turn in their order', () => {
    const outputs = ['a', 'b', 'c'].map((callId) =>
      format.output({ ...call, callId }, outcomes.text, format.defaultRender),
    );
    if (format.message === undefined) return;
    const message = format.message(outputs);
    expect(message.role).toBe('user');
    expect(message.content ?? message.parts).toEqual(outputs);
    // The place of the outputs is found by this.
    expect(JSON.stringify(format.message([])).split('[]')).toHaveLength(2);
  });

  test('declares tools as documented, and none as none', () => {
    expect(format.declare([], plain)).toEqual([]);
    for (const options of optionsOf(format)) {
      expect(format.declare([], options)).toEqual([]);
      for (const each of format.declare(declared, options)) {
        expect(faultsAgainst('/components/schemas/Declarations/properties/tools/items', each)).toBe('');
      }
      const nameless = declared.map((each) => ({ ...each, description: undefined }));
      expect(JSON.stringify(format.declare(nameless, options))).not.toContain('"description":""');
    }
  });

  test.each<JsonValue>([null, true, 5, '', 'text', {}, { output: 5 }, { choices: 5 }, { object: 'x' }])(
    'refuses %j and says what it reads',
    (body) => {
      const read = format.readTurn(body);
      if (read.ok) throw new Error('it was read');
      if (name === 'mcp' && typeof body === 'object' && body !== null) return;
      expect(read.error).toEqual([{ pointer: '', detail: expect.stringMatching(/^expected /) }]);
    },
  );

  test('reads an empty list as no call, and tells where in a list something else stands', () => {
    expect(format.readTurn([])).toEqual({ ok: true, value: [] });
    expect(format.readTurn([5, null])).toEqual({
      ok: false,
      error: [
        { pointer: '/0', detail: 'must be an object' },
        { pointer: '/1', detail: 'must be an object' },
      ],
    });
    const many = format.readTurn(Array<number>(1_000).fill(5));
    expect(many.ok || many.error.length).toBe(20);
  });

  test('takes no answer of another format for one without calls, and runs no call without its arguments', () => {
    for (const [other, answers] of Object.entries(foreign)) {
      if (isRelated(name, other)) continue;
      for (const body of answers) {
        const read = format.readTurn(body);
        expect([other, body, read.ok]).toEqual([other, body, false]);
      }
    }
  });

  test('reads any JSON without breaking', () => {
    fc.assert(
      fc.property(anyBody, (body) => {
        const read = format.readTurn(body as JsonValue);
        if (!read.ok) {
          expect(read.error.length).toBeGreaterThan(0);
          expect(read.error.length).toBeLessThanOrEqual(22);
          return;
        }
        for (const { call: each } of read.value) {
          expect(each.callId === undefined || each.callId.length > 0).toBe(true);
          expect(each.name).not.toBe('');
        }
      }),
      { numRuns: 300 },
    );
  });
});

/** Answers of each format with one call, which has an argument: whole ones, and lists of calls. */
const input = { q: 'x' };
const chatCall = { id: 'c1', type: 'function', function: { name: 'lab__x', arguments: '{"q":"x"}' } };
const toolUse = { type: 'tool_use', id: 'c1', name: 'lab__x', input };
const part = { functionCall: { id: 'c1', name: 'lab__x', args: input } };
const item = { type: 'function_call', id: 'f1', call_id: 'c1', name: 'lab__x', arguments: '{"q":"x"}' };
const step = { type: 'function_call', id: 'c1', name: 'lab__x', arguments: input };
const block = { toolUse: { toolUseId: 'c1', name: 'lab__x', input } };
const foreign: Readonly<Record<string, readonly JsonValue[]>> = {
  'openai-responses': [{ id: 'r', output: [item] }, [item]],
  'openai-chat': [
    { choices: [{ message: { role: 'assistant', content: null, tool_calls: [chatCall] } }] },
    { message: { role: 'assistant', content: '', tool_calls: [chatCall] } },
    { role: 'assistant', content: 'I look.', tool_calls: [chatCall] },
    [chatCall],
  ],
  anthropic: [{ role: 'assistant', content: [{ type: 'text', text: 'x' }, toolUse] }, [toolUse], toolUse],
  gemini: [{ candidates: [{ content: { parts: [part] } }] }, [part], { parts: [part] }],
  'gemini-interactions': [{ id: 'i', steps: [step] }, [step]],
  bedrock: [
    { output: { message: { role: 'assistant', content: [block] } } },
    { role: 'assistant', content: [block] },
    [block],
  ],
};

/** Whether one format reads the calls of another too, with all that is in them. */
const isRelated = (name: string, other: string): boolean =>
  name === other ||
  (other === 'openai-chat' && ['mistral', 'cohere', 'ollama'].includes(name)) ||
  (name === 'mcp' && ['openai-responses', 'gemini-interactions'].includes(other));

/** All the options that a format has, one at a time and together. */
const optionsOf = ({ options }: Format) =>
  [false, true].flatMap((namespaces) =>
    [false, true].map((defer) => ({
      ...plain,
      namespaces: namespaces && options.has('namespaces'),
      defer: defer && options.has('defer'),
    })),
  );

const flat = (item: JsonObject): JsonObject => ({ ...item, ...((item.toolResult as JsonObject) ?? {}) });

/** Bodies made of the members that formats look at, and of nonsense. */
const key = fc.constantFrom(
  ...['output', 'message', 'content', 'choices', 'candidates', 'parts', 'steps', 'tool_calls', 'toolCalls'],
  ...['toolUse', 'functionCall', 'function', 'type', 'id', 'name', 'role', 'arguments', 'input', 'args'],
  ...['toolUseId', 'call_id', 'finish_reason', 'stop_reason', 'promptFeedback', '__proto__'],
);
const word = fc.constantFrom(
  ...['assistant', 'function', 'custom', 'function_call', 'tool_use', 'length', 'null', '', 'c1'],
);
const { anyBody } = fc.letrec((tie) => ({
  anyBody: fc.oneof({ maxDepth: 5 }, fc.constantFrom(null, 5, true), word, tie('list'), tie('object')),
  list: fc.array(tie('anyBody'), { maxLength: 4 }),
  object: fc.dictionary(key, tie('anyBody'), { maxKeys: 5 }),
}));

test('media are carried by what takes them', () => {
  const outcome = done([textBlock('shot'), mediaBlock('image/png')]);
  const carrying = all
    .filter((format) => JSON.stringify(format.output(call, outcome, format.defaultRender)).includes(picture))
    .map(({ name }) => name);
  expect(carrying).toEqual([
    'openai-responses',
    'anthropic',
    'gemini-interactions',
    'bedrock',
    'mistral',
    'ollama',
    'mcp',
  ]);
});
