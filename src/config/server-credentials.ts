import { createPrivateKey, type KeyObject } from 'node:crypto';
import { readFile, stat } from 'node:fs/promises';
import { resolve } from 'node:path';
import { isLoopbackHost } from '../core/hosts.ts';
import type { ClientAuthentication, CredentialSettings } from '../upstream/credential-settings.ts';
import { checkUrl } from './addresses.ts';
import type { CompleteOptions, CredentialsEntry, ServerEntry } from './file.ts';
import type { Report } from './report.ts';
import type { Problem } from './source.ts';

interface Context {
  /** Where the paths of the file start. */
  readonly folder: string;
  /** Where `auth` of the server stands. */
  readonly at: Pick<Problem, 'source' | 'path'>;
  readonly report: Report;
}

type Key = keyof CredentialsEntry;
type Complain = (key: Key, message: string) => void;

/** What `auth` of a server says, and what of it must not be shown. */
export interface ReadCredentials {
  /** Undefined where there is no `auth`, or where something is wrong with it, which is in the report then. */
  readonly settings: CredentialSettings | undefined;
  readonly secrets: readonly string[];
}

/** Turns `callgate.servers.*.auth` into settings, and reports what does not fit together. */
export async function readCredentials(
  server: ServerEntry,
  options: CompleteOptions,
  context: Context,
): Promise<ReadCredentials> {
  const { auth } = options;
  if (auth === undefined) return { settings: undefined, secrets: [] };
  const complain: Complain = (key, message) =>
    context.report.problem({ ...context.at, path: [...context.at.path, key], message });
  checkFit(auth, server, options, complain);
  checkEndpoint(auth, 'issuer', complain);
  checkEndpoint(auth, 'tokenUrl', complain);
  if (auth.resource !== undefined && (!URL.canParse(auth.resource) || auth.resource.includes('#')))
    complain('resource', '"resource" must be an absolute URI without a fragment (RFC 8707)');
  const { authentication, secrets } = await readAuthentication(auth, context, complain);
  if (authentication === undefined) return { settings: undefined, secrets };
  const { type: kind, issuer, tokenUrl, clientId, scope, audience, resource } = auth;
  return {
    settings: { kind, issuer, tokenUrl, clientId, authentication, scope, audience, resource },
    secrets,
  };
}

function checkFit(
  auth: CredentialsEntry,
  server: ServerEntry,
  { connection }: CompleteOptions,
  complain: Complain,
): void {
  if (server.url === undefined) {
    complain('type', 'tokens are for servers with a "url"; give a program what it needs under "env"');
    return;
  }
  const isAuthorized =
    Object.keys(server.headers ?? {}).some((name) => name.toLowerCase() === 'authorization') ||
    (URL.canParse(server.url) && new URL(server.url).username !== '');
  if (isAuthorized) {
    complain(
      'type',
      'the server has both "auth" and an Authorization header (or credentials in its "url"): keep one of the two',
    );
  }
  const isNamed = auth.issuer !== undefined || auth.tokenUrl !== undefined;
  if (!isNamed && isPlainHttp(server.url)) {
    complain(
      'type',
      'over plain http anybody on the way could say where tokens come from, and get the credentials: name the authorization server with "tokenUrl" or "issuer"',
    );
  }
  if (auth.type !== 'token_exchange') return;
  if (connection === 'shared') {
    complain(
      'type',
      '"token_exchange" gives each caller a token of its own, which must not travel on a connection of everybody: set "connection" to "actor" or "run"',
    );
  }
  if (!isNamed) {
    complain(
      'type',
      '"token_exchange" needs "tokenUrl" or "issuer": the tokens of callers are sent there, so no server may say where it is',
    );
  }
}

function isPlainHttp(text: string): boolean {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  return url?.protocol === 'http:' && !isLoopbackHost(url.hostname);
}

/** Secrets and the tokens of callers are sent to these. */
function checkEndpoint(auth: CredentialsEntry, key: 'issuer' | 'tokenUrl', complain: Complain): void {
  const text = auth[key];
  if (text === undefined) return;
  const checked = checkUrl(text);
  if (!checked.ok) {
    complain(key, `"${key}" ${checked.error}`);
    return;
  }
  const { username, password, search, hash } = checked.value;
  if (username !== '' || password !== '')
    complain(key, `"${key}" has a user part: give the credentials as "clientId" and "clientSecret"`);
  if (hash !== '' || (key === 'issuer' && search !== ''))
    complain(key, `"${key}" has ${key === 'issuer' ? 'no query and ' : ''}no fragment: take it out`);
  if (isPlainHttp(text))
    complain(key, `"${key}" must be https: over plain http anybody on the way could read the credentials`);
}

interface ReadAuthentication {
  readonly authentication?: ClientAuthentication;
  readonly secrets: readonly string[];
}

