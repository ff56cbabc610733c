import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { checkAlias, declaredName } from '../../../src/tools/names.ts';

const pattern = /^[a-zA-Z0-9_-]{1,64}$/;

describe('a declared name', () => {
  test('is the alias, two underscores and the tool, where that is a name', () => {
    expect(declaredName('ws', 'plain_ok')).toBe('ws__plain_ok');
    expect(declaredName('x', 'y__z')).toBe('x__y__z');
    expect(declaredName('a', 'b'.repeat(61))).toBe(`a__${'b'.repeat(61)}`);
  });

  test.each(['calendar.list', 'repo/commit', 'Get File', 'é', '😀', 'a\u0000b', '__proto__ ', '工具'])(
    'of %j has only characters that providers take, and a hash of what it stands for (O03)',
    (tool) => {
      const name = declaredName('ws', tool);
      expect(name).toMatch(pattern);
      expect(name).toMatch(/_[0-9a-f]{8}$/);
    },
  );

  test('of two long tools with one beginning are two names (O02)', () => {
    const alias = 'a_long_alias_of_24_chars';
    const same = 'x'.repeat(45);
    const names = [`${same}abcde`, `${same}fghij`].map((tool) => declaredName(alias, tool));
    expect(new Set(names).size).toBe(2);
    for (const name of names) expect(name).toMatch(pattern);
    expect(declaredName(alias, 'ok')).toBe(`${alias}__ok`);
  });

  test('cannot be taken for that of another tool that was cut or cleaned', () => {
    const cleaned = declaredName('ws', 'a.b');
    const forged = cleaned.slice('ws__'.length);
    expect(declaredName('ws', forged)).not.toBe(cleaned);
    expect(declaredName('ws', forged)).toMatch(/_[0-9a-f]{8}_[0-9a-f]{8}$/);
  });

  test('is a pure function, fits every provider, and never meets another (O02)', () => {
    const seen = new Map<string, string>();
    const alias = fc.constantFrom('a', 'ab', 'a_b', 'a-b', 'A', 'docs', 'a_long_alias_of_24_chars');
    const raw = fc.oneof(
      fc.string({ minLength: 1, maxLength: 80 }),
      fc.string({ minLength: 1, maxLength: 12, unit: fc.constantFrom('a', 'b', '_', '-', '.', '/', ' ') }),
      fc.string({ minLength: 50, maxLength: 60, unit: fc.constantFrom('a', 'b') }),
      fc
        .string({ minLength: 8, maxLength: 8, unit: fc.constantFrom(...'0123456789abcdef') })
        .map((hex) => `t_${hex}`),
    );
    fc.assert(
      fc.property(alias, raw, (each, tool) => {
        const name = declaredName(each, tool);
        expect(name).toMatch(pattern);
        expect(name.startsWith(`${each}__`)).toBe(true);
        expect(declaredName(each, tool)).toBe(name);
        const owner = `${each}\0${tool}`;
        expect(seen.get(name) ?? owner).toBe(owner);
        seen.set(name, owner);
      }),
      { numRuns: 20_000 },
    );
  });
});

describe('an alias', () => {
  test.each(['a', 'docs', 'my-server', 'my_server2', 'A1', 'a'.repeat(24)])('may be %s', (alias) => {
    expect(checkAlias(alias)).toEqual({ ok: true, value: alias });
  });

  test.each([
    '',
    'a__b',
    '1a',
    '_a',
    'a_',
    'a b',
    'a.b',
    'é',
    'a'.repeat(25),
    'mcp',
    'Web_Search',
    '__proto__',
    '-',
  ])('may not be %j, and the refusal offers one that may (O01)', (alias) => {
    const checked = checkAlias(alias);
    if (checked.ok) throw new Error('it was accepted');
    expect(checked.error).toContain(JSON.stringify(alias));
    const [, suggestion = ''] = /"([^"]*)" would do$/.exec(checked.error) ?? [];
    expect(checkAlias(suggestion)).toEqual({ ok: true, value: suggestion });
  });

  test('that is refused is always answered with one that may be', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 60 }), (alias) => {
        const checked = checkAlias(alias);
        if (checked.ok) return;
        const [, suggestion = ''] = /"([^"]*)" would do$/.exec(checked.error) ?? [];
        expect(checkAlias(suggestion).ok).toBe(true);
      }),
      { numRuns: 2_000 },
    );
  });
});
