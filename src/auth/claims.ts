import { type Actor, createActor } from '../access/actor.ts';
import { fail, ok, type Result } from '../core/result.ts';
import type { Rights } from './scopes.ts';
import type { IssuerSettings } from './settings.ts';

/** What a verified token says: who calls, and what expiry and deny lists need to know about it. */
export interface TokenFacts {
  readonly actor: Actor;
  readonly jti: string | undefined;
  readonly issuedAtS: number;
  readonly expiresAtS: number;
  readonly ignoredGrants: number;
}

/** The words of the issuer by which a token is judged. */
export interface ClaimRules {
  readonly issuer: IssuerSettings;
  readonly clockToleranceS: number;
  readonly readScopes: (claims: Claims) => Result<Rights, string>;
}

type Claims = Readonly<Record<string, unknown>>;

/** Judges the claims of a token whose signature is verified; the reason of a refusal is for the log alone. */
export function readClaims(
  claims: Claims,
  typ: string | undefined,
  rules: ClaimRules,
  nowS: number,
): Result<TokenFacts, string> {
  const { issuer } = rules;
  const { iss, sub, jti } = claims;
  if (iss !== issuer.issuer) return fail('`iss` is another issuer');
  if (!audiences(claims.aud).includes(issuer.audience)) return fail('`aud` does not name this service');
  if (!isText(sub)) return fail('`sub` is missing or not a string');
  if (jti !== undefined && !isText(jti)) return fail('`jti` is not a string');

  const times = readTimes(claims, rules, nowS);
  if (!times.ok) return times;
  const client = readClient(claims);
  if (!client.ok) return client;
  const objection =
    issuer.profile === 'rfc9068' ? againstAccessToken(claims, typ) : againstLegacyToken(claims, typ);
  if (objection !== undefined) return fail(objection);

  // AUTH-17: a token bound to a key is worth nothing to who only holds the token.
  if (Object.hasOwn(claims, 'cnf'))
    return fail('it is bound to a key (`cnf`), which is not checked here yet');
  // AUTH-16: until delegation is enforced, acting for somebody must not pass for being somebody.
  if (Object.hasOwn(claims, 'act')) return fail('it is delegated (`act`), which is not supported yet');

  const rights = rules.readScopes(claims);
  if (!rights.ok) return rights;
  const actor = createActor({
    issuer: issuer.issuer,
    // AUTH-15: a user whose `sub` equals some client's id still has another client, so another identity.
    kind: sub === client.value ? 'client' : 'user',
    subject: sub,
    client: client.value,
    grants: rights.value.grants,
    adminScopes: rights.value.adminScopes,
  });
  return ok({ actor, jti, ...times.value, ignoredGrants: rights.value.ignored });
}

/** AUTH-5. */
function readTimes(
  claims: Claims,
  { issuer, clockToleranceS }: ClaimRules,
  nowS: number,
): Result<{ issuedAtS: number; expiresAtS: number }, string> {
  const { exp, iat, nbf } = claims;
  if (!isSecond(exp)) return fail('`exp` is missing or not a whole second');
  if (!isSecond(iat)) return fail('`iat` is missing or not a whole second');
  if (nbf !== undefined && !isSecond(nbf)) return fail('`nbf` is not a whole second');
  if (exp <= nowS - clockToleranceS) return fail('it has expired (`exp`)');
  if (iat > nowS + clockToleranceS) return fail('it was issued in the future (`iat`)');
  if (nbf !== undefined && nbf > nowS + clockToleranceS) return fail('it is not valid yet (`nbf`)');
  if (exp <= iat) return fail('`exp` is not after `iat`');
  if (exp - iat > issuer.lifetimeMaxS) return fail(`it lives longer than ${issuer.lifetimeMaxS} seconds`);
  return ok({ issuedAtS: iat, expiresAtS: exp });
}

/** AUTH-15: `client_id`, else `azp`. */
function readClient(claims: Claims): Result<string | undefined, string> {
  const client = claims.client_id ?? claims.azp;
  return client === undefined || isText(client) ? ok(client) : fail('`client_id` or `azp` is not a string');
}

/** RFC 9068 2 and 4: what makes a token something else than an access token. */
function againstAccessToken(claims: Claims, typ: string | undefined): string | undefined {
  if (!/^(application\/)?at\+jwt$/i.test(typ ?? ''))
    return '`typ` is not at+jwt, as the profile rfc9068 asks';
  if (!isText(claims.client_id)) return '`client_id` is missing, which the profile rfc9068 asks for';
  if (!isText(claims.jti)) return '`jti` is missing, which the profile rfc9068 asks for';
  return undefined;
}

/** AUTH-6: without a type of its own an access token has to be told from ID tokens and logout tokens by its claims. */
function againstLegacyToken(claims: Claims, typ: string | undefined): string | undefined {
  if (typ !== undefined && typ.toUpperCase() !== 'JWT') return '`typ` is not JWT, as the profile legacy asks';
  if (Object.hasOwn(claims, 'events')) return 'it is a logout token or an event (`events`)';
  const isForClient = audiences(claims.aud).every((audience) => audience === claims.azp);
  if (Object.hasOwn(claims, 'nonce') || Object.hasOwn(claims, 'at_hash') || isForClient)
    return 'it is an ID token';
  return undefined;
}

function audiences(aud: unknown): readonly string[] {
  if (typeof aud === 'string') return [aud];
  return Array.isArray(aud) && aud.every((one): one is string => typeof one === 'string') ? aud : [];
}

const isText = (value: unknown): value is string => typeof value === 'string' && value !== '';

const isSecond = (value: unknown): value is number => Number.isSafeInteger(value) && Number(value) >= 0;
