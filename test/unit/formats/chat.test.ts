import { describe, expect, test } from 'vitest';
import type { FunctionCall } from '../../../src/core/call.ts';
import type { JsonObject } from '../../../src/core/json.ts';
import { camelCase } from '../../../src/formats/chat.ts';
import { cohere } from '../../../src/formats/cohere.ts';
import type { DeclaredTool } from '../../../src/formats/format.ts';
import { mistral } from '../../../src/formats/mistral.ts';
import { ollama } from '../../../src/formats/ollama.ts';
import { openaiChat } from '../../../src/formats/openai-chat.ts';
import { type OutcomeName, outcomes, picture } from '../../support/outcomes.ts';
import { callsIn, faultsIn } from '../../support/reading.ts';
import { registryOf, tool } from '../../support/service.ts';

const called = (id: string | undefined, name = 'lab__x', input: unknown = '{}'): JsonObject => ({
  ...(id === undefined ? {} : { id }),
  type: 'function',
  function: { name, arguments: input as string },
});
const message = (...calls: JsonObject[]) => ({ role: 'assistant', content: null, tool_calls: calls });
const completion = (...choices: unknown[]) => ({ id: 'chatcmpl-1', object: 'chat.completion', choices });
const choice = (answer: unknown, reason = 'tool_calls', index = 0) => ({
  index,
  message: answer,
  finish_reason: reason,
});
const two = message(called('a'), called('b', 'lab__y', '{"q":1}'));
const read = (at: string) => [
  [0, `${at}/0`, 'a', 'lab__x', '{}'],
  [1, `${at}/1`, 'b', 'lab__y', '{"q":1}'],
];

describe('tool calls of Chat Completions', () => {
  test.each<[string, unknown, unknown[][]]>([
    ['a whole completion', completion(choice(two)), read('/choices/0/message/tool_calls')],
    ['its message', two, read('/tool_calls')],
    ['its list', two.tool_calls, read('')],
    ['one', called('a'), [[0, '', 'a', 'lab__x', '{}']]],
    ['a completion without calls', completion(choice({ role: 'assistant', content: 'hi' }, 'stop')), []],
    ['one with null for calls', completion(choice({ role: 'assistant', tool_calls: null }, 'stop')), []],
    ['a message without calls', { role: 'assistant', content: 'hi' }, []],
    ['a completion without choices', completion(), []],
    [
      'calls in one of several choices',
      completion(choice({ role: 'assistant', content: 'hi' }), choice(two, 'tool_calls', 1)),
      read('/choices/1/message/tool_calls'),
    ],
    [
      'a call of a tool that takes text',
      [{ id: 'a', type: 'custom', custom: { name: 'grep', input: 'x' } }],
      [[0, '/0', 'a', 'grep', 'x']],
    ],
    ['a call without arguments', [{ id: 'a', function: { name: 'n' } }], [[0, '/0', 'a', 'n', undefined]]],
    ['calls of other kinds', [{ id: 'm', type: 'mcp' }, called('a')], [[1, '/1', 'a', 'lab__x', '{}']]],
  ])('are read from %s', (_, body, expected) => {
    expect(callsIn(openaiChat, body)).toEqual(expected);
  });

  test.each(['length', 'content_filter', 'LENGTH'])('that end with %s leave the last one alone', (reason) => {
    expect(callsIn(openaiChat, completion(choice(two, reason)))).toHaveLength(1);
    expect(callsIn(openaiChat, completion(choice(message(called('a')), reason)))).toEqual([]);
  });

  test.each<[string, unknown, string[]]>([
    [
      'calls in two choices',
      completion(choice(two), choice({ role: 'assistant' }), choice(two)),
      ['/choices/0', '/choices/2'],
    ],
    ['a missing id', [called(undefined)], ['/0/id']],
    ['an empty id', completion(choice(message(called('')))), ['/choices/0/message/tool_calls/0/id']],
    ['an id that is a number', [{ ...called('a'), id: 5 }], ['/0/id']],
    ['a missing name', [{ id: 'a', function: {} }], ['/0/function/name']],
    ['no function', [{ id: 'a', type: 'function' }], ['/0/function']],
    ['calls that are no list', { role: 'assistant', tool_calls: { a: 1 } }, ['/tool_calls']],
    ['a part of a stream', completion({ delta: { tool_calls: [called('a')] } }), ['/choices/0/message']],
    ['a choice that is none', completion(5), ['/choices/0']],
  ])('are refused with %s', (_, body, pointers) => {
    expect(faultsIn(openaiChat, body).map(([pointer]) => pointer)).toEqual(pointers);
  });
});

