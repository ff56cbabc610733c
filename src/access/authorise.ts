import type { Actor } from './actor.ts';
import { covers, type GrantTarget, smallestGrant } from './grants.ts';

/** Whether an actor may see and call a tool; if not, the smallest grant that is missing. */
export type Authorisation =
  | { readonly allowed: true }
  | { readonly allowed: false; readonly missing: string };

const allowed: Authorisation = { allowed: true };

/** Decides about one tool, for the list and for the call alike, so that the two cannot differ (AZ-1, AZ-2). */
export const authorise = (actor: Actor, target: GrantTarget): Authorisation =>
  actor.grants.some((grant) => covers(grant, target))
    ? allowed
    : { allowed: false, missing: smallestGrant(target) };

/** Whether any grant of the actor may reach a tool of this server. */
export const hasGrantOn = (actor: Actor, alias: string): boolean =>
  actor.grants.some((grant) => grant.alias === '*' || grant.alias === alias);
