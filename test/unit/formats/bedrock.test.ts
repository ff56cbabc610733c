import { describe, expect, test } from 'vitest';
import type { FunctionCall } from '../../../src/core/call.ts';
import type { JsonObject, JsonValue } from '../../../src/core/json.ts';
import { bedrock } from '../../../src/formats/bedrock.ts';
import type { DeclaredTool } from '../../../src/formats/format.ts';
import { done, mediaBlock, type OutcomeName, outcomes, pdf, picture } from '../../support/outcomes.ts';
import { callsIn, faultsIn } from '../../support/reading.ts';
import { registryOf, tool } from '../../support/service.ts';

const use = (toolUseId: JsonValue, name: JsonValue = 'lab__x', input: JsonValue = { q: 1 }): JsonObject => ({
  toolUse: { toolUseId, name, input },
});
const text = { text: 'I look.' };
const response = (content: JsonValue, stopReason = 'tool_use') => ({
  $metadata: { httpStatusCode: 200 },
  output: { message: { role: 'assistant', content } },
  stopReason,
});
const read = (at: string) => [1, `${at}/1`, 'a', 'lab__x', { q: 1 }];

describe('toolUse blocks', () => {
  test.each<[string, unknown, unknown[][]]>([
    ['a whole response', response([text, use('a')]), [read('/output/message/content')]],
    ['its message', { role: 'assistant', content: [text, use('a')] }, [read('/content')]],
    ['a list of blocks', [text, use('a')], [read('')]],
    ['one block', use('a'), [[0, '', 'a', 'lab__x', { q: 1 }]]],
    ['the calls themselves', [use('a').toolUse], [[0, '/0', 'a', 'lab__x', { q: 1 }]]],
    ['one call itself', use('a').toolUse, [[0, '', 'a', 'lab__x', { q: 1 }]]],
    ['a response without any', response([text], 'end_turn'), []],
    [
      'what the provider runs itself',
      response([
        { toolUse: { toolUseId: 's', name: 'nova_grounding', input: {}, type: 'server_tool_use' } },
        { reasoningContent: {} },
      ]),
      [],
    ],
  ])('are read from %s', (_, body, expected) => {
    expect(callsIn(bedrock, body)).toEqual(expected);
  });

  test.each(['max_tokens', 'content_filtered', 'guardrail_intervened', 'malformed_tool_use'])(
    'of an answer that ends with %s leave the last block alone',
    (reason) => {
      expect(callsIn(bedrock, response([use('a'), use('b')], reason))).toHaveLength(1);
    },
  );

  test.each<[string, unknown, string[]]>([
    ['a missing id', [{ toolUse: { name: 'x', input: {} } }], ['/0/toolUse/toolUseId']],
    ['a bare call without an id', [{ name: 'x', input: {} }], ['/0/toolUseId']],
    [
      'an empty id and no name',
      response([use('', null)]),
      ['/output/message/content/0/toolUse/toolUseId', '/output/message/content/0/toolUse/name'],
    ],
    ['a call that is none', [{ toolUse: 'x' }], ['/0/toolUse']],
    ['a block that is none', response(['x']), ['/output/message/content/0']],
  ])('are refused with %s', (_, body, pointers) => {
    expect(faultsIn(bedrock, body).map(([pointer]) => pointer)).toEqual(pointers);
  });
});

describe('a toolResult block', () => {
  const call: FunctionCall = { callId: 'tooluse_1.a', name: 'lab__x', arguments: {} };
  const write = (name: OutcomeName) => bedrock.output(call, outcomes[name], 'text').toolResult;
  const document = (place: number, format = 'pdf', bytes = pdf) => ({
    document: { format, name: `document tooluse-1-a ${place}`, source: { bytes } },
  });

  test.each<[OutcomeName, JsonValue[]]>([
    ['text', [{ text: '3 pages' }]],
    ['empty', [{ text: '(empty)' }]],
    ['blank', [{ text: '(empty)' }]],
    ['structured', [{ text: '{"total":36}' }]],
    ['list', [{ text: '[1,2]' }]],
    ['typed', [{ text: '{"__type":"x"}' }]],
    ['tiff', [{ text: '[image image/tiff, 9 bytes, not shown]' }]],
    ['audio', [{ text: '[audio audio/wav, 9 bytes, not shown]' }]],
    ['zip', [{ text: '[document application/zip, 9 bytes, not shown]' }]],
    ['link', [{ text: '[resource link] Page A https://example.com/a' }]],
    ['embedded', [{ text: '[resource file:///a.md]\ninside' }]],
    ['unknown', [{ text: '[content of type "hologram" is not supported]' }]],
    [
      'png',
      [
        { text: 'shot\n[image image/png, 9 bytes, attached]' },
        { image: { format: 'png', source: { bytes: picture } } },
      ],
    ],
    ['pdf', [{ text: '[document application/pdf, 8 bytes, attached]' }, document(1)]],
  ])('is written for %s', (name, content) => {
    expect(write(name)).toEqual({ toolUseId: 'tooluse_1.a', content });
  });

  test.each<[OutcomeName, string]>([
    ['toolError', '[tool error] quota exceeded'],
    ['silentError', '[tool error] the tool reported an error without text'],
    ['pictureError', '[tool error] no such button\n[image image/png, 9 bytes, not shown]'],
    ['forbidden', '[tool error] forbidden: it needs a grant'],
  ])('is flagged for %s, and says so to models that see no flag', (name, said) => {
    expect(write(name)).toEqual({ toolUseId: 'tooluse_1.a', content: [{ text: said }], status: 'error' });
  });

  test('holds no more media than the API takes, and marks the rest', () => {
    const outcome = done([
      ...Array.from({ length: 22 }, () => mediaBlock('image/jpeg')),
      ...Array.from({ length: 6 }, () => mediaBlock('text/csv')),
      mediaBlock('image/png', Buffer.alloc(3_750_001).toString('base64')),
      mediaBlock('application/pdf', Buffer.alloc(4_500_001).toString('base64')),
    ]);
    const { content } = bedrock.output(call, outcome, 'text').toolResult as { content: JsonObject[] };
    const [{ text: said } = {}, ...media] = content;
    expect(String(said).match(/attached/g)).toHaveLength(25);
    expect(String(said).match(/not shown/g)).toHaveLength(5);
    expect(media.filter(({ image }) => image !== undefined)).toHaveLength(20);
    expect(media.slice(20)).toEqual([21, 22, 23, 24, 25].map((place) => document(place, 'csv', picture)));
  });
});

test('tools are declared by their specification', () => {
  const [binding] = registryOf([{ alias: 'docs', tools: [tool('search')] }]).bindings;
  const declared = { binding, description: undefined, schema: binding?.inputSchema } as DeclaredTool;
  const options = { strict: 'off', namespaces: false, defer: false } as const;
  expect(bedrock.declare([declared, { ...declared, description: 'Searches.' }], options)).toEqual([
    { toolSpec: { name: 'docs__search', inputSchema: { json: { type: 'object', properties: {} } } } },
    {
      toolSpec: {
        name: 'docs__search',
        description: 'Searches.',
        inputSchema: { json: { type: 'object', properties: {} } },
      },
    },
  ]);
});
