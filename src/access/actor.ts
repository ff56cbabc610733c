import { formatGrant, type Grant } from './grants.ts';

/** The authenticated caller (AUTH-15: the kind is part of the identity). */
export interface Actor {
  readonly issuer: string;
  readonly kind: 'user' | 'client';
  readonly subject: string;
  readonly client: string | undefined;
  readonly grants: readonly Grant[];
  /** One text for equal sets of grants, so that what depends on rights alone can be shared between actors. */
  readonly grantsKey: string;
  /** Admin scopes that the issuer may confer and the token carries (`callgate:operate`, ...). */
  readonly adminScopes: ReadonlySet<string>;
}

/** Makes an actor; its grants become a sorted set, so that their order in the token changes nothing. */
export function createActor(facts: Omit<Actor, 'grantsKey'>): Actor {
  const grants = new Map(facts.grants.map((grant) => [formatGrant(grant), grant]));
  const texts = [...grants.keys()].sort();
  return {
    ...facts,
    grants: texts.flatMap((text) => grants.get(text) ?? []),
    grantsKey: texts.join(' '),
  };
}
