import { expect, test } from 'vitest';
import { readCallResult } from '../../../src/upstream/call-result.ts';

test('a result without content has none, and is a success (O08)', () => {
  expect(readCallResult({})).toEqual({ ok: true, value: { content: [], isError: false } });
});

test.each([[null], [false], [0], [''], [[1]], [{ total: 36 }]])(
  'structured content %j is kept as it is',
  (value) => {
    expect(readCallResult({ content: [], structuredContent: value })).toEqual({
      ok: true,
      value: { content: [], structuredContent: value, isError: false },
    });
  },
);

test('only the word true marks an error', () => {
  const flags = [true, 'true', 1, null, undefined].map((isError) => {
    const result = readCallResult({ content: [], isError });
    return result.ok && result.value.isError;
  });
  expect(flags).toEqual([true, false, false, false, false]);
});

test('a block that is none keeps its place under an unknown type; one of an unknown type is kept whole', () => {
  const audio = { type: 'hologram', beam: 1 };
  expect(readCallResult({ content: ['x', null, { text: 'no type' }, { type: 7 }, audio] })).toMatchObject({
    value: {
      content: [{ type: 'unknown' }, { type: 'unknown' }, { type: 'unknown' }, { type: 'unknown' }, audio],
    },
  });
});

test('of a flood of blocks the first thousand are kept, and the rest is counted', () => {
  const result = readCallResult({ content: Array.from({ length: 100_000 }, () => ({})) });
  if (!result.ok) throw new Error('this was to be a result');
  expect(result.value.content).toHaveLength(1_001);
  expect(result.value.content.at(-1)).toEqual({ type: 'text', text: '[99000 more content blocks cut]' });
});

test('a block of thousands of members is none', () => {
  const members = Object.fromEntries(Array.from({ length: 5_000 }, (_, n) => [`k${n}`, n]));
  expect(readCallResult({ content: [{ type: 'text', text: 'x', ...members }] })).toMatchObject({
    value: { content: [{ type: 'unknown' }] },
  });
});

test.each(['text', {}, 7])('content that is no list (%j) is a fault', (content) => {
  expect(readCallResult({ content })).toMatchObject({ ok: false, error: { kind: 'malformed' } });
});

test('a result that asks for more input is none', () => {
  const answer = { resultType: 'input_required', content: [{ type: 'text', text: 'who?' }] };
  expect(readCallResult(answer)).toEqual({ ok: false, error: { kind: 'input_required' } });
});

test('a block keeps its texts, its resource and small annotations; other objects in it are dropped', () => {
  const deep = JSON.parse(`${'['.repeat(5_000)}${']'.repeat(5_000)}`);
  const annotations = { audience: ['user'], priority: 1 };
  const resource = { uri: 'a:b', text: 'b' };
  const read = readCallResult({
    content: [
      { type: 'text', text: 'a', annotations, _meta: { deep } },
      { type: 'resource', resource: { ...resource, z: { deep } }, annotations: { deep } },
    ],
  });
  expect(read.ok && read.value.content).toEqual([
    { type: 'text', text: 'a', annotations },
    { type: 'resource', resource },
  ]);
});
