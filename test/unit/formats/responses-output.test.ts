import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { capResult } from '../../../src/core/cap.ts';
import type { JsonObject, JsonValue } from '../../../src/core/json.ts';
import { failed, type Outcome, succeeded, type ToolResult } from '../../../src/core/outcome.ts';
import { toolError } from '../../../src/dispatch/outcomes.ts';
import { openaiResponses } from '../../../src/formats/openai-responses.ts';
import type { Render } from '../../../src/tools/policy.ts';
import { faultsAgainst } from '../../support/contract.ts';

const call = { callId: 'c1', name: 'lab__x', arguments: '{}' };
const png = Buffer.from('a picture').toString('base64');
const pdf = Buffer.from('%PDF-1.7').toString('base64');

type Blocks = readonly JsonObject[];

const resultOf = (content: Blocks, structured?: JsonValue, isError = false): ToolResult => ({
  content: content as ToolResult['content'],
  isError,
  ...(structured === undefined ? {} : { structuredContent: structured }),
});

/** The output item of an outcome, checked against the contract. */
function output(outcome: Outcome, render: Render): JsonValue {
  const item = openaiResponses.output(call, outcome, render);
  expect(faultsAgainst('/components/schemas/FunctionCallOutput', item)).toBe('');
  return item.output as JsonValue;
}

const textOf = (rendered: JsonValue): string =>
  typeof rendered === 'string' ? rendered : ((rendered as JsonObject[])[0]?.text as string);

/** The envelope, which is always valid JSON of the documented shape. */
function envelope(outcome: Outcome) {
  const parsed = JSON.parse(textOf(output(outcome, 'envelope')));
  expect(faultsAgainst('/components/schemas/Envelope', parsed)).toBe('');
  return parsed;
}

const done = (content: Blocks, structured?: JsonValue): Outcome => succeeded(resultOf(content, structured));
const text = (value: string): JsonObject => ({ type: 'text', text: value });
const contentOf = (outcome: Outcome): string[] =>
  envelope(outcome).content.map((block: { text: string }) => block.text);

describe('a block of a result', () => {
  test.each<[string, JsonObject, string]>([
    ['text', text('hello'), 'hello'],
    ['empty text', text(''), ''],
    [
      'audio, which the API has no part for',
      { type: 'audio', data: png, mimeType: 'audio/wav' },
      '[audio audio/wav, 9 bytes, not shown]',
    ],
    [
      'an image of a type that the API does not take',
      { type: 'image', data: png, mimeType: 'image/tiff' },
      '[image image/tiff, 9 bytes, not shown]',
    ],
    [
      'an image without data',
      { type: 'image', data: '', mimeType: 'image/png' },
      '[image image/png, 0 bytes, not shown]',
    ],
    [
      'an image whose data is not base64',
      { type: 'image', data: 'not base64!', mimeType: 'image/png' },
      '[content of type image that could not be read]',
    ],
    ['an image that is not there', { type: 'image' }, '[content of type image that could not be read]'],
    [
      'media without a type',
      { type: 'audio', data: png, mimeType: 'nonsense' },
      '[audio application/octet-stream, 9 bytes, not shown]',
    ],
    [
      'an embedded text',
      { type: 'resource', resource: { uri: 'file:///a.md', text: 'inside' } },
      '[resource file:///a.md]\ninside',
    ],
    [
      'an embedded file of a type that the API does not take',
      { type: 'resource', resource: { uri: 'file:///a.zip', blob: png, mimeType: 'application/zip' } },
      '[document application/zip, 9 bytes, not shown]',
    ],
    [
      'an empty resource',
      { type: 'resource', resource: { uri: 'x' } },
      '[content of type resource that could not be read]',
    ],
    ['no resource', { type: 'resource' }, '[content of type resource that could not be read]'],
    [
      'a link',
      { type: 'resource_link', uri: 'https://example.com/a', name: 'Page A' },
      '[resource link] Page A https://example.com/a',
    ],
    [
      'a link without a name',
      { type: 'resource_link', uri: 'https://example.com/a' },
      '[resource link] https://example.com/a',
    ],
    [
      'a link whose name forges lines',
      { type: 'resource_link', uri: 'https://example.com/a\r\nIGNORE', name: 'A\n\nB' },
      '[resource link] A B https://example.com/a IGNORE',
    ],
    ['something unknown', { type: 'hologram', data: png }, '[content of type "hologram" is not supported]'],
    ['text that is none', { type: 'text', text: 5 }, '[content of type text that could not be read]'],
  ])('that is %s becomes one text, in both renderings', (_, block, expected) => {
    expect(contentOf(done([block]))).toEqual([expected]);
    expect(output(done([block]), 'text')).toBe(expected);
  });

  test.each(['image/png', 'image/jpeg', 'image/gif', 'image/webp', 'IMAGE/PNG', 'image/png; charset=binary'])(
    'that is an image of type %s becomes a part of its own, beside text that marks it (O09)',
    (mimeType) => {
      const type = mimeType.split(';')[0]?.toLowerCase();
      const outcome = done([text('shot'), { type: 'image', data: png, mimeType }]);
      const image = { type: 'input_image', image_url: `data:${type};base64,${png}`, detail: 'auto' };
      expect(output(outcome, 'text')).toEqual([
        { type: 'input_text', text: `shot\n[image ${type}, 9 bytes, attached]` },
        image,
      ]);
      expect((output(outcome, 'envelope') as JsonValue[])[1]).toEqual(image);
      expect(contentOf(outcome)).toEqual(['shot', `[image ${type}, 9 bytes, attached]`]);
    },
  );

  test('that is an embedded image or PDF becomes a part of its own', () => {
    const resource = (uri: string, blob: string, mimeType: string) => ({
      type: 'resource',
      resource: { uri, blob, mimeType },
    });
    const outcome = done([
      resource('file:///x/report.pdf?v=1', pdf, 'application/pdf'),
      resource('file:///x/shot.png', png, 'image/png'),
    ]);
    expect(output(outcome, 'text')).toEqual([
      {
        type: 'input_text',
        text: '[document application/pdf, 8 bytes, attached]\n[image image/png, 9 bytes, attached]',
      },
      { type: 'input_file', filename: 'report.pdf', file_data: `data:application/pdf;base64,${pdf}` },
      { type: 'input_image', image_url: `data:image/png;base64,${png}`, detail: 'auto' },
    ]);
  });

  test('keeps its place among the others', () => {
    const blocks = [text('a'), { type: 'odd' }, text('b'), { type: 'resource_link', uri: 'u' }, text('c')];
    expect(contentOf(done(blocks))).toEqual([
      'a',
      '[content of type "odd" is not supported]',
      'b',
      '[resource link] u',
      'c',
    ]);
  });
});

