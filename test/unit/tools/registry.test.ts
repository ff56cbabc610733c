import { describe, expect, test } from 'vitest';
import { declaredName } from '../../../src/tools/names.ts';
import { buildRegistry, type Registry } from '../../../src/tools/registry.ts';
import { bindNow, registryOf, tool } from '../../support/service.ts';

const names = (registry: Registry): string[] => registry.bindings.map(({ name }) => name);
const policy = {
  class: undefined,
  idempotent: false,
  retry: 'safe' as const,
  timeoutMs: 1_000,
  timeoutTotalMs: 600_000,
  outputCharsMax: 1_000,
  render: undefined,
  description: undefined,
};

describe('the registry', () => {
  test('finds a tool by its whole name only, and never by splitting it (O01)', () => {
    const registry = registryOf([
      { alias: 'a', tools: [tool('b__c')] },
      { alias: 'x', tools: [tool('y__z')] },
    ]);
    expect(names(registry)).toEqual(['a__b__c', 'x__y__z']);
    expect(registry.find('x__y__z')).toMatchObject({ alias: 'x', tool: 'y__z' });
    expect(registry.find('a__b__c')).toMatchObject({ alias: 'a', tool: 'b__c' });
    for (const miss of ['a__b', 'b__c', 'x__z', 'y__z', 'a__b__c ', 'A__b__c', '']) {
      expect(registry.find(miss)).toBeUndefined();
    }
  });

  test('withholds two tools that would have one name, and says so for both (MT-5)', () => {
    // No configuration can have the alias `a__b`; the registry does not rely on that.
    const registry = registryOf([
      { alias: 'a', tools: [tool('b__c'), tool('ok')] },
      { alias: 'a__b', tools: [tool('c')] },
    ]);
    expect(names(registry)).toEqual(['a__ok']);
    for (const alias of ['a', 'a__b']) {
      expect(registry.withheld.get(alias)).toHaveLength(1);
      expect(registry.withheld.get(alias)?.[0]?.reason).toContain('a__b__c');
    }
  });

  test('knows the names of object prototypes only where a server declares them (O22)', () => {
    const registry = registryOf([{ alias: 'p', tools: [tool('constructor'), tool('__proto__')] }]);
    expect(registry.find('p__constructor')?.tool).toBe('constructor');
    expect(registry.find('p____proto__')?.tool).toBe('__proto__');
    for (const miss of [
      'constructor',
      'toString',
      '__proto__',
      'a__constructor',
      'a____proto__',
      'p__toString',
    ]) {
      expect(registry.find(miss)).toBeUndefined();
    }
  });

  test('keeps the raw name of a tool beside every declared one (O03)', () => {
    const raw = ['calendar.list', 'repo/commit', 'Get File', 'plain_ok'];
    const registry = registryOf([{ alias: 'ws', tools: raw.map((name) => tool(name)) }]);
    expect(registry.bindings.map((binding) => binding.tool).sort()).toEqual(raw.toSorted());
    expect(registry.find('ws__plain_ok')?.tool).toBe('plain_ok');
    for (const { name, tool: own } of registry.bindings) expect(name).toBe(declaredName('ws', own));
  });

  test('hints at a few bindings only, however many names a server makes alike', () => {
    const alike = Array.from({ length: 40 }, (_, index) => tool(`get${'_'.repeat(index)}it`));
    expect(registryOf([{ alias: 'lab', tools: alike }]).near('GetIt')).toHaveLength(20);
  });

  test('is sorted by name, whatever the order of servers and tools', () => {
    const one = registryOf([
      { alias: 'b', tools: [tool('y'), tool('x')] },
      { alias: 'a', tools: [tool('z'), tool('Z')] },
    ]);
    expect(names(one)).toEqual(['a__Z', 'a__z', 'b__x', 'b__y']);
  });

  test('withholds a tool whose schema cannot be used, and nothing else (SC-10)', () => {
    const registry = registryOf([
      {
        alias: 'lab',
        tools: [tool('good'), tool('bad', { type: 'object', properties: { a: { $ref: '#/$defs/Gone' } } })],
        refused: [{ tool: '(entry 3)', reason: 'the entry has no name' }],
      },
    ]);
    expect(names(registry)).toEqual(['lab__good']);
    expect(registry.withheld.get('lab')?.map((entry) => entry.tool)).toEqual(['(entry 3)', 'bad']);
  });

  test('leaves out what the operator left out, without a word', () => {
    const server = bindNow(
      {
        alias: 'lab',
        descriptionPrefix: undefined,
        trustAnnotations: false,
        needsRun: false,
        offers: (name) => name !== 'secret',
        toolPolicy: () => policy,
      },
      [tool('open'), tool('secret', { type: 'string' })],
      [],
    );
    const registry = buildRegistry([server]);
    expect(names(registry)).toEqual(['lab__open']);
    expect(registry.withheld.get('lab')).toEqual([]);
  });

  test('believes what a server says of its tools only where the operator trusts it (AZ-6)', () => {
    const hints = { ...tool('x'), annotations: { readOnlyHint: true } };
    const classOf = (trustAnnotations: boolean, toolClass: 'read' | 'write' | undefined) =>
      bindNow(
        {
          alias: 'lab',
          descriptionPrefix: undefined,
          trustAnnotations,
          needsRun: false,
          offers: () => true,
          toolPolicy: () => ({ ...policy, class: toolClass }),
        },
        [hints],
        [],
      ).bindings[0]?.target.class;
    expect(classOf(false, undefined)).toBe('write');
    expect(classOf(true, undefined)).toBe('read');
    expect(classOf(true, 'write')).toBe('write');
    expect(classOf(false, 'read')).toBe('read');
  });

  test('tells registries apart by their generation', () => {
    expect(registryOf([]).generation).not.toBe(registryOf([]).generation);
  });

  test('blames the schema, not the arguments, where it cannot be compiled or run', () => {
    const registry = registryOf([
      { alias: 'lab', tools: [tool('x', { type: 'object', required: ['toString'] })] },
    ]);
    const checked = registry.find('lab__x')?.checkArguments({});
    expect(checked).toMatchObject({ ok: true, value: [{ path: expect.any(String) }] });
  });
});
