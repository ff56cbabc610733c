import { expect, test } from 'vitest';
import type { JsonObject } from '../../../src/core/json.ts';
import type { DeclaredTool, DeclareOptions } from '../../../src/formats/format.ts';
import { openaiResponses } from '../../../src/formats/openai-responses.ts';
import { registryOf, type TestServer, tool } from '../../support/service.ts';

const long = `${'very_'.repeat(12)}long`;
const servers: TestServer[] = [
  { alias: 'docs', tools: [tool('search'), tool('get page'), tool(long)] },
  { alias: 'docs-x', tools: [tool('search')] },
  { alias: 'lab', tools: [tool('docs__search')] },
];
const registry = registryOf(servers);
const tools = registry.bindings.map(
  (binding): DeclaredTool => ({
    binding,
    description: undefined,
    schema: binding.inputSchema,
    isStrict: false,
  }),
);
const plain: DeclareOptions = { strict: 'off', namespaces: false, defer: false };
const declare = (options: Partial<DeclareOptions>) =>
  openaiResponses.declare(tools, { ...plain, ...options });

interface Namespace {
  readonly name: string;
  readonly tools: readonly JsonObject[];
}
const namespaces = (list: readonly JsonObject[]): Namespace[] =>
  list.filter(({ type }) => type === 'namespace') as unknown as Namespace[];

test('the tools of each server stand in a namespace of their own', () => {
  const list = declare({ namespaces: true });
  expect(list.map(({ type, name, description }) => [type, name, description])).toEqual([
    ['namespace', 'docs-x', 'Tools of docs-x.'],
    ['namespace', 'docs', 'Tools of docs.'],
    ['namespace', 'lab', 'Tools of lab.'],
  ]);
  expect(namespaces(list)[0]?.tools).toEqual([
    { type: 'function', name: 'search', parameters: { type: 'object', properties: {} }, strict: false },
  ]);
});

test('a namespace and a name in it are the declared name, cut and hashed ones too', () => {
  const joined = namespaces(declare({ namespaces: true })).flatMap(({ name, tools: inside }) =>
    inside.map((each) => `${name}__${each.name}`),
  );
  expect(joined).toEqual(registry.bindings.map(({ name }) => name));
  expect(joined.some((name) => /_[0-9a-f]{8}$/.test(name))).toBe(true);
});

test('deferred tools stand in namespaces, which tell what they hold, beside the search', () => {
  const list = declare({ defer: true });
  expect(list).toEqual(declare({ defer: true, namespaces: true }));
  expect(list.at(-1)).toEqual({ type: 'tool_search' });
  expect(list.filter(({ type }) => type === 'tool_search')).toHaveLength(1);
  expect(list[0]?.description).toBe('Tools of docs-x: search');
  for (const { tools: inside } of namespaces(list)) {
    for (const each of inside) expect(each.defer_loading).toBe(true);
  }
});

test('what a namespace tells of many tools is bounded', () => {
  const many = registryOf([
    { alias: 'lab', tools: Array.from({ length: 300 }, (_, place) => tool(`tool_number_${place}`)) },
  ]).bindings.map((binding) => ({ ...(tools[0] as DeclaredTool), binding }));
  const [namespace] = openaiResponses.declare(many, { ...plain, defer: true });
  expect(namespace?.description).toMatch(/^.{900,1000}$/);
  expect(namespace?.description).toMatch(/more characters cut\]$/);
});
