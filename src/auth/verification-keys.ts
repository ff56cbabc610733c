import { createPublicKey, type JsonWebKeyInput, type KeyObject } from 'node:crypto';
import { isObject } from '../core/json.ts';
import { fail, ok, type Result } from '../core/result.ts';

/** One public key that tokens may be verified with, and the one algorithm it is used with (AUTH-2). */
export interface VerificationKey {
  readonly kid: string | undefined;
  readonly algorithm: string;
  readonly key: KeyObject;
  /** Equal for equal keys of equal use. */
  readonly identity: string;
}

/** The usable keys of a set, and why others were left out, in words for the operator. */
export interface VerificationKeys {
  readonly keys: readonly VerificationKey[];
  readonly dropped: readonly string[];
}

const keysMax = 100;

/** The kinds of keys that fit each algorithm, by `kty` and `crv`. */
const keyKinds: Readonly<Record<string, string>> = {
  RS256: 'RSA',
  RS384: 'RSA',
  RS512: 'RSA',
  PS256: 'RSA',
  PS384: 'RSA',
  PS512: 'RSA',
  ES256: 'EC P-256',
  ES384: 'EC P-384',
  ES512: 'EC P-521',
  EdDSA: 'OKP Ed25519',
  Ed25519: 'OKP Ed25519',
};

/** The algorithms that an issuer may be configured with; each is asymmetric (AUTH-2). */
export const signatureAlgorithms: readonly string[] = Object.keys(keyKinds);

/** Members of a JWK that only a private or a symmetric key has (RFC 7518 6). */
const privateMembers = ['d', 'p', 'q', 'dp', 'dq', 'qi', 'oth', 'k', 'priv'];

/** Reads a JWK set and keeps the keys that are safe to use (AUTH-9); a set without any is no set (AUTH-12). */
export function readVerificationKeys(
  jwks: unknown,
  algorithms: readonly string[],
): Result<VerificationKeys, string> {
  if (!isObject(jwks) || !Array.isArray(jwks.keys))
    return fail('it is not a JWK set: there is no list `keys`');
  if (jwks.keys.length > keysMax)
    return fail(`it has ${jwks.keys.length} keys, more than the ${keysMax} that are read`);
  const dropped: string[] = [];
  const keys = new Map<string, VerificationKey>();
  for (const [index, jwk] of jwks.keys.entries()) {
    const key = readKey(jwk, algorithms);
    if (key.ok) keys.set(key.value.identity, key.value);
    else dropped.push(`key ${index}: ${key.error}`);
  }
  const usable = [...keys.values()].filter((key) => {
    const isAmbiguous =
      key.kid !== undefined && [...keys.values()].some((other) => other !== key && other.kid === key.kid);
    if (isAmbiguous) dropped.push('several different keys have the same `kid`: none of them is used');
    return !isAmbiguous;
  });
  if (usable.length === 0) return fail(['it has no usable key', ...dropped.slice(0, 5)].join('; '));
  return ok({ keys: usable, dropped });
}

function readKey(jwk: unknown, algorithms: readonly string[]): Result<VerificationKey, string> {
  if (!isObject(jwk)) return fail('not an object');
  const { kid, kty, crv, use, alg, key_ops: operations } = jwk;
  if (kty === 'oct') return fail('a symmetric key');
  if (privateMembers.some((member) => Object.hasOwn(jwk, member)))
    return fail('a private key, which must not be published');
  if (kid !== undefined && typeof kid !== 'string') return fail('`kid` is not a string');
  if (use !== undefined && use !== 'sig') return fail('not for signatures (`use`)');
  if (operations !== undefined && !(Array.isArray(operations) && operations.includes('verify'))) {
    return fail('not for verification (`key_ops`)');
  }

  const kind = kty === 'RSA' ? 'RSA' : `${String(kty)} ${String(crv)}`;
  const fitting = algorithms.filter((name) => keyKinds[name] === kind && (alg === undefined || alg === name));
  const [algorithm] = fitting;
  if (algorithm === undefined) return fail('none of the configured `algorithms` fits it');
  if (fitting.length > 1) {
    return fail(
      `it names no \`alg\`, and ${fitting.join(' and ')} fit: leave only one of them in \`algorithms\``,
    );
  }

  try {
    const key = createPublicKey({ key: jwk as JsonWebKeyInput['key'], format: 'jwk' });
    const { modulusLength = 0, publicExponent = 0n } = key.asymmetricKeyDetails ?? {};
    if (kind === 'RSA' && modulusLength < 2048) return fail('an RSA key of less than 2048 bits');
    if (kind === 'RSA' && publicExponent < 65_537n) return fail('an RSA key with an exponent below 65537');
    const identity = JSON.stringify([
      kid,
      algorithm,
      key.export({ type: 'spki', format: 'der' }).toString('base64'),
    ]);
    return ok({ kid, algorithm, key, identity });
  } catch {
    return fail('its numbers are not a public key');
  }
}
