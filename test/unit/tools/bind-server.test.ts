import { Ajv2020 } from 'ajv/dist/2020.js';
import { RE2JS } from 're2js';
import { afterEach, describe, expect, test, vi } from 'vitest';
import type { JsonObject } from '../../../src/core/json.ts';
import { type BoundServer, bindServer } from '../../../src/tools/bind-server.ts';
import type { ToolDefinition } from '../../../src/tools/definition.ts';
import type { ServerPolicy } from '../../../src/tools/policy.ts';
import { bindNow, tool } from '../../support/service.ts';

const policyWith = (
  description?: string,
  { idempotent, trustAnnotations = false }: { idempotent?: boolean; trustAnnotations?: boolean } = {},
): ServerPolicy => ({
  alias: 'lab',
  descriptionPrefix: undefined,
  trustAnnotations,
  needsRun: false,
  offers: () => true,
  toolPolicy: () => ({
    class: undefined,
    idempotent,
    retry: 'safe',
    timeoutMs: 1_000,
    timeoutTotalMs: 1_000,
    outputCharsMax: 1_000,
    render: undefined,
    description,
  }),
});
const policy = policyWith();
const bind = (tools: readonly ToolDefinition[], earlier?: BoundServer): BoundServer =>
  bindNow(policy, tools, [], earlier);
const withPatterns = (name: string, patterns: readonly string[]): ToolDefinition =>
  tool(name, {
    type: 'object',
    properties: Object.fromEntries(patterns.map((pattern, index) => [`p${index}`, { pattern }])),
  });
const names = ({ bindings }: BoundServer): string[] => bindings.map((binding) => binding.tool);

afterEach(() => vi.restoreAllMocks());

describe('a tool list that takes long (O23, SC-9)', () => {
  test('is bound with a pause after each tool, each refused entry and each pattern', () => {
    const tools = [tool('a'), withPatterns('b', ['^a$', '^b$', '^c$'])];
    const steps = [...bindServer(policy, tools, [{ tool: '(entry 3)', reason: 'odd' }])];
    expect(steps).toHaveLength(1 + 2 + 3);
  });

  test('has a bound on the patterns of all its tools; those beyond it are withheld, with the reason', () => {
    const tools = Array.from({ length: 16 }, (_, index) =>
      withPatterns(
        `t${index}`,
        Array.from({ length: 16 }, (_, each) => `^${index}x{${900 + each}}$`),
      ),
    );
    const { bindings, withheld } = bind([...tools, tool('plain')]);
    expect(bindings.length + withheld.length).toBe(17);
    expect(withheld.length).toBeGreaterThan(0);
    expect(bindings.at(-1)?.tool).toBe('plain');
    expect(withheld[0]?.reason).toMatch(
      /^its input schema cannot be used: the schema at \/properties\/p\d+\/pattern brings the patterns of all tools of the server to a size of more than 200000$/,
    );
  });

  test('counts equal patterns once, and compiles them once', () => {
    const compile = vi.spyOn(RE2JS, 'compile');
    const patterns = Array.from({ length: 16 }, (_, index) => `^x{${900 + index}}$`);
    const list = Array.from({ length: 50 }, (_, index) => withPatterns(`t${index}`, patterns));
    const first = bind(list);
    expect(first.withheld).toEqual([]);
    expect(compile).toHaveBeenCalledTimes(16);
    bind([...list, withPatterns('more', patterns)], first);
    expect(compile).toHaveBeenCalledTimes(16);
  });

  test('never compiles a pattern that counts too far', () => {
    const compile = vi.spyOn(RE2JS, 'compile');
    const { withheld } = bind([withPatterns('x', [`(${'a'.repeat(900)}){1000}`])]);
    expect(withheld[0]?.reason).toContain('is a pattern of more than 5000 instructions');
    expect(compile).not.toHaveBeenCalled();
  });
});

