import { describe, expect, test } from 'vitest';
import type { FunctionCall } from '../../../src/core/call.ts';
import type { JsonObject, JsonValue } from '../../../src/core/json.ts';
import { anthropic } from '../../../src/formats/anthropic.ts';
import type { DeclaredTool } from '../../../src/formats/format.ts';
import {
  done,
  mediaBlock,
  type OutcomeName,
  outcomes,
  pdf,
  picture,
  textBlock,
  toolFailed,
} from '../../support/outcomes.ts';
import { callsIn, faultsIn } from '../../support/reading.ts';
import { registryOf, tool } from '../../support/service.ts';

const use = (id: JsonValue, name: JsonValue = 'lab__x', input: JsonValue = {}): JsonObject => ({
  type: 'tool_use',
  id,
  name,
  input,
  caller: { type: 'direct' },
});
const text = { type: 'text', text: 'I look.' };
const answer = (content: JsonValue, stop_reason: string | null = 'tool_use') => ({
  id: 'msg_1',
  type: 'message',
  role: 'assistant',
  content,
  stop_reason,
});
const first = [1, '/content/1', 'a', 'lab__x', {}];
const second = [2, '/content/2', 'b', 'lab__y', { q: 1 }];
const blocks = [text, use('a'), use('b', 'lab__y', { q: 1 })];

describe('tool_use blocks', () => {
  test.each<[string, unknown, unknown[][]]>([
    ['a whole message', answer(blocks), [first, second]],
    ['its role and content', { role: 'assistant', content: blocks }, [first, second]],
    ['a list of blocks', [text, use('a')], [[1, '/1', 'a', 'lab__x', {}]]],
    ['one block', use('a'), [[0, '', 'a', 'lab__x', {}]]],
    ['an answer without any', answer([text], 'end_turn'), []],
    ['an answer of text alone', { role: 'assistant', content: 'hi' }, []],
    ['an answer without blocks', answer([]), []],
    [
      'what the provider runs itself',
      answer([
        { type: 'server_tool_use', id: 's', name: 'tool_search_tool_regex', input: {} },
        { type: 'tool_search_tool_result', tool_use_id: 's', content: {} },
        { type: 'mcp_tool_use', id: 'm', name: 'x', input: {}, server_name: 'y' },
        { type: 'thinking', thinking: '', signature: '' },
      ]),
      [],
    ],
    ['an answer that may go on', answer([text, use('a')], 'pause_turn'), [first]],
  ])('are read from %s', (_, body, expected) => {
    expect(callsIn(anthropic, body)).toEqual(expected);
  });

  test.each(['max_tokens', 'model_context_window_exceeded', 'refusal', null])(
    'of an answer that ends with %s leave the last block alone',
    (reason) => {
      expect(callsIn(anthropic, answer(blocks, reason))).toEqual([first]);
      expect(callsIn(anthropic, answer([text, use('a'), text], reason))).toEqual([first]);
      expect(callsIn(anthropic, answer([], reason))).toEqual([]);
    },
  );

  test.each<[string, unknown, string[]]>([
    ['a missing id', [{ type: 'tool_use', name: 'x' }], ['/0/id']],
    ['an empty id and no name', answer([use('', '')]), ['/content/0/id', '/content/0/name']],
    ['a block that is none', answer(['x']), ['/content/0']],
  ])('are refused with %s', (_, body, pointers) => {
    expect(faultsIn(anthropic, body).map(([pointer]) => pointer)).toEqual(pointers);
  });

  test('say what to do about a missing id', () => {
    expect(faultsIn(anthropic, [{ type: 'tool_use', name: 'x' }])).toEqual([
      ['/0/id', 'is missing: send the id that the model gave this call, unchanged'],
    ]);
  });
});

