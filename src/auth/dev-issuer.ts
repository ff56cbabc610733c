import {
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  type JsonWebKeyInput,
  type KeyObject,
  randomUUID,
} from 'node:crypto';
import { link, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { calculateJwkThumbprint, SignJWT } from 'jose';
import type { IssuerSettings } from './settings.ts';

/** What a token of the dev issuer says. */
export interface DevToken {
  readonly subject: string;
  readonly client: string;
  readonly scopes: readonly string[];
  readonly ttlS: number;
}

/** An issuer of this machine's own, for trying callgate without an identity provider. */
export interface DevIssuer {
  readonly settings: IssuerSettings;
  mint(token: DevToken): Promise<string>;
}

const identifier = 'urn:callgate:dev';
const algorithm = 'ES256';
const lifetimeMaxS = 86_400;

/**
 * Opens the dev issuer whose key lies in this folder, making both where they are missing.
 * @throws when the key file is there and is not a key; the message says what to do
 */
export async function openDevIssuer({ folder }: { readonly folder: string }): Promise<DevIssuer> {
  const key = await openKey(folder);
  const publicJwk = createPublicKey(key).export({ format: 'jwk' });
  const kid = await calculateJwkThumbprint(publicJwk);
  return {
    settings: {
      issuer: identifier,
      audience: identifier,
      keys: { kind: 'inline', keys: [{ ...publicJwk, kid, alg: algorithm, use: 'sig' }] },
      algorithms: [algorithm],
      profile: 'rfc9068',
      scopeClaims: ['scope'],
      scopeMap: {},
      grantsMax: ['tools:*:*', 'callgate:operate', 'callgate:approve'],
      lifetimeMaxS,
    },
    async mint({ subject, client, scopes, ttlS }) {
      if (ttlS > lifetimeMaxS) throw new RangeError(`A dev token lives at most ${lifetimeMaxS} seconds.`);
      const issuedAtS = Math.floor(Date.now() / 1000);
      return new SignJWT({ client_id: client, scope: scopes.join(' ') })
        .setProtectedHeader({ alg: algorithm, typ: 'at+jwt', kid })
        .setIssuer(identifier)
        .setAudience(identifier)
        .setSubject(subject)
        .setJti(randomUUID())
        .setIssuedAt(issuedAtS)
        .setExpirationTime(issuedAtS + ttlS)
        .sign(key);
    },
  };
}

async function openKey(folder: string): Promise<KeyObject> {
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const path = join(folder, 'dev-key.json');
  const text = await readIfThere(path);
  if (text !== undefined) return parseKey(text, path);
  await makeKeyFile(path);
  // Read back rather than kept: another process may have been first, and then its key is the one that counts.
  return parseKey(await readFile(path, 'utf8'), path);
}

/** Writes a new key aside and links it into place: the file is whole or absent, and never replaced. */
async function makeKeyFile(path: string): Promise<void> {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const draft = `${path}.${randomUUID()}`;
  try {
    await writeFile(draft, `${JSON.stringify(privateKey.export({ format: 'jwk' }))}\n`, {
      mode: 0o600,
      flag: 'wx',
    });
    await link(draft, path).catch((error: unknown) => {
      if (!hasCode(error, 'EEXIST')) throw error;
    });
  } finally {
    await rm(draft, { force: true });
  }
}

function parseKey(text: string, path: string): KeyObject {
  try {
    const key = createPrivateKey({ key: JSON.parse(text) as JsonWebKeyInput['key'], format: 'jwk' });
    if (key.asymmetricKeyDetails?.namedCurve === 'prime256v1') return key;
  } catch {
    // The parsers' own messages may repeat parts of the key.
  }
  throw new Error(
    `The dev key file ${path} does not hold a private P-256 key. Delete it and start again: callgate makes a new one, and tokens of the old one stop working.`,
  );
}

async function readIfThere(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return undefined;
    throw error;
  }
}

const hasCode = (error: unknown, code: string): boolean =>
  error instanceof Error && 'code' in error && error.code === code;
