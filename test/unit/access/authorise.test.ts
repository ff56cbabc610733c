import { describe, expect, test } from 'vitest';
import { type Actor, createActor } from '../../../src/access/actor.ts';
import { authorise, hasGrantOn } from '../../../src/access/authorise.ts';
import { parseGrant } from '../../../src/access/grants.ts';

const actorWith = (...grants: readonly string[]): Actor =>
  createActor({
    issuer: 'i',
    kind: 'user',
    subject: 's',
    client: 'c',
    grants: grants.flatMap((text) => parseGrant(text, { globalWildcards: true }) ?? []),
    adminScopes: new Set(),
  });

const createTicket = { alias: 'tickets', tool: 'create_ticket', class: 'write' } as const;

describe('the decision about a tool', () => {
  test('without a grant everything is denied, and the smallest missing grant is named', () => {
    expect(authorise(actorWith(), createTicket)).toEqual({
      allowed: false,
      missing: 'tools:tickets:create_ticket:write',
    });
  });

  test('one fitting grant among others allows', () => {
    expect(authorise(actorWith('tools:docs:*', 'tools:tickets:create_*:write'), createTicket)).toEqual({
      allowed: true,
    });
  });

  test('grants for reading do not reach a tool that writes', () => {
    expect(authorise(actorWith('tools:tickets:*:read', 'tools:docs:*'), createTicket).allowed).toBe(false);
  });

  test('an actor has a grant on a server if any of its grants may reach it', () => {
    expect(hasGrantOn(actorWith('tools:docs:search'), 'docs')).toBe(true);
    expect(hasGrantOn(actorWith('tools:docs:search'), 'doc')).toBe(false);
    expect(hasGrantOn(actorWith('tools:*:*:read'), 'docs')).toBe(true);
  });
});

describe('the grants of an actor', () => {
  test('equal sets have one key, whatever their order and repetitions', () => {
    const one = actorWith('tools:b:x', 'tools:a:*:read', 'tools:b:x');
    const other = actorWith('tools:a:*:read', 'tools:b:x');
    expect(one.grantsKey).toBe('tools:a:*:read tools:b:x');
    expect(other.grantsKey).toBe(one.grantsKey);
    expect(one.grants).toHaveLength(2);
  });

  test('different sets have different keys', () => {
    expect(actorWith('tools:a:x').grantsKey).not.toBe(actorWith('tools:a:x:read').grantsKey);
    expect(actorWith().grantsKey).toBe('');
  });
});