describe('a tool list that comes again (O29)', () => {
  const schema: JsonObject = { type: 'object', properties: { text: { type: 'string' } } };
  const list = (): ToolDefinition[] => [
    { ...tool('a', structuredClone(schema)), outputSchema: { type: 'object' } },
    tool('b', structuredClone(schema)),
  ];

  test('keeps the bindings of tools that are as they were, and their validators', () => {
    const compile = vi.spyOn(Ajv2020.prototype, 'compile');
    let server = bind(list());
    const before = server.bindings;
    for (let round = 0; round < 5; round++) {
      server = bind(list().reverse(), server);
      for (const binding of server.bindings) {
        expect(binding.checkArguments({ text: 'x' })).toEqual({ ok: true, value: [] });
        binding.checkOutput({ content: [], structuredContent: {}, isError: false });
      }
    }
    expect(server.bindings).toEqual(before.toReversed());
    expect(server.bindings[1]).toBe(before[0]);
    expect(compile).toHaveBeenCalledTimes(3);
  });

  test.each<[string, Partial<ToolDefinition>]>([
    ['input schema', { inputSchema: { ...schema, required: ['text'] } }],
    ['description', { description: 'New.' }],
    ['annotations', { annotations: { readOnlyHint: true } }],
  ])('binds a tool anew whose %s has changed', (_what, change) => {
    const first = bind(list());
    const [a, b] = list() as [ToolDefinition, ToolDefinition];
    const second = bind([{ ...a, ...change }, b], first);
    expect(second.bindings[0]).not.toBe(first.bindings[0]);
    expect(second.bindings[0]).toMatchObject({ tool: 'a' });
    expect(second.bindings[1]).toBe(first.bindings[1]);
  });

  test('lets go of what is gone', () => {
    const first = bind([withPatterns('a', ['^a$']), withPatterns('b', ['^b$'])]);
    const second = bind([withPatterns('b', ['^b$'])], first);
    expect(names(second)).toEqual(['b']);
    expect([...second.known.keys()]).toEqual(['b']);
    const compile = vi.spyOn(RE2JS, 'compile');
    bind([withPatterns('a', ['^a$'])], second);
    expect(compile).toHaveBeenCalledTimes(1);
  });

  test('withholds what is over the bound whichever list came before', () => {
    const patterns = (from: number): string[] =>
      Array.from({ length: 16 }, (_, index) => `^${from}x{${900 + index}}$`);
    const tools = Array.from({ length: 16 }, (_, index) => withPatterns(`t${index}`, patterns(index)));
    const straight = bind(tools);
    const turned = bind(tools.toReversed());
    expect(names(bind(tools, turned))).toEqual(names(straight));
    expect(names(bind(tools.toReversed(), straight))).toEqual(names(turned));
  });
});

describe('texts of a server (MT-4)', () => {
  const bound = (definition: Partial<ToolDefinition>, by = policy) => {
    const [binding] = bindNow(by, [{ ...tool('x'), ...definition }], []).bindings;
    return { ...binding, steps: binding?.adjustments.map(({ step, path, loss }) => [step, path, loss]) };
  };

  test('are told whole, line ends and all, up to 8,192 characters', () => {
    const description = `First line.\n\n- a\tb\r\n${'x'.repeat(8_000)}`;
    expect(bound({ title: 'X', description })).toMatchObject({ title: 'X', description, steps: [] });
  });

  test('are cut there, which is told', () => {
    const { title, description, steps } = bound({
      title: 't'.repeat(10_000),
      description: 'd'.repeat(30_000_000),
    });
    expect(title?.length).toBeLessThanOrEqual(8_192);
    expect(description?.length).toBeLessThanOrEqual(8_192);
    expect(description).toMatch(/ \[\.\.\. \d+ more characters cut\]$/);
    expect(steps).toEqual([
      ['cut_title', '/title', true],
      ['cut_description', '/description', true],
    ]);
  });

  test('lose control and hidden characters, which is told', () => {
    const { description, steps } = bound({
      description: 'Adds.\u001b[2J\u202e\u{e0049}\u{e0067}\u200b\nTwo.\ud800',
    });
    expect(description).toBe('Adds.[2J\nTwo.\ufffd');
    expect(steps).toEqual([['drop_characters', '/description', true]]);
  });

  test('do not count where the operator wrote a description', () => {
    const { description, steps } = bound({ description: 'd'.repeat(10_000) }, policyWith('Ours.'));
    expect(description).toBe('Ours.');
    expect(steps).toEqual([]);
  });
});