describe('a tool_result block', () => {
  const call: FunctionCall = { callId: 'c1', name: 'lab__x', arguments: {} };
  const head = { type: 'tool_result', tool_use_id: 'c1' };
  const write = (name: OutcomeName) => anthropic.output(call, outcomes[name], 'text');

  test.each<[OutcomeName, JsonObject]>([
    ['text', { content: '3 pages' }],
    ['texts', { content: 'a\nb' }],
    ['empty', {}],
    ['blank', {}],
    ['structured', { content: '{"total":36}' }],
    ['list', { content: '[1,2]' }],
    ['tiff', { content: '[image image/tiff, 9 bytes, not shown]' }],
    ['audio', { content: '[audio audio/wav, 9 bytes, not shown]' }],
    ['zip', { content: '[document application/zip, 9 bytes, not shown]' }],
    ['link', { content: '[resource link] Page A https://example.com/a' }],
    ['embedded', { content: '[resource file:///a.md]\ninside' }],
    ['unknown', { content: '[content of type "hologram" is not supported]' }],
    ['remark', { content: 'saved\n[note] the tool promises structured content and sent none' }],
    ['toolError', { content: 'quota exceeded', is_error: true }],
    ['silentError', { content: 'the tool reported an error without text', is_error: true }],
    ['pictureError', { content: 'no such button\n[image image/png, 9 bytes, not shown]', is_error: true }],
    ['forbidden', { content: 'forbidden: it needs a grant', is_error: true }],
    [
      'png',
      {
        content: [
          { type: 'text', text: 'shot\n[image image/png, 9 bytes, attached]' },
          { type: 'image', source: { type: 'base64', media_type: 'image/png', data: picture } },
        ],
      },
    ],
    [
      'pdf',
      {
        content: [
          { type: 'text', text: '[document application/pdf, 8 bytes, attached]' },
          {
            type: 'document',
            source: { type: 'base64', media_type: 'application/pdf', data: pdf },
            title: 'report.pdf',
          },
        ],
      },
    ],
  ])('is written for %s', (name, rest) => {
    expect(write(name)).toEqual({ ...head, ...rest });
  });

  test('marks an image that is too large for the API', () => {
    const big = Buffer.alloc(3_932_163).toString('base64');
    const outcome = done([textBlock('shot'), mediaBlock('image/png', big)]);
    expect(anthropic.output(call, outcome, 'text').content).toBe(
      'shot\n[image image/png, 3932163 bytes, not shown]',
    );
  });

  test('is an envelope where the caller wants one, and flagged all the same', () => {
    const { content, is_error } = anthropic.output(call, toolFailed([textBlock('no')]), 'envelope');
    expect(JSON.parse(content as string)).toMatchObject({ ok: false, error: { code: 'tool_error' } });
    expect(is_error).toBe(true);
  });

  test('names the toolset of its call again', () => {
    const [{ call: read } = {}] = (() => {
      const turn = anthropic.readTurn({ ...use('c1'), toolset_name: 'desk' });
      return turn.ok ? turn.value : [];
    })();
    expect(anthropic.output({ ...call, echo: read?.echo }, outcomes.text, 'text')).toEqual({
      ...head,
      content: '3 pages',
      toolset_name: 'desk',
    });
  });
});

test('tools are declared with their schema; deferred ones beside the search for them', () => {
  const [binding] = registryOf([{ alias: 'docs', tools: [tool('search')] }]).bindings;
  const declared = {
    binding,
    description: 'Searches.',
    schema: binding?.inputSchema,
    isStrict: false,
  } as DeclaredTool;
  const plain = {
    name: 'docs__search',
    description: 'Searches.',
    input_schema: { type: 'object', properties: {} },
  };
  const options = { strict: 'off', namespaces: false, defer: false } as const;
  expect(anthropic.declare([declared], options)).toEqual([plain]);
  expect(anthropic.declare([declared], { ...options, defer: true })).toEqual([
    { type: 'tool_search_tool_regex_20251119', name: 'tool_search_tool_regex' },
    { ...plain, defer_loading: true },
  ]);
});