async function readAuthentication(
  auth: CredentialsEntry,
  context: Context,
  complain: Complain,
): Promise<ReadAuthentication> {
  const { clientSecret, privateKey, privateKeyFile } = auth;
  const given = [clientSecret, privateKey, privateKeyFile].filter((value) => value !== undefined);
  const inline = [clientSecret, privateKey].filter((value) => value !== undefined);
  if (given.length !== 1) {
    complain(
      'clientId',
      given.length === 0
        ? 'without "clientSecret", "privateKey" or "privateKeyFile" callgate cannot show who it is: give one of them'
        : 'there are several of "clientSecret", "privateKey" and "privateKeyFile": keep one of them',
    );
    return { secrets: inline };
  }
  if (clientSecret !== undefined) return readSecret(auth, clientSecret, complain);
  return readKey(auth, context, complain);
}

function readSecret(auth: CredentialsEntry, secret: string, complain: Complain): ReadAuthentication {
  const method = auth.clientAuthentication ?? 'client_secret_basic';
  // The `Basic` scheme sends it in another spelling.
  const pair = [auth.clientId, secret].map((text) => new URLSearchParams({ '': text }).toString().slice(1));
  const secrets = [secret, btoa(pair.join(':'))];
  if (method === 'private_key_jwt') {
    complain(
      'clientAuthentication',
      '"private_key_jwt" needs "privateKey" or "privateKeyFile", not a secret',
    );
    return { secrets };
  }
  for (const key of ['algorithm', 'keyId'] as const) {
    if (auth[key] !== undefined)
      complain(key, `"${key}" belongs to a private key, not to a secret: take it out`);
  }
  return { authentication: { method, secret }, secrets };
}

async function readKey(
  auth: CredentialsEntry,
  context: Context,
  complain: Complain,
): Promise<ReadAuthentication> {
  const at = auth.privateKey === undefined ? 'privateKeyFile' : 'privateKey';
  const pem = auth.privateKey ?? (await readKeyFile(auth.privateKeyFile ?? '', context, complain));
  if (pem === undefined) return { secrets: [] };
  const secrets = [pem];
  if (auth.clientAuthentication !== undefined && auth.clientAuthentication !== 'private_key_jwt') {
    complain(
      'clientAuthentication',
      `"${auth.clientAuthentication}" needs "clientSecret", not a private key`,
    );
    return { secrets };
  }
  const key = parseKey(pem);
  if (key === undefined) {
    complain(
      at,
      `"${at}" holds no private key in the form of PEM (-----BEGIN PRIVATE KEY-----) without a password`,
    );
    return { secrets };
  }
  const fitting = algorithmsOf(key);
  const algorithm = auth.algorithm ?? fitting[0];
  if (algorithm === undefined || !fitting.includes(algorithm)) {
    const wanted = fitting.length === 0 ? 'no algorithm that is known here' : fitting.join(', ');
    complain(auth.algorithm === undefined ? at : 'algorithm', `the private key can sign with ${wanted}`);
    return { secrets };
  }
  const privateKey = String(key.export({ type: 'pkcs8', format: 'pem' }));
  return {
    authentication: { method: 'private_key_jwt', privateKey, algorithm, keyId: auth.keyId },
    secrets: [...secrets, privateKey],
  };
}

async function readKeyFile(
  name: string,
  { folder, at, report }: Context,
  complain: Complain,
): Promise<string | undefined> {
  const path = resolve(folder, name);
  try {
    const text = await readFile(path, 'utf8');
    // MT-18. A warning only, since container platforms mount secrets readable by all.
    if (((await stat(path)).mode & 0o004) !== 0) {
      const message = `"privateKeyFile" can be read by every user of this machine (${path})`;
      report.warning({ ...at, path: [...at.path, 'privateKeyFile'], message });
    }
    return text;
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : String(error);
    complain('privateKeyFile', `"privateKeyFile" names ${path}, which cannot be read (${code})`);
    return undefined;
  }
}

function parseKey(pem: string): KeyObject | undefined {
  try {
    return createPrivateKey(pem);
  } catch {
    // The reason may repeat parts of the key.
    return undefined;
  }
}

const curves: Readonly<Record<string, string>> = {
  prime256v1: 'ES256',
  secp384r1: 'ES384',
  secp521r1: 'ES512',
};

/** What a key can sign with, the usual one first. */
function algorithmsOf({ asymmetricKeyType, asymmetricKeyDetails }: KeyObject): readonly string[] {
  switch (asymmetricKeyType) {
    case 'rsa':
      return ['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512'];
    case 'ec': {
      const algorithm = curves[asymmetricKeyDetails?.namedCurve ?? ''];
      return algorithm === undefined ? [] : [algorithm];
    }
    case 'ed25519':
      return ['EdDSA'];
    default:
      return [];
  }
}