describe('structured content (O08)', () => {
  test('alone is the output', () => {
    expect(output(done([], { total: 36 }), 'text')).toBe('{"total":36}');
    expect(envelope(done([], { total: 36 }))).toEqual({ ok: true, content: [], structured: { total: 36 } });
  });

  test('stands beside a text that says something else', () => {
    const structured = { items: [1, 2, 3, 4, 5, 6] };
    const outcome = done([text('6 items')], structured);
    expect(envelope(outcome)).toEqual({ ok: true, content: [text('6 items')], structured });
    expect(output(outcome, 'text')).toBe('6 items\n{"items":[1,2,3,4,5,6]}');
  });

  test.each(['{"b":[1,2],"a":"x"}', '{\n  "a": "x",\n  "b": [1.0, 2]\n}', ' {"a":"\\u0078","b":[1,2]} '])(
    'that a text says too is there once: %j',
    (said) => {
      const outcome = done([text(said)], { a: 'x', b: [1, 2] });
      expect(envelope(outcome)).toEqual({ ok: true, content: [text(said)] });
      expect(output(outcome, 'text')).toBe(said);
    },
  );

  test.each<JsonValue>([null, false, 0, '', [], {}])('may be %j', (structured) => {
    expect(envelope(done([text('x')], structured)).structured).toEqual(structured);
  });

  test('never brings base64 into the text (O09)', () => {
    const big = Buffer.alloc(6_000, 7).toString('base64');
    const structured = {
      same: png,
      url: `data:image/png;base64,${png}`,
      big,
      word: 'kept',
      empty: '',
      list: [big],
      __proto__x: 1,
    };
    const outcome = done([{ type: 'image', data: png, mimeType: 'image/png' }], structured);
    for (const render of ['envelope', 'text'] as const) {
      const rendered = textOf(output(outcome, render));
      expect(rendered).not.toContain(png);
      expect(rendered).not.toContain(big.slice(0, 100));
      expect(rendered).toContain('kept');
    }
    expect(envelope(outcome).structured).toMatchObject({
      word: 'kept',
      empty: '',
      same: '[binary data, 12 characters]',
    });
  });
});

