import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  covers,
  formatGrant,
  type Grant,
  grantSegment,
  parseGrant,
  smallestGrant,
  withinMax,
} from '../../../src/access/grants.ts';

const own = { globalWildcards: false };
const all = { globalWildcards: true };

describe('reading a grant', () => {
  test.each<[string, Grant]>([
    ['tools:docs:search', { alias: 'docs', tool: 'search' }],
    ['tools:docs:*', { alias: 'docs', tool: '*' }],
    ['tools:docs:*:read', { alias: 'docs', tool: '*', class: 'read' }],
    ['tools:crm-eu:get_*:write', { alias: 'crm-eu', tool: 'get_*', class: 'write' }],
    ['tools:docs:a.b-c_d', { alias: 'docs', tool: 'a.b-c_d' }],
    ['tools:constructor:__proto__', { alias: 'constructor', tool: '__proto__' }],
    [`tools:docs:${'a'.repeat(128)}`, { alias: 'docs', tool: 'a'.repeat(128) }],
  ])('%s is a grant', (text, grant) => {
    expect(parseGrant(text, own)).toEqual(grant);
    expect(formatGrant(grant)).toBe(text);
  });

  test.each([
    '',
    'tools',
    'tools:docs',
    'tools:docs:',
    'tools::search',
    'tools:*',
    'TOOLS:docs:search',
    'xtools:docs:search',
    'tools:docs:search:READ',
    'tools:docs:search:',
    'tools:docs:search:admin',
    'tools:docs:search:read:',
    'tools:docs:*search',
    'tools:docs:se*rch',
    'tools:docs:search**',
    'tools:do*:search',
    'tools:docs:(.*)',
    'tools:docs:search ',
    ' tools:docs:search',
    'tools:docs:search\n',
    'tools:dócs:search',
    `tools:docs:${'a'.repeat(129)}`,
    `tools:${'a'.repeat(250)}:x`,
    'docs:read',
  ])('%j is none', (text) => {
    expect(parseGrant(text, all)).toBeUndefined();
  });

  test.each(['tools:*:*', 'tools:*:*:read', 'tools:*:search'])(
    '%s counts only with global wildcards',
    (text) => {
      expect(parseGrant(text, own)).toBeUndefined();
      expect(parseGrant(text, all)).toBeDefined();
    },
  );

  test('the reader agrees with a second one that walks the segments', () => {
    const isSecond = (text: string): boolean => {
      const [head, alias, tool, toolClass, ...rest] = text.split(':');
      const isWord = (word: string, extra: string): boolean =>
        word !== '' &&
        [...word].every(
          (c) =>
            (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || extra.includes(c),
        );
      if (
        text.length > 256 ||
        head !== 'tools' ||
        alias === undefined ||
        tool === undefined ||
        rest.length > 0
      )
        return false;
      if (toolClass !== undefined && toolClass !== 'read' && toolClass !== 'write') return false;
      if (alias !== '*' && !isWord(alias, '_-')) return false;
      const name = tool.endsWith('*') ? tool.slice(0, -1) : tool;
      return tool === '*' || (name.length <= 128 && isWord(name, '_-.'));
    };
    const near = fc.array(
      fc.constantFrom('tools', ':', ':', '*', 'read', 'write', 'a', 'B9', '_', '-', '.', ' ', '\n', 'é'),
      { maxLength: 9 },
    );
    fc.assert(
      fc.property(
        fc.oneof(
          near.map((parts) => parts.join('')),
          near.map((parts) => `tools:${parts.join('')}`),
        ),
        (text) => {
          expect(parseGrant(text, all) !== undefined).toBe(isSecond(text));
        },
      ),
      { numRuns: 3000 },
    );
  });
});

describe('what a grant covers', () => {
  const search = { alias: 'docs', tool: 'search', class: 'read' } as const;
  test.each([
    ['tools:docs:search', true],
    ['tools:docs:search:read', true],
    ['tools:docs:search:write', false],
    ['tools:docs:se*', true],
    ['tools:docs:search*', true],
    ['tools:docs:searching', false],
    ['tools:docs:sear', false],
    ['tools:docs:Search', false],
    ['tools:Docs:search', false],
    ['tools:doc:search', false],
    ['tools:docs:*:read', true],
    ['tools:*:search', true],
    ['tools:*:*:write', false],
  ])('%s covers the read tool docs/search: %s', (text, isCovered) => {
    const grant = parseGrant(text, all);
    expect(grant && covers(grant, search)).toBe(isCovered);
  });

  test('the smallest grant names the tool and its class', () => {
    expect(smallestGrant(search)).toBe('tools:docs:search:read');
  });

  test('grants name a tool by its raw name, or by its declared one where the raw name does not fit', () => {
    expect(grantSegment('get.user', 'crm__get_user_0a1b2c3d', 'crm')).toBe('get.user');
    expect(grantSegment('get user', 'crm__get_user_0a1b2c3d', 'crm')).toBe('get_user_0a1b2c3d');
    expect(grantSegment('x:*', 'crm__x_0a1b2c3d', 'crm')).toBe('x_0a1b2c3d');
  });
});

describe('what remains of a grant inside a cap', () => {
  test.each([
    ['tools:docs:*', ['tools:docs:*:read'], ['tools:docs:*:read']],
    ['tools:*:*:read', ['tools:docs:get_*'], ['tools:docs:get_*:read']],
    ['tools:docs:get', ['tools:docs:get*'], ['tools:docs:get']],
    ['tools:docs:get*', ['tools:docs:get'], ['tools:docs:get']],
    ['tools:docs:*', ['tools:*:*'], ['tools:docs:*']],
    ['tools:docs:*:read', ['tools:docs:*:write'], []],
    ['tools:docs:a*', ['tools:docs:b*'], []],
    ['tools:docs:*', ['tools:crm:*'], []],
    ['tools:docs:*', [], []],
  ])('%s within %j is %j', (grant, max, expected) => {
    expect(withinMax(parsed(grant), max.map(parsed)).map(formatGrant)).toEqual(expected);
  });

  test('it covers exactly what both the grant and the cap cover', () => {
    const alias = fc.constantFrom('a', 'b');
    const name = fc.string({ unit: fc.constantFrom('x', 'y'), minLength: 1, maxLength: 3 });
    const toolClass = fc.constantFrom('read' as const, 'write' as const);
    const grant: fc.Arbitrary<Grant> = fc
      .tuple(
        fc.oneof(alias, fc.constant('*')),
        fc.oneof(
          name,
          name.map((prefix) => `${prefix}*`),
          fc.constant('*'),
        ),
        fc.option(toolClass),
      )
      .map(([a, tool, c]) => (c === null ? { alias: a, tool } : { alias: a, tool, class: c }));
    const target = fc.record({ alias, tool: name, class: toolClass });
    fc.assert(
      fc.property(grant, fc.array(grant, { maxLength: 3 }), target, (one, max, tool) => {
        const isCovered = covers(one, tool) && max.some((cap) => covers(cap, tool));
        expect(withinMax(one, max).some((part) => covers(part, tool))).toBe(isCovered);
      }),
      { numRuns: 5000 },
    );
  });
});

function parsed(text: string): Grant {
  const grant = parseGrant(text, all);
  if (grant === undefined) throw new Error(`${text} is not a grant`);
  return grant;
}
