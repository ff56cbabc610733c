import { generateKeyPairSync } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { readVerificationKeys } from '../../../src/auth/verification-keys.ts';

const pair = generateKeyPairSync('ec', { namedCurve: 'P-256' });
const ec = { ...pair.publicKey.export({ format: 'jwk' }), kid: 'ec', alg: 'ES256', use: 'sig' };
const otherEc = {
  ...generateKeyPairSync('ec', { namedCurve: 'P-256' }).publicKey.export({ format: 'jwk' }),
  kid: 'other',
  alg: 'ES256',
};
const rsa = {
  ...generateKeyPairSync('rsa', { modulusLength: 2048 }).publicKey.export({ format: 'jwk' }),
  kid: 'rsa',
};
const smallRsa = {
  ...generateKeyPairSync('rsa', { modulusLength: 1024 }).publicKey.export({ format: 'jwk' }),
  kid: 'small',
};

const algorithms = ['ES256', 'RS256', 'PS256', 'EdDSA'];

function dropped(...keys: readonly unknown[]): readonly string[] {
  const read = readVerificationKeys({ keys: [otherEc, ...keys] }, algorithms);
  return read.ok ? read.value.dropped : [read.error];
}

const kids = (keys: readonly unknown[], names: readonly string[] = algorithms): unknown => {
  const read = readVerificationKeys({ keys }, names);
  return read.ok ? read.value.keys.map(({ kid, algorithm }) => [kid, algorithm]) : read.error;
};

describe('the hygiene of a key set (AUTH-9)', () => {
  test.each<[string, unknown, RegExp]>([
    [
      'a private key',
      { ...pair.privateKey.export({ format: 'jwk' }), kid: 'p', alg: 'ES256' },
      /private key/,
    ],
    ['a symmetric key', { kty: 'oct', k: 'AAAA', alg: 'HS256', kid: 'h' }, /symmetric/],
    ['a key for encryption', { ...ec, use: 'enc' }, /`use`/],
    ['a key for other operations', { ...ec, key_ops: ['sign'] }, /`key_ops`/],
    ['a small RSA key', { ...smallRsa, alg: 'RS256' }, /2048/],
    ['an RSA key with exponent 1', { ...rsa, e: 'AQ', alg: 'RS256' }, /exponent|numbers/],
    ['an RSA key with exponent 3', { ...rsa, e: 'Aw', alg: 'RS256' }, /exponent/],
    ['an algorithm that is not configured', { ...rsa, alg: 'RS512' }, /algorithms/],
    ['an algorithm of another key type', { ...ec, alg: 'RS256' }, /algorithms/],
    ['a point off the curve', { ...ec, y: ec.x }, /numbers/],
    ['a kid that is not text', { ...ec, kid: 1 }, /`kid`/],
    ['something else', 'ec', /not an object/],
    ['nothing', null, /not an object/],
  ])('%s is dropped, and the others stay', (_name, jwk, reason) => {
    expect(dropped(jwk)).toEqual([expect.stringMatching(reason)]);
    expect(kids([otherEc, jwk])).toEqual([['other', 'ES256']]);
  });

  test('different keys with one kid are all dropped, a key listed twice is one', () => {
    expect(kids([ec, { ...otherEc, kid: 'ec' }, rsa], ['ES256', 'RS256'])).toEqual([['rsa', 'RS256']]);
    expect(kids([ec, ec])).toEqual([['ec', 'ES256']]);
  });

  test('a key without alg is used with the one configured algorithm that fits it, never with two', () => {
    expect(kids([rsa], ['RS256', 'ES256'])).toEqual([['rsa', 'RS256']]);
    expect(kids([rsa])).toMatch(/RS256 and PS256 fit: leave only one/);
  });

  test.each([null, [], {}, { keys: {} }, { keys: [] }, 'keys', 5])('%j is no key set', (jwks) => {
    expect(readVerificationKeys(jwks, algorithms).ok).toBe(false);
  });

  test('members of the object prototype are not algorithms', () => {
    expect(kids([{ ...ec, alg: 'constructor' }], ['constructor', 'toString'])).toMatch(/no usable key/);
  });
});