describe('calls of the relatives', () => {
  test('of Mistral may lack an id, for which its SDK writes a word', () => {
    const bare = [called(undefined), called('null'), called(''), called('D681PevKs')];
    const ids = [undefined, undefined, undefined, 'D681PevKs'];
    const body = { choices: [{ index: 0, finishReason: 'tool_calls', message: { toolCalls: bare } }] };
    expect(callsIn(mistral, body).map(([, , id]) => id)).toEqual(ids);
    expect(callsIn(mistral, bare).map(([, , id]) => id)).toEqual(ids);
    const cut = { choices: [{ finishReason: 'model_length', message: { toolCalls: bare } }] };
    expect(callsIn(mistral, cut)).toHaveLength(3);
  });

  test('of Mistral may have objects for arguments', () => {
    expect(callsIn(mistral, called('a', 'n', { q: 1 }))).toEqual([[0, '', 'a', 'n', { q: 1 }]]);
  });

  test('of Cohere stand in the message of the answer, in either spelling', () => {
    const plan = { role: 'assistant', toolPlan: 'I look' };
    expect(
      callsIn(cohere, {
        id: '1',
        finishReason: 'TOOL_CALL',
        message: { ...plan, toolCalls: two.tool_calls },
      }),
    ).toEqual(read('/message/toolCalls'));
    expect(callsIn(cohere, { finish_reason: 'TOOL_CALL', message: two })).toEqual(
      read('/message/tool_calls'),
    );
    expect(callsIn(cohere, { finish_reason: 'MAX_TOKENS', message: two })).toHaveLength(1);
    expect(callsIn(cohere, { finish_reason: 'COMPLETE', message: { role: 'assistant' } })).toEqual([]);
    expect(faultsIn(cohere, { message: { tool_calls: [{ id: 'a', type: 'function' }] } })).toEqual([
      ['/message/tool_calls/0/function', expect.stringContaining('is missing')],
    ]);
    expect(faultsIn(cohere, [called('')])).toHaveLength(1);
  });

  test('of Ollama stand in the message of the answer, mostly without ids', () => {
    const calls = [{ function: { name: 'lab__x', arguments: { q: 1 } } }];
    const answer = { model: 'm', done: true, done_reason: 'stop', message: { role: 'assistant' } };
    const expected = [[0, '/message/tool_calls/0', undefined, 'lab__x', { q: 1 }]];
    expect(callsIn(ollama, { ...answer, message: { content: '', tool_calls: calls } })).toEqual(expected);
    expect(callsIn(ollama, answer)).toEqual([]);
    expect(callsIn(ollama, { ...answer, done_reason: 'length', message: { tool_calls: calls } })).toEqual([]);
    expect(callsIn(ollama, { message: { tool_calls: [called('call_1')] } })[0]?.[2]).toBe('call_1');
  });
});

