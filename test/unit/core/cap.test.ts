import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { capResult } from '../../../src/core/cap.ts';
import type { JsonValue } from '../../../src/core/json.ts';
import type { ContentBlock, ToolResult } from '../../../src/core/outcome.ts';
import { renderText } from '../../../src/formats/render.ts';

const text = (value: string): ContentBlock => ({ type: 'text', text: value });
const link = (uri: string): ContentBlock => ({ type: 'resource_link', uri, name: 'a page' });
const resultOf = (content: readonly ContentBlock[], structuredContent?: JsonValue): ToolResult => ({
  content,
  isError: false,
  ...(structuredContent === undefined ? {} : { structuredContent }),
});
const texts = (result: ToolResult): unknown[] => result.content.map((block) => block.text);

describe('a result inside the limit', () => {
  test('stays as it is, up to the last character', () => {
    const result = resultOf([text('x'.repeat(100))]);
    expect(capResult(result, 100)).toEqual(result);
    const both = resultOf([text('x'.repeat(50))], { a: 'y'.repeat(42) });
    expect(capResult(both, 100)).toEqual(both);
  });

  test('keeps media of any size, for they never become text', () => {
    const result = resultOf([
      text('shot'),
      { type: 'image', data: 'A'.repeat(10_000), mimeType: 'image/png' },
    ]);
    expect(capResult(result, 100)).toEqual(result);
  });

  test('counts structured content once where a text says the same', () => {
    const value = { items: ['x'.repeat(60)] };
    const result = resultOf([text(JSON.stringify(value, null, 1))], value);
    expect(capResult(result, 100)).toEqual(result);
  });

  test('keeps the error flag', () => {
    expect(capResult({ content: [], isError: true }, 100)).toEqual({ content: [], isError: true });
  });
});

describe('a result over the limit', () => {
  test('is cut, with a notice of what is missing inside the limit', () => {
    const [cut] = texts(capResult(resultOf([text('x'.repeat(1_000))]), 200));
    expect(cut).toBe(`${'x'.repeat(169)} [... 831 more characters cut]`);
  });

  test('is cut in embedded resources too', () => {
    const block = { type: 'resource', resource: { uri: 'file:///a', text: 'y'.repeat(1_000) } };
    const [capped] = capResult(resultOf([block]), 200).content;
    expect(JSON.stringify(capped)).toContain('more characters cut]');
    expect(JSON.stringify(capped).length).toBeLessThan(300);
  });

  test('says how many blocks are missing', () => {
    const capped = capResult(resultOf(Array.from({ length: 10 }, () => text('x'.repeat(100)))), 400);
    expect(texts(capped).at(-1)).toMatch(/^\[\d more content blocks cut]$/);
    expect(texts(capped).join('').length).toBeLessThanOrEqual(400);
  });

  test('is bounded against floods of small blocks, of links and of empty ones', () => {
    for (const block of [
      text('x'),
      text(''),
      link('https://example.com/'),
      link('u'.repeat(5_000)),
      { type: 'odd' },
    ]) {
      const capped = capResult(resultOf(Array.from({ length: 10_000 }, () => block)), 10_000);
      expect(capped.content.length).toBeLessThan(330);
      expect(texts(capped).at(-1)).toMatch(/more content blocks cut]$/);
    }
  });

  test('loses structured content whole, with a notice', () => {
    const capped = capResult(resultOf([text('summary')], { items: 'x'.repeat(1_000) }), 500);
    expect(capped.structuredContent).toBeUndefined();
    expect(texts(capped)).toEqual(['summary', '[structured content left out: more than 500 characters]']);
  });

  test('says how long structured content is that would have fitted alone', () => {
    const capped = capResult(resultOf([text('y'.repeat(300))], { items: 'x'.repeat(300) }), 500);
    expect(texts(capped).at(-1)).toBe('[structured content left out: 312 characters]');
  });

  test('is not read to its end: structured content of millions of members is left out after the first few', () => {
    let reads = 0;
    const items = new Proxy(
      Array.from({ length: 8_000_000 }, () => 0),
      {
        get: (list, key) => {
          reads += 1;
          return Reflect.get(list, key);
        },
      },
    );
    const capped = capResult(resultOf([text('[0]')], { items }), 1_000);
    expect(texts(capped)).toEqual(['[0]', '[structured content left out: more than 1000 characters]']);
    expect(reads).toBeLessThan(1_000);
  });

  test('keeps small structured content, and cuts the text', () => {
    const capped = capResult(resultOf([text('x'.repeat(1_000))], { total: 36 }), 200);
    expect(capped.structuredContent).toEqual({ total: 36 });
    expect(texts(capped)[0]).toMatch(/^x{157} \[\.\.\. 843 more characters cut]$/);
  });

  test('is never split inside a character', () => {
    for (const charsMax of [100, 101, 102, 103]) {
      const [cut] = texts(capResult(resultOf([text('😀'.repeat(200))]), charsMax));
      expect(String(cut).isWellFormed()).toBe(true);
      expect(cut).toMatch(/^(😀)+ \[\.\.\. \d+ more characters cut\]$/u);
    }
  });
});

test('lone surrogates become U+FFFD', () => {
  const resource = { type: 'resource', resource: { uri: 'u', text: 'b\udc00' } };
  const capped = capResult(resultOf([text('a\ud800'), resource]), 1_000);
  expect(capped.content).toEqual([
    text('a\ufffd'),
    { type: 'resource', resource: { uri: 'u', text: 'b\ufffd' } },
  ]);
});

test('what is nested too deeply to be written is left out, and said so', () => {
  let deep: JsonValue = 1;
  for (let level = 0; level < 100_000; level++) deep = [deep];
  const capped = capResult(resultOf([text('ok'), { type: 'odd', deep }], deep), 1_000);
  expect(texts(capped)).toEqual([
    'ok',
    '[content nested deeper than 64 levels left out]',
    '[structured content left out: nested deeper than 64 levels]',
  ]);
  expect(capped.structuredContent).toBeUndefined();
});

test('whatever the blocks are, their text is inside the limit', () => {
  const anyText = fc.string({ unit: 'binary', maxLength: 400 });
  const block = fc.oneof(
    anyText.map(text),
    anyText.map((value) => ({ type: 'resource', resource: { uri: 'file:///x', text: value } })),
    anyText.map(link),
  );
  fc.assert(
    fc.property(
      fc.array(block),
      fc.option(fc.dictionary(anyText, anyText)),
      fc.integer({ min: 100, max: 2_000 }),
      (content, structured, charsMax) => {
        const capped = capResult(resultOf(content, structured ?? undefined), charsMax);
        const told = capped.content.reduce((sum, each) => {
          const { text: inside = '' } = (each.resource ?? {}) as { text?: string };
          return sum + (typeof each.text === 'string' ? each.text.length : inside.length);
        }, 0);
        const structuredChars =
          capped.structuredContent === undefined ? 0 : JSON.stringify(capped.structuredContent).length;
        expect(told + structuredChars).toBeLessThanOrEqual(charsMax);
        expect(
          renderText({ status: 'succeeded', result: capped }, () => false, true).text.isWellFormed(),
        ).toBe(true);
      },
    ),
    { numRuns: 500 },
  );
});

test('a text in a member that nobody knows counts like any other', () => {
  const block = { type: 'text', text: 'short', z: 'x'.repeat(1_000) };
  const { content } = capResult({ content: [{ type: 'text', text: 'first' }, block], isError: false }, 500);
  expect(JSON.stringify(content)).not.toContain('xxx');
  expect(content[0]).toEqual({ type: 'text', text: 'first' });
});
