import { describe, expect, test } from 'vitest';
import type { FunctionCall } from '../../../src/core/call.ts';
import type { JsonObject, JsonValue } from '../../../src/core/json.ts';
import { geminiInteractions } from '../../../src/formats/gemini-interactions.ts';
import { type OutcomeName, outcomes, pdf, picture } from '../../support/outcomes.ts';
import { callsIn, faultsIn } from '../../support/reading.ts';

const step = (id: JsonValue, name: JsonValue = 'lab__x'): JsonObject => ({
  type: 'function_call',
  id,
  name,
  arguments: { q: 1 },
});
const thought = { type: 'thought', signature: 'x' };
const interaction = (steps: JsonValue, status = 'requires_action') => ({ id: 'v1_1', status, steps });
const read = (at: string, id: string) => [1, `${at}/1`, id, 'lab__x', { q: 1 }];

describe('function_call steps', () => {
  test.each<[string, unknown, unknown[][]]>([
    ['a whole interaction', interaction([thought, step('a')]), [read('/steps', 'a')]],
    ['one that calls its steps outputs', { outputs: [thought, step('a')] }, [read('/outputs', 'a')]],
    ['a list of steps', [thought, step('a')], [read('', 'a')]],
    ['one step', step('a'), [[0, '', 'a', 'lab__x', { q: 1 }]]],
    ['an interaction without calls', interaction([{ type: 'model_output' }], 'completed'), []],
    [
      'one that went on by itself',
      interaction([step('z'), step('a'), { type: 'function_result', call_id: 'z', result: 'x' }]),
      [read('/steps', 'a')],
    ],
    [
      'what the provider runs itself',
      interaction([
        { type: 'mcp_server_tool_call', id: 'm', name: 'x', arguments: {} },
        { type: 'code_execution_call', id: 'c', arguments: {} },
      ]),
      [],
    ],
  ])('are read from %s', (_, body, expected) => {
    expect(callsIn(geminiInteractions, body)).toEqual(expected);
  });

  test.each(['incomplete', 'failed', 'cancelled', 'in_progress', 'budget_exceeded'])(
    'of an interaction that is %s leave the last step alone',
    (status) => {
      expect(callsIn(geminiInteractions, interaction([step('a'), step('b')], status))).toHaveLength(1);
    },
  );

  test.each<[string, unknown, string[]]>([
    ['a missing id', [{ type: 'function_call', name: 'x' }], ['/0/id']],
    ['an empty id and no name', interaction([step('', null)]), ['/steps/0/id', '/steps/0/name']],
    ['a step that is none', interaction(['x']), ['/steps/0']],
    ['an item of the Responses API', [{ ...step('fc_1'), call_id: 'call_1' }], ['/0/call_id']],
  ])('are refused with %s', (_, body, pointers) => {
    expect(faultsIn(geminiInteractions, body).map(([pointer]) => pointer)).toEqual(pointers);
  });
});

describe('a function_result step', () => {
  const call: FunctionCall = { callId: 'c1', name: 'lab__x', arguments: {} };
  const write = (name: OutcomeName) => geminiInteractions.output(call, outcomes[name], 'text');
  const text = (value: string) => ({ type: 'text', text: value });

  test.each<[OutcomeName, JsonValue]>([
    ['text', '3 pages'],
    ['empty', ''],
    ['structured', '{"total":36}'],
    ['zip', '[document application/zip, 9 bytes, not shown]'],
    ['link', '[resource link] Page A https://example.com/a'],
    ['embedded', '[resource file:///a.md]\ninside'],
    ['unknown', '[content of type "hologram" is not supported]'],
    [
      'png',
      [
        text('shot\n[image image/png, 9 bytes, attached]'),
        { type: 'image', data: picture, mime_type: 'image/png' },
      ],
    ],
    [
      'audio',
      [
        text('[audio audio/wav, 9 bytes, attached]'),
        { type: 'audio', data: picture, mime_type: 'audio/wav' },
      ],
    ],
    [
      'pdf',
      [
        text('[document application/pdf, 8 bytes, attached]'),
        { type: 'document', data: pdf, mime_type: 'application/pdf' },
      ],
    ],
  ])('is written for %s', (name, result) => {
    expect(write(name)).toEqual({ type: 'function_result', call_id: 'c1', name: 'lab__x', result });
  });

  test.each<[OutcomeName, string]>([
    ['toolError', 'quota exceeded'],
    ['silentError', 'the tool reported an error without text'],
    ['forbidden', 'forbidden: it needs a grant'],
  ])('is flagged for %s', (name, result) => {
    expect(write(name)).toMatchObject({ is_error: true, result });
  });
});