describe('a tool message', () => {
  const call: FunctionCall = { callId: 'c1', name: 'lab__x', arguments: {} };
  const contents: [OutcomeName, 'envelope' | 'text', string][] = [
    ['text', 'text', '3 pages'],
    ['text', 'envelope', '{"ok":true,"content":[{"type":"text","text":"3 pages"}]}'],
    ['texts', 'text', 'a\nb'],
    ['empty', 'text', ''],
    ['empty', 'envelope', '{"ok":true,"content":[]}'],
    ['structured', 'text', '{"total":36}'],
    ['structured', 'envelope', '{"ok":true,"content":[],"structured":{"total":36}}'],
    ['tiff', 'text', '[image image/tiff, 9 bytes, not shown]'],
    ['audio', 'text', '[audio audio/wav, 9 bytes, not shown]'],
    ['pdf', 'text', '[document application/pdf, 8 bytes, not shown]'],
    ['link', 'text', '[resource link] Page A https://example.com/a'],
    ['embedded', 'text', '[resource file:///a.md]\ninside'],
    ['unknown', 'text', '[content of type "hologram" is not supported]'],
    ['remark', 'text', 'saved\n[note] the tool promises structured content and sent none'],
    ['toolError', 'text', '[tool error] quota exceeded'],
    ['silentError', 'text', '[tool error] the tool reported an error without text'],
    ['forbidden', 'text', '[tool error] forbidden: it needs a grant'],
  ];

  test.each(contents)('has text for %s as %s', (name, render, content) => {
    const write = (format: typeof openaiChat, more = {}) =>
      format.output({ ...call, ...more }, outcomes[name], render);
    expect(write(openaiChat)).toEqual({ role: 'tool', tool_call_id: 'c1', content });
    expect(write(cohere)).toEqual({ role: 'tool', tool_call_id: 'c1', content });
    expect(write(mistral)).toEqual({ role: 'tool', tool_call_id: 'c1', name: 'lab__x', content });
    expect(write(ollama)).toEqual({ role: 'tool', tool_name: 'lab__x', tool_call_id: 'c1', content });
    expect(write(ollama, { hasMadeId: true })).toEqual({ role: 'tool', tool_name: 'lab__x', content });
  });

  test('tells an error with all its facts where nothing flags it', () => {
    expect(JSON.parse(openaiChat.output(call, outcomes.forbidden, 'envelope').content as string)).toEqual({
      ok: false,
      error: {
        code: 'forbidden',
        message: 'it needs a grant',
        may_have_executed: false,
        retryable: false,
        missing_grant: 'tools:a:b:read',
      },
      content: [],
    });
  });

  test('carries an image where the API looks at one', () => {
    const marked = 'shot\n[image image/png, 9 bytes, not shown]';
    const attached = 'shot\n[image image/png, 9 bytes, attached]';
    expect(openaiChat.output(call, outcomes.png, 'text').content).toBe(marked);
    expect(cohere.output(call, outcomes.png, 'text').content).toBe(marked);
    expect(mistral.output(call, outcomes.png, 'text').content).toEqual([
      { type: 'text', text: attached },
      { type: 'image_url', image_url: `data:image/png;base64,${picture}` },
    ]);
    expect(ollama.output(call, outcomes.png, 'text')).toMatchObject({ content: attached, images: [picture] });
  });

  test('is spelled as the answer was', () => {
    const camel = { ...call, kind: camelCase };
    expect(cohere.output(camel, outcomes.text, 'text')).toEqual({
      role: 'tool',
      toolCallId: 'c1',
      content: '3 pages',
    });
    expect(mistral.output(camel, outcomes.png, 'text')).toEqual({
      role: 'tool',
      toolCallId: 'c1',
      name: 'lab__x',
      content: [
        { type: 'text', text: 'shot\n[image image/png, 9 bytes, attached]' },
        { type: 'image_url', imageUrl: `data:image/png;base64,${picture}` },
      ],
    });
    const body = { message: { toolCalls: [called('c1')] } };
    const turn = mistral.readTurn(body);
    expect(turn.ok && turn.value[0]?.call.kind).toBe(camelCase);
    const snake = mistral.readTurn({ message: message(called('c1')) });
    expect(snake.ok && snake.value[0]?.call.kind).toBe(undefined);
  });
});

test('a function is declared with its schema, and says whether it is strict where that means something', () => {
  const [binding] = registryOf([{ alias: 'docs', tools: [tool('search')] }]).bindings;
  const declared = {
    binding,
    description: 'Searches.',
    schema: binding?.inputSchema,
    isStrict: true,
  } as DeclaredTool;
  const options = { strict: 'off', namespaces: false, defer: false } as const;
  const parameters = { type: 'object', properties: {} };
  const plain = { name: 'docs__search', description: 'Searches.', parameters };
  expect(openaiChat.declare([declared, { ...declared, isStrict: false }], options)).toEqual([
    { type: 'function', function: { ...plain, strict: true } },
    { type: 'function', function: { ...plain, strict: false } },
  ]);
  for (const format of [mistral, cohere, ollama]) {
    expect(format.declare([declared], options)).toEqual([{ type: 'function', function: plain }]);
  }
});
