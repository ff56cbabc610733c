import { describe, expect, test } from 'vitest';
import type { FunctionCall } from '../../../src/core/call.ts';
import type { JsonObject, JsonValue } from '../../../src/core/json.ts';
import type { DeclaredTool } from '../../../src/formats/format.ts';
import { gemini } from '../../../src/formats/gemini.ts';
import { type OutcomeName, outcomes, pdf, picture } from '../../support/outcomes.ts';
import { callsIn, faultsIn } from '../../support/reading.ts';
import { registryOf, tool } from '../../support/service.ts';

const part = (name: string, args?: JsonObject, id?: string): JsonObject => ({
  functionCall: { name, ...(args === undefined ? {} : { args }), ...(id === undefined ? {} : { id }) },
  thoughtSignature: 'c2ln',
});
const parts = [{ text: 'I look.' }, part('lab__x', { q: 1 }, 'a'), part('lab__y')];
const response = (
  content: JsonValue | undefined,
  finishReason = 'STOP',
  more: JsonObject = {},
): JsonObject => ({
  candidates: [{ ...(content === undefined ? {} : { content }), finishReason, index: 0 }],
  usageMetadata: {},
  ...more,
});
const content = { role: 'model', parts };
const read = (at: string) => [
  [1, `${at}/1`, 'a', 'lab__x', { q: 1 }],
  [2, `${at}/2`, undefined, 'lab__y', undefined],
];

describe('functionCall parts', () => {
  test.each<[string, unknown, unknown[][]]>([
    ['a whole response', response(content), read('/candidates/0/content/parts')],
    ['its content', content, read('/parts')],
    ['its list of parts', parts, read('')],
    [
      'the list of function calls that the SDK gives',
      [
        { name: 'lab__x', args: { q: 1 } },
        { name: 'lab__y', id: 'b' },
      ],
      [
        [0, '/0', undefined, 'lab__x', { q: 1 }],
        [1, '/1', 'b', 'lab__y', undefined],
      ],
    ],
    ['one part', part('lab__x'), [[0, '', undefined, 'lab__x', undefined]]],
    ['one function call', { name: 'lab__x', id: '' }, [[0, '', undefined, 'lab__x', undefined]]],
    [
      'a response of the Python SDK',
      {
        candidates: [
          {
            content: {
              parts: [
                { text: 'x', function_call: null },
                { text: null, function_call: { name: 'n', args: {}, id: null } },
              ],
            },
            finish_reason: 'STOP',
          },
        ],
        prompt_feedback: null,
      },
      [[1, '/candidates/0/content/parts/1', undefined, 'n', {}]],
    ],
    ['a response without content', response(undefined), []],
    ['a candidate without parts', response({ role: 'model' }), []],
    ['a prompt that was blocked', { promptFeedback: { blockReason: 'SAFETY' } }, []],
    [
      'one of several candidates',
      { candidates: [{ content: { parts: [{ text: 'hi' }] } }, { content }] },
      read('/candidates/1/content/parts'),
    ],
    [
      'what the provider runs itself',
      response({
        parts: [
          { toolCall: { id: 't', toolType: 'GOOGLE_SEARCH_WEB', args: {} } },
          { executableCode: { code: 'x', language: 'PYTHON' } },
          { codeExecutionResult: { outcome: 'OUTCOME_OK' } },
          { functionResponse: { name: 'old', response: {} } },
        ],
      }),
      [],
    ],
    [
      'calls that are still to come in full',
      response({
        parts: [
          { functionCall: { name: 'n', willContinue: true } },
          { functionCall: { name: 'n', partialArgs: [{ jsonPath: '$.q' }] } },
          part('lab__x'),
        ],
      }),
      [[2, '/candidates/0/content/parts/2', undefined, 'lab__x', undefined]],
    ],
  ])('are read from %s', (_, body, expected) => {
    expect(callsIn(gemini, body)).toEqual(expected);
  });

  test.each(['MAX_TOKENS', 'MALFORMED_FUNCTION_CALL', 'SAFETY'])(
    'of a candidate that ends with %s leave the last part alone',
    (reason) => {
      expect(callsIn(gemini, response(content, reason))).toHaveLength(1);
    },
  );

  test.each<[string, unknown, string[]]>([
    [
      'calls in two candidates',
      { candidates: [{ content }, { content }] },
      ['/candidates/0', '/candidates/1'],
    ],
    ['a candidate that is none', { candidates: ['x'] }, ['/candidates/0']],
    ['parts that are no list', response({ parts: 'x' }), ['/candidates/0/content/parts']],
    [
      'a call without a name',
      response({ parts: [{ functionCall: { args: {} } }] }),
      ['/candidates/0/content/parts/0/functionCall/name'],
    ],
    ['a call that is none', [{ functionCall: 'x' }], ['/0/functionCall']],
    ['an id that is a number', [{ functionCall: { name: 'n', id: 5 } }], ['/0/functionCall/id']],
    ['a bare call without a name', [{ args: {} }], ['/0/name']],
  ])('are refused with %s', (_, body, pointers) => {
    expect(faultsIn(gemini, body).map(([pointer]) => pointer)).toEqual(pointers);
  });

  test.each<[string | undefined, string | undefined]>([
    ['gemini-3-pro-preview', 'multimodal'],
    ['models/gemini-3.8-flash', 'multimodal'],
    ['gemini-12-pro', 'multimodal'],
    ['gemini-2.5-flash', undefined],
    ['gemini-1.5-pro-002', undefined],
    ['gemini-flash-latest', undefined],
    ['tunedModels/x', undefined],
    [undefined, undefined],
  ])('of the model %s are of the kind %s', (modelVersion, kind) => {
    const turn = gemini.readTurn(
      response({ parts: [part('n')] }, 'STOP', modelVersion ? { modelVersion } : {}),
    );
    expect(turn.ok && turn.value[0]?.call.kind).toBe(kind);
  });
});

