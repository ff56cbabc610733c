import { hash } from 'node:crypto';
import { compactVerify } from 'jose';
import { LRUCache } from 'lru-cache';
import type { Actor } from '../access/actor.ts';
import type { EventLog } from '../core/events.ts';
import { fail, ok, type Result } from '../core/result.ts';
import { type ClaimRules, readClaims } from './claims.ts';
import { createDenyList } from './deny-list.ts';
import { KeySet, type KeySetStatus, type Schedule } from './key-set.ts';
import { createScopeReader } from './scopes.ts';
import type { AuthSettings, DenyLists } from './settings.ts';
import { decodeObject, parseToken, tokenCharsMax } from './token.ts';
import type { VerificationKey } from './verification-keys.ts';

/** Why a request has no actor. */
export type AuthError =
  | { readonly code: 'unauthenticated' }
  /** The reason is for the log, not for the caller; it repeats nothing of the token. */
  | { readonly code: 'invalid_token'; readonly reason: string }
  | { readonly code: 'keys_unavailable'; readonly retryAfterS: number };

export type AuthResult = Result<Actor, AuthError>;

/** Turns `Authorization` headers into actors. */
export interface Authenticator {
  /** At once for a token that was verified before. @throws never */
  authenticate(authorizationHeader: string | undefined): AuthResult | Promise<AuthResult>;
  /** Whether tokens of at least one issuer can be verified at present. */
  isUsable(): boolean;
  status(): readonly KeySetStatus[];
  /** Reads the keys of every issuer anew (AUTH-14). */
  reload(): Promise<void>;
  /** Replaces the deny lists; from then on no token they name is accepted. */
  deny(lists: DenyLists): void;
  close(): void;
}

/** What authentication needs from outside. */
export interface AuthPorts {
  readonly log: EventLog;
  /** Wall clock, for the times in tokens. */
  readonly nowMs: () => number;
  /** For the age of keys, which a jump of the wall clock does not change. */
  readonly monotonicMs?: () => number;
  readonly schedule?: Schedule;
}

interface TrustedIssuer {
  readonly rules: ClaimRules;
  readonly keySet: KeySet;
}

interface VerifiedToken {
  readonly result: AuthResult;
  readonly keySet: KeySet;
  readonly generation: number;
  readonly expiresAtMs: number;
}

const verifiedTokensMax = 10_000;
const verifiedTokensCharsMax = 33_554_432;

const unauthenticated: AuthResult = fail({ code: 'unauthenticated' });

const refused = (reason: string): AuthResult => fail({ code: 'invalid_token', reason });

/** Makes the authenticator for these issuers; it begins to read their keys at once. */
export function createAuthenticator(settings: AuthSettings, ports: AuthPorts): Authenticator {
  const { log, nowMs, monotonicMs = () => performance.now(), schedule = scheduleUnheld } = ports;
  const issuers = new Map<unknown, TrustedIssuer>();
  for (const issuer of settings.issuers) {
    if (issuers.has(issuer.issuer)) throw new Error(`The issuer ${issuer.issuer} is configured twice.`);
    const rules = {
      issuer,
      clockToleranceS: settings.clockToleranceS,
      readScopes: createScopeReader(issuer, settings),
    };
    issuers.set(issuer.issuer, { rules, keySet: new KeySet(issuer, { log, monotonicMs, schedule }) });
  }
  const keySets = [...issuers.values()].map(({ keySet }) => keySet);
  let reasonToDeny = createDenyList(settings.deny);
  // AUTH-23: by the hash of the whole text, so that no token lies in memory and none passes for another.
  const verified = new LRUCache<string, VerifiedToken>({
    max: verifiedTokensMax,
    maxSize: verifiedTokensCharsMax,
    sizeCalculation: ({ result }) => 512 + (result.ok ? result.value.grantsKey.length : 0),
  });

  async function verify(text: string, cacheKey: string): Promise<AuthResult> {
    const token = parseToken(text);
    if (!token.ok) return refused(token.error);
    const claims = decodeObject(token.value.payload);
    if (claims === undefined) return refused('its payload is not a JSON object');
    // AUTH-3: the unverified `iss` only chooses whose keys and rules apply.
    const issuer = issuers.get(claims.iss);
    if (issuer === undefined) return refused('`iss` is not a configured issuer');
    const { rules, keySet } = issuer;

    const { algorithm, kid, typ } = token.value;
    if (!rules.issuer.algorithms.includes(algorithm))
      return refused('its `alg` is not one of the configured `algorithms`');
    const lookup = await keySet.find(kid, algorithm);
    if (lookup.kind === 'unavailable')
      return fail({ code: 'keys_unavailable', retryAfterS: lookup.retryAfterS });
    if (lookup.kind === 'unknown') return refused('the issuer has no key for its `kid` and `alg`');
    if (!(await hasValidSignature(text, lookup.key))) return refused('its signature is wrong');

    const facts = readClaims(claims, typ, rules, Math.floor(nowMs() / 1000));
    if (!facts.ok) return refused(facts.error);
    const { actor, jti, issuedAtS, expiresAtS, ignoredGrants } = facts.value;
    const denial = reasonToDeny({
      issuer: actor.issuer,
      subject: actor.subject,
      jti,
      kid: lookup.key.kid,
      issuedAtS,
    });
    if (denial !== undefined) return refused(denial);

    if (ignoredGrants > 0)
      log.warn('token.grants_ignored', { issuer: actor.issuer, subject: actor.subject, ignoredGrants });
    const result = ok(actor);
    const expiresAtMs = (expiresAtS + settings.clockToleranceS) * 1000;
    verified.set(cacheKey, { result, keySet, generation: lookup.generation, expiresAtMs });
    return result;
  }

  return {
    authenticate(authorizationHeader) {
      if (authorizationHeader === undefined || !hasBearerScheme(authorizationHeader)) return unauthenticated;
      const text = authorizationHeader.slice('Bearer '.length).trimStart();
      if (text.length > tokenCharsMax) return refused('it is too long');
      const cacheKey = hash('sha256', text, 'base64');
      const known = verified.get(cacheKey);
      if (known !== undefined && isStillGood(known, nowMs())) return known.result;
      verified.delete(cacheKey);
      // AUTH-8: whatever a token makes a library do, the answer is that the token was not accepted.
      return verify(text, cacheKey).catch((error: unknown) =>
        refused(`verification threw ${error instanceof Error ? error.name : 'a value'}`),
      );
    },
    isUsable: () => keySets.some((keySet) => keySet.isUsable()),
    status: () => keySets.map((keySet) => keySet.status()),
    async reload() {
      await Promise.all(keySets.map((keySet) => keySet.reload()));
    },
    deny(lists) {
      reasonToDeny = createDenyList(lists);
      verified.clear();
    },
    close() {
      for (const keySet of keySets) keySet.close();
    },
  };
}

/** Whether this key made the signature (AUTH-2: with its own algorithm and no other). @throws never */
export async function hasValidSignature(text: string, { key, algorithm }: VerificationKey): Promise<boolean> {
  try {
    await compactVerify(text, key, { algorithms: [algorithm] });
    return true;
  } catch {
    return false;
  }
}

const hasBearerScheme = (header: string): boolean => /^bearer( |$)/i.test(header);

const isStillGood = ({ keySet, generation, expiresAtMs }: VerifiedToken, nowMs: number): boolean =>
  nowMs < expiresAtMs && generation === keySet.generation && keySet.isUsable();

/** A timer that does not keep the process alive. */
const scheduleUnheld: Schedule = (run, delayMs) => {
  const timer = setTimeout(run, delayMs).unref();
  return () => clearTimeout(timer);
};
