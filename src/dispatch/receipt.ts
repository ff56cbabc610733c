import { hash } from 'node:crypto';
import type { Actor } from '../access/actor.ts';
import { type FunctionCall, lookupName } from '../core/call.ts';
import { canonicalJson } from '../core/json.ts';
import { onceFor } from '../core/once-for.ts';
import type { Result } from '../core/result.ts';
import { type ArgumentFault, type ReadArguments, readArguments } from '../tools/arguments.ts';
import type { Caller } from './ports.ts';

/** A call as it came in, with what the ledger knows calls by. */
export interface Receipt {
  readonly call: FunctionCall;
  /** The whole declared name. */
  readonly name: string;
  readonly arguments: Result<ReadArguments, ArgumentFault>;
  /** SHA-256 of the parsed arguments, or of what was sent where they could not be read; hex (AZ-8). */
  readonly argumentsHash: string;
  readonly actor: string;
  /** SHA-256 over actor, run, turn and `call_id`, base64url. */
  readonly key: string;
  /** SHA-256 over the declared name and the arguments before any mending, base64url. */
  readonly fingerprint: string;
}

/** Reads what identifies a call (RL-2). Neither the tool nor the right to it is looked at yet. */
export function receive(call: FunctionCall, caller: Caller): Receipt {
  const name = lookupName(call);
  const read = readArguments(call.arguments);
  const parsed = read.ok ? read.value.parsed : (call.arguments ?? null);
  const argumentsHash = hash('sha256', canonicalJson(parsed));
  const actor = actorText(caller.actor);
  return {
    call,
    name,
    arguments: read,
    argumentsHash,
    actor,
    key: digest([actor, caller.run ?? null, caller.turn ?? null, call.callId]),
    fingerprint: digest([name, argumentsHash]),
  };
}

// JSON keeps the parts apart and lone surrogates distinct, which no plain joining would.
const digest = (parts: readonly (string | null)[]): string =>
  hash('sha256', JSON.stringify(parts), 'base64url');

/** Who an actor is, in one text (AUTH-15). Whatever the token grants is no part of it. */
export const actorText = onceFor(({ issuer, kind, subject, client }: Actor): string =>
  JSON.stringify([issuer, kind, subject, client ?? null]),
);