describe('a functionResponse part', () => {
  const call: FunctionCall = { callId: 'c1', name: 'lab__x', arguments: {} };

  test.each<[OutcomeName, JsonObject]>([
    ['text', { output: '3 pages' }],
    ['empty', { output: '' }],
    ['structured', { output: '{"total":36}' }],
    ['list', { output: '[1,2]' }],
    ['png', { output: 'shot\n[image image/png, 9 bytes, not shown]' }],
    ['audio', { output: '[audio audio/wav, 9 bytes, not shown]' }],
    ['pdf', { output: '[document application/pdf, 8 bytes, not shown]' }],
    ['link', { output: '[resource link] Page A https://example.com/a' }],
    ['embedded', { output: '[resource file:///a.md]\ninside' }],
    ['unknown', { output: '[content of type "hologram" is not supported]' }],
    ['toolError', { error: 'quota exceeded' }],
    ['silentError', { error: 'the tool reported an error without text' }],
    ['forbidden', { error: 'forbidden: it needs a grant' }],
  ])('is written for %s', (name, written) => {
    expect(gemini.output(call, outcomes[name], 'text')).toEqual({
      functionResponse: { id: 'c1', name: 'lab__x', response: written },
    });
  });

  test('carries media for a model that looks at them', () => {
    const write = (name: OutcomeName) =>
      gemini.output({ ...call, kind: 'multimodal' }, outcomes[name], 'text').functionResponse;
    expect(write('png')).toEqual({
      id: 'c1',
      name: 'lab__x',
      response: { output: 'shot\n[image image/png, 9 bytes, attached]' },
      parts: [{ inlineData: { mimeType: 'image/png', data: picture } }],
    });
    expect(write('pdf')).toMatchObject({
      parts: [{ inlineData: { mimeType: 'application/pdf', data: pdf } }],
    });
    expect(write('pictureError')).toMatchObject({
      response: { error: 'no such button\n[image image/png, 9 bytes, attached]' },
      parts: [{}],
    });
    expect(write('tiff')).not.toHaveProperty('parts');
  });

  test('has no id that the model did not give', () => {
    expect(gemini.output({ ...call, hasMadeId: true }, outcomes.text, 'text')).toEqual({
      functionResponse: { name: 'lab__x', response: { output: '3 pages' } },
    });
  });
});

test('tools are declared by their JSON Schema, all in one', () => {
  const declared = registryOf([{ alias: 'docs', tools: [tool('a'), tool('b')] }]).bindings.map(
    (binding): DeclaredTool => ({
      binding,
      description: binding.tool === 'a' ? 'Does a.' : undefined,
      schema: binding.inputSchema,
      isStrict: false,
    }),
  );
  const parametersJsonSchema = { type: 'object', properties: {} };
  expect(gemini.declare(declared, { strict: 'off', namespaces: false, defer: false })).toEqual([
    {
      functionDeclarations: [
        { name: 'docs__a', description: 'Does a.', parametersJsonSchema },
        { name: 'docs__b', parametersJsonSchema },
      ],
    },
  ]);
});