test('an empty text in structured content is not taken for the data of an empty image', () => {
  const outcome = done([{ type: 'image', data: '', mimeType: 'image/png' }], { note: '' });
  expect(envelope(outcome).structured).toEqual({ note: '' });
});

describe('an outcome', () => {
  test('without any content is a success with an output (O08)', () => {
    expect(output(done([]), 'envelope')).toBe('{"ok":true,"content":[]}');
    expect(output(done([]), 'text')).toBe('');
  });

  test('that the tool calls a failure is marked, and keeps the words of the tool (O07)', () => {
    const plain = toolError(resultOf([text('quota exceeded')], undefined, true));
    expect(envelope(plain)).toMatchObject({
      ok: false,
      error: { code: 'tool_error', may_have_executed: true },
    });
    expect(contentOf(plain)).toEqual(['quota exceeded']);
    expect(output(plain, 'text')).toBe('[tool error] quota exceeded');
    const structured = toolError(resultOf([text('risk level too low')], { error: 1 }, true));
    expect(envelope(structured).structured).toEqual({ error: 1 });
    expect(output(structured, 'text')).toBe('[tool error] risk level too low\n{"error":1}');
  });

  test.each<[string, Blocks]>([
    ['no content', []],
    ['an empty text', [text(' ')]],
  ])('that the tool calls a failure says so when there is %s', (_, content) => {
    const outcome = toolError(resultOf(content, undefined, true));
    expect(output(outcome, 'text')).toBe('[tool error] the tool reported an error without text');
    expect(envelope(outcome).error.message).toBe('the tool reported an error without text');
  });

  test('with a remark is a success (O07)', () => {
    const outcome = succeeded(resultOf([text('saved')]), [
      'the tool promises structured content and sent none',
    ]);
    expect(envelope(outcome)).toEqual({
      ok: true,
      content: [text('saved')],
      warnings: ['the tool promises structured content and sent none'],
    });
    expect(output(outcome, 'text')).toBe('saved\n[note] the tool promises structured content and sent none');
    expect(output(done([text('Error: list of error codes')]), 'text')).toBe('Error: list of error codes');
  });

  test('of callgate itself tells its code, its words and its facts', () => {
    const outcome = failed('server_busy', 'too many calls are waiting', { details: { server: 'lab' } });
    expect(envelope(outcome)).toEqual({
      ok: false,
      error: {
        code: 'server_busy',
        message: 'too many calls are waiting',
        may_have_executed: false,
        retryable: true,
        server: 'lab',
      },
      content: [],
    });
    expect(output(outcome, 'text')).toBe('[tool error] server_busy: too many calls are waiting');
  });

  test('is an item of the type that the call asks for, with its caller', () => {
    const custom = { ...call, kind: 'custom_tool_call', echo: { caller: { type: 'program' } } };
    expect(openaiResponses.output(custom, done([text('x')]), 'text')).toEqual({
      type: 'custom_tool_call_output',
      call_id: 'c1',
      output: 'x',
      caller: { type: 'program' },
    });
  });
});

test('whatever a server sends, both renderings give an output of the documented shape', () => {
  const block = fc.oneof(
    fc.dictionary(
      fc.constantFrom('type', 'text', 'data', 'mimeType', 'uri', 'name', 'resource', 'blob'),
      fc.jsonValue(),
    ),
    fc.record({ text: fc.string({ unit: 'binary' }) }),
    fc.record({ data: fc.base64String(), mimeType: fc.constantFrom('image/png', 'application/pdf', 'x') }),
    fc.record({
      resource: fc.dictionary(fc.constantFrom('uri', 'text', 'blob', 'mimeType'), fc.jsonValue()),
    }),
  );
  const typed = fc
    .tuple(
      block,
      fc.constantFrom('text', 'image', 'audio', 'resource', 'resource_link', 'odd', '__proto__', ''),
    )
    .map(([members, type]) => ({ ...members, type }) as JsonObject);
  fc.assert(
    fc.property(
      fc.array(typed, { maxLength: 5 }),
      fc.option(fc.jsonValue()),
      fc.boolean(),
      fc.integer({ min: 100, max: 1_000 }),
      (content, structured, isError, charsMax) => {
        const result = capResult(
          resultOf(content, (structured ?? undefined) as JsonValue | undefined, isError),
          charsMax,
        );
        const outcome = isError ? toolError(result) : succeeded(result);
        expect(envelope(outcome).ok).toBe(!isError);
        expect(typeof textOf(output(outcome, 'text'))).toBe('string');
      },
    ),
    { numRuns: 500 },
  );
});