describe('what a server says of its own tools (AZ-6)', () => {
  const annotations = { idempotentHint: true };
  const isIdempotent = (
    settings: { idempotent?: boolean; trustAnnotations?: boolean },
    hints: Partial<ToolDefinition> = { annotations },
  ): boolean | undefined =>
    bindNow(policyWith(undefined, settings), [{ ...tool('x'), ...hints }], []).bindings[0]?.policy.idempotent;

  test('makes a tool idempotent only where the operator trusts the server', () => {
    expect(isIdempotent({})).toBe(false);
    expect(isIdempotent({ trustAnnotations: true })).toBe(true);
    expect(isIdempotent({ trustAnnotations: true }, {})).toBe(false);
  });

  test('gives way to what the operator says of the tool', () => {
    expect(isIdempotent({ trustAnnotations: true, idempotent: false })).toBe(false);
    expect(isIdempotent({ idempotent: true }, {})).toBe(true);
  });
});

describe('declared schemas', () => {
  test('are the own ones of the server, with nothing but the missing root keywords added', () => {
    const inputSchema = {
      $schema: 'http://json-schema.org/draft-07/schema#',
      $id: 'https://schema.test/args',
      definitions: { pair: { $id: '#pair', type: 'array', items: [{ type: 'string' }] } },
      nullable: true,
      required: ['a'],
    };
    const [binding] = bind([tool('x', inputSchema)]).bindings;
    expect(binding?.inputSchema).toEqual({ ...inputSchema, type: 'object', properties: {} });
    expect(binding?.adjustments).toEqual([
      { member: 'inputSchema', step: 'add_keyword', path: '/type', loss: false },
      { member: 'inputSchema', step: 'add_keyword', path: '/properties', loss: false },
    ]);
  });

  test('of outputs judge results, but not very large ones', () => {
    const [binding] = bind([
      { ...tool('t'), outputSchema: { properties: { list: { maxItems: 1 } } } },
    ]).bindings;
    const remarksOn = (length: number): readonly string[] | undefined =>
      binding?.checkOutput({
        content: [],
        structuredContent: { list: Array.from({ length }, () => 1) },
        isError: false,
      });
    expect(remarksOn(1)).toEqual([]);
    expect(remarksOn(2)).toEqual([expect.stringContaining('does not fit')]);
    expect(remarksOn(100_000)).toEqual([]);
  });

  test('compile a pattern once for all tools of a server, and not again for a call', () => {
    const compile = vi.spyOn(RE2JS, 'compile');
    const { bindings } = bind([withPatterns('x', ['^once$']), withPatterns('y', ['^once$'])]);
    for (const binding of bindings) {
      expect(binding.checkArguments({ p0: 'once' })).toEqual({ ok: true, value: [] });
      expect(binding.checkArguments({ p0: 'twice' })).toMatchObject({ value: [{ path: '/p0' }] });
    }
    expect(compile).toHaveBeenCalledTimes(1);
  });

  test('of outputs are left out where they cannot be used, which is told', () => {
    const outputs: readonly unknown[] = [
      { type: 'object', $id: 'x' },
      { $ref: '#/$defs/Gone' },
      { $async: true },
      true,
      'object',
    ];
    const { bindings } = bind(outputs.map((outputSchema, index) => ({ ...tool(`t${index}`), outputSchema })));
    expect(bindings.map(({ outputSchema }) => outputSchema)).toEqual([
      outputs[0],
      ...Array(4).fill(undefined),
    ]);
    expect(bindings.map(({ adjustments }) => adjustments.map(({ step }) => step))).toEqual([
      [],
      ...Array(4).fill(['drop_output_schema']),
    ]);
  });
});
