import { describe, expect, test } from 'vitest';
import type { ToolResult } from '../../../src/core/outcome.ts';
import { createTestService, functionCall, type TestAnswer, tool } from '../../support/service.ts';

const scopes = ['tools:s:*'];
const items = Array.from({ length: 6 }, (_, index) => ({ id: index + 1 }));
const results: Readonly<Record<string, Partial<ToolResult>>> = {
  a: { structuredContent: { total: 36 } },
  b: { content: [{ type: 'text', text: '6 items' }], structuredContent: { items } },
  c: { content: [{ type: 'text', text: JSON.stringify({ items }) }], structuredContent: { items } },
  d: {},
};
const service = createTestService({
  servers: [{ alias: 's', tools: Object.keys(results).map((name) => tool(name)) }],
  behaviours: Object.fromEntries(
    Object.entries(results).map(([name, result]) => [`s:${name}`, () => result]),
  ),
});
const call = (name: string, render: string): Promise<TestAnswer> =>
  service.post(`/v1/calls?render=${render}`, functionCall(`${name} ${render}`, `s__${name}`), { scopes });

describe('structured content on its way to the model (O08)', () => {
  test('in an envelope is there once, whatever stands beside it', async () => {
    const read = async (name: string): Promise<unknown> =>
      JSON.parse((await call(name, 'envelope')).json.output);
    expect(await read('a')).toEqual({ ok: true, content: [], structured: { total: 36 } });
    expect(await read('b')).toEqual({
      ok: true,
      content: [{ type: 'text', text: '6 items' }],
      structured: { items },
    });
    expect(await read('c')).toEqual({
      ok: true,
      content: [{ type: 'text', text: JSON.stringify({ items }) }],
    });
    expect(await read('d')).toEqual({ ok: true, content: [] });
  });

  test('as text is there once, and nothing at all is never undefined or null', async () => {
    const read = async (name: string): Promise<string> => (await call(name, 'text')).json.output;
    expect(JSON.parse(await read('a'))).toEqual({ total: 36 });
    const both = await read('b');
    expect(both).toContain('6 items');
    expect(both).toContain(JSON.stringify({ items }));
    expect(JSON.parse(await read('c'))).toEqual({ items });
    const { status, json } = await call('d', 'text');
    expect(status).toBe(200);
    expect(json.output).toEqual(expect.any(String));
    expect(json.output).not.toMatch(/undefined|null/);
  });
});
