import { describe, expect, test } from 'vitest';
import { listLimits, readToolList } from '../../../src/upstream/tool-list.ts';

const page = (tools: readonly unknown[], nextCursor?: unknown) => async () => ({ tools, nextCursor });
const plain = { type: 'object' };

describe('entries of a tool list', () => {
  test.each([
    ['null', null, '(entry 1)'],
    ['a text', 'echo', '(entry 1)'],
    ['no name', { inputSchema: plain }, '(entry 1)'],
    ['an empty name', { name: '', inputSchema: plain }, '(entry 1)'],
    ['a number as name', { name: 7, inputSchema: plain }, '(entry 1)'],
    ['half a character in the name', { name: 'a\ud800', inputSchema: plain }, '(entry 1)'],
    ['no inputSchema', { name: 'a' }, 'a'],
    ['a boolean as inputSchema', { name: 'a', inputSchema: true }, 'a'],
    ['a list as inputSchema', { name: 'a', inputSchema: [] }, 'a'],
    [
      'task support that is required',
      { name: 'a', inputSchema: plain, execution: { taskSupport: 'required' } },
      'a',
    ],
  ])('with %s are refused with a reason, and no other is', async (_, entry, tool) => {
    const list = await readToolList(page([entry, { name: 'good', inputSchema: {} }]));
    expect(list.tools.map(({ name }) => name)).toEqual(['good']);
    expect(list.refused).toEqual([{ tool, reason: expect.any(String) }]);
  });

  test('nested so deeply that they could not be written as JSON are refused alone', async () => {
    let deep: unknown = {};
    for (let level = 0; level < 100_000; level++) deep = { items: deep };
    const good = { name: 'good', inputSchema: plain };
    const entries = [
      { name: 'input', inputSchema: deep },
      { name: 'output', inputSchema: plain, outputSchema: deep },
      { ...good, 'x-vendor': deep },
      deep,
    ];
    expect(await readToolList(page(entries))).toEqual({
      tools: [good],
      refused: [
        { tool: 'input', reason: expect.stringContaining('deeper than 64') },
        { tool: 'output', reason: expect.stringContaining('deeper than 64') },
        { tool: '(entry 4)', reason: 'the entry has no name' },
      ],
    });
  });

  test('with a name over the limit are refused, the name cut', async () => {
    const { refused } = await readToolList(page([{ name: 'n'.repeat(300), inputSchema: plain }]));
    expect(refused[0]?.tool.length).toBeLessThanOrEqual(80);
  });

  test('with one name are refused all of them, and reported once', async () => {
    const entries = [1, 2, 3].map((n) => ({ name: 'a', description: `${n}`, inputSchema: plain }));
    expect(await readToolList(page([...entries, { name: 'toString', inputSchema: plain }]))).toEqual({
      tools: [{ name: 'toString', inputSchema: plain }],
      refused: [{ tool: 'a', reason: 'the server lists this name more than once' }],
    });
  });

  test('keep their schemas as they came, and of the rest only what has the right type', async () => {
    const entry = {
      name: 'a',
      title: 7,
      description: null,
      inputSchema: { $ref: '#/$defs/Gone' },
      outputSchema: { type: 'array' },
      annotations: { readOnlyHint: true, title: 'A', destructiveHint: 'no', idempotentHint: null },
      icons: 'none',
      'x-vendor': 1,
    };
    expect((await readToolList(page([entry]))).tools).toEqual([
      {
        name: 'a',
        inputSchema: { $ref: '#/$defs/Gone' },
        outputSchema: { type: 'array' },
        annotations: { readOnlyHint: true },
      },
    ]);
  });
});

describe('pages of a tool list', () => {
  test('that never end are read up to the limit, and the rest is reported', async () => {
    let pages = 0;
    const list = await readToolList(async () => {
      pages += 1;
      return { tools: [{ name: `t${pages}`, inputSchema: {} }], nextCursor: `c${pages}` };
    });
    expect(pages).toBe(listLimits.pagesMax);
    expect(list.tools.length).toBe(listLimits.pagesMax);
    expect(list.refused).toMatchObject([{ tool: '(the rest of the list)' }]);
  });

  test('with more tools than the limit give as many as the limit', async () => {
    const entries = Array.from({ length: listLimits.toolsMax + 1 }, (_, n) => ({
      name: `t${n}`,
      inputSchema: {},
    }));
    const list = await readToolList(page(entries));
    expect(list.tools.length).toBe(listLimits.toolsMax);
    expect(list.refused.length).toBe(1);
  });

  test('with more characters than the limit give as much as the limit', async () => {
    const description = 'd'.repeat(listLimits.charsMax / 4);
    const entries = ['a', 'b', 'c', 'd', 'e'].map((name) => ({ name, description, inputSchema: plain }));
    const { tools, refused } = await readToolList(page(entries));
    expect(tools.map(({ name }) => name)).toEqual(['a', 'b', 'c']);
    expect(refused).toMatchObject([{ tool: '(the rest of the list)' }]);
  });

  test.each([undefined, null, ''])('end at the cursor %j', async (nextCursor) => {
    expect((await readToolList(page([], nextCursor))).refused).toEqual([]);
  });

  test('end at a cursor that is no text, which is reported', async () => {
    expect((await readToolList(page([], 2))).refused.length).toBe(1);
  });

  test('end at a cursor that is too long to be kept and sent back, which is reported', async () => {
    const list = await readToolList(page([{ name: 'a', inputSchema: plain }], 'c'.repeat(4_097)));
    expect(list.tools).toHaveLength(1);
    expect(list.refused).toEqual([
      {
        tool: '(the rest of the list)',
        reason: 'the cursor to the next page is longer than 4096 characters',
      },
    ]);
  });

  test('without a list of tools are a fault', async () => {
    await expect(readToolList(async () => ({ tools: {} }))).rejects.toThrow('no list of tools');
  });
});
