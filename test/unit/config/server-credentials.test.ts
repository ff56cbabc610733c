// biome-ignore-all lint/suspicious/noTemplateCurlyInString: the references of configuration files look like templates
import { generateKeyPairSync, type KeyObject } from 'node:crypto';
import { chmodSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import type { CredentialSettings } from '../../../src/upstream/credential-settings.ts';
import { configWith, findings, folderWith, load } from '../../support/load-config.ts';

const web = { url: 'https://web.example/mcp' };
const pemOf = (key: KeyObject): string => String(key.export({ type: 'pkcs8', format: 'pem' }));
const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey;
const ec = generateKeyPairSync('ec', { namedCurve: 'P-384' }).privateKey;
const ed = generateKeyPairSync('ed25519').privateKey;
const good = { type: 'client_credentials', clientId: 'callgate', clientSecret: 'hunter2-of-tickets' };

async function loaded(auth: unknown, entry: unknown = web, more: object = {}, env: NodeJS.ProcessEnv = {}) {
  return load(configWith({ web: entry }, { servers: { web: { auth, ...more } } }), { env });
}

async function settingsOf(...args: Parameters<typeof loaded>): Promise<CredentialSettings | undefined> {
  const { servers, faultyServers } = await loaded(...args);
  expect(faultyServers).toEqual([]);
  const transport = servers[0]?.transport;
  return transport?.kind === 'stdio' ? undefined : transport?.credentials;
}

describe('where the tokens of a server come from', () => {
  test('client credentials with a secret from the environment', async () => {
    const auth = { ...good, clientSecret: '${S}', tokenUrl: 'https://idp.example/token', scope: 'a b' };
    expect(await settingsOf(auth, web, {}, { S: 'hunter2-of-tickets' })).toEqual({
      kind: 'client_credentials',
      issuer: undefined,
      tokenUrl: 'https://idp.example/token',
      clientId: 'callgate',
      authentication: { method: 'client_secret_basic', secret: 'hunter2-of-tickets' },
      scope: 'a b',
      audience: undefined,
      resource: undefined,
    });
  });

  test.each([
    [rsa, undefined, 'RS256'],
    [rsa, 'PS512', 'PS512'],
    [ec, undefined, 'ES384'],
    [ed, 'EdDSA', 'EdDSA'],
  ] as const)('a private key signs with the algorithm that fits it: %#', async (key, named, algorithm) => {
    const auth = {
      type: 'client_credentials',
      clientId: 'callgate',
      privateKey: pemOf(key),
      keyId: 'k1',
      ...(named === undefined ? {} : { algorithm: named }),
    };
    expect((await settingsOf(auth))?.authentication).toEqual({
      method: 'private_key_jwt',
      privateKey: pemOf(key),
      algorithm,
      keyId: 'k1',
    });
  });

  test('a key may stand in a file, in an older form too, and is told where everybody can read it', async () => {
    const folder = folderWith({ 'key.pem': String(rsa.export({ type: 'pkcs1', format: 'pem' })) });
    const auth = {
      type: 'client_credentials',
      clientId: 'c',
      privateKeyFile: join(folder, 'key.pem'),
    };
    chmodSync(join(folder, 'key.pem'), 0o600);
    expect((await settingsOf(auth))?.authentication).toMatchObject({ privateKey: pemOf(rsa) });
    chmodSync(join(folder, 'key.pem'), 0o644);
    expect((await loaded(auth)).warnings).toEqual([
      expect.stringContaining('"privateKeyFile" can be read by every user'),
    ]);
  });

  test("an exchange of the callers' tokens, for connections of their own", async () => {
    const auth = { ...good, type: 'token_exchange', issuer: 'https://idp.example/' };
    expect(await settingsOf(auth, web, { connection: 'run' })).toMatchObject({ kind: 'token_exchange' });
  });

  test('the older HTTP transport has them as well', async () => {
    const { servers } = await loaded(good, { ...web, type: 'sse' });
    expect(servers[0]?.transport).toMatchObject({ kind: 'sse', credentials: { clientId: 'callgate' } });
  });

  test('whatever is secret in it is hidden', async () => {
    const { secrets } = await loaded(good);
    expect(secrets).toEqual(['hunter2-of-tickets', btoa('callgate:hunter2-of-tickets')]);
    const key = await loaded(
      { type: 'client_credentials', clientId: '${ID}', privateKey: pemOf(ec) },
      web,
      {},
      { ID: 'an-id' },
    );
    expect(key.secrets).toEqual(['an-id', pemOf(ec)]);
  });
});

describe('what does not fit together fails that server alone, with its place', () => {
  const { clientSecret: _, ...noSecret } = good;
  const exchange = { ...good, type: 'token_exchange', tokenUrl: 'https://idp.example/token' };
  test.each<[object, string, object?, object?]>([
    [{}, 'auth lacks "type"'],
    [{ type: 'client_credentials' }, 'auth lacks "clientId"'],
    [{ ...good, type: 'authorization_code' }, 'must be "client_credentials" or "token_exchange"'],
    [{ ...good, tokenURL: 'x' }, 'did you mean "tokenUrl"?'],
    [noSecret, 'cannot show who it is'],
    [{ ...good, privateKey: pemOf(rsa) }, 'there are several of "clientSecret", "privateKey"'],
    [{ ...good, clientAuthentication: 'private_key_jwt' }, '"private_key_jwt" needs "privateKey"'],
    [{ ...good, keyId: 'k' }, '"keyId" belongs to a private key'],
    [{ ...noSecret, privateKey: 'hunter2 is no key' }, '"privateKey" holds no private key'],
    [
      { ...noSecret, privateKey: pemOf(rsa), clientAuthentication: 'client_secret_post' },
      'needs "clientSecret"',
    ],
    [{ ...noSecret, privateKey: pemOf(ec), algorithm: 'RS256' }, 'the private key can sign with ES384'],
    [{ ...noSecret, privateKeyFile: 'gone.pem' }, 'cannot be read (ENOENT)'],
    [{ ...good, tokenUrl: 'http://idp.example/token' }, '"tokenUrl" must be https'],
    [{ ...good, tokenUrl: 'https://u:p@idp.example/token' }, '"tokenUrl" has a user part'],
    [{ ...good, tokenUrl: 'https://idp.example/token#x' }, 'has no fragment'],
    [{ ...good, tokenUrl: 'http://169.254.169.254/token' }, 'a link-local or metadata address'],
    [{ ...good, issuer: 'https://idp.example/?x=1' }, 'has no query and no fragment'],
    [{ ...good, resource: 'not a uri' }, '"resource" must be an absolute URI'],
    [good, 'tokens are for servers with a "url"', { command: 'node' }],
    [good, 'both "auth" and an Authorization header', { ...web, headers: { authorization: 'Bearer x' } }],
    [good, 'both "auth" and an Authorization header', { url: 'https://user:pw@web.example/' }],
    [good, 'over plain http anybody', { url: 'http://far.internal/mcp' }, { allowHttp: true }],
    [exchange, 'must not travel on a connection of everybody'],
    [{ ...good, type: 'token_exchange' }, 'needs "tokenUrl" or "issuer"', web, { connection: 'actor' }],
  ])('%#: %s', async (auth, text, entry = web, more = {}) => {
    const { servers, faultyServers } = await loaded(auth, entry, more);
    expect(servers).toEqual([]);
    expect(faultyServers[0]?.reason).toContain(text);
    expect(faultyServers[0]?.reason).toMatch(/\(callgate\.json:\d+:\d+\)/);
    expect(JSON.stringify(faultyServers)).not.toContain('hunter2');
  });

  test('it stands with one server, not with the defaults', async () => {
    expect(await findings(configWith({ web }, { defaults: { auth: good } }))).toEqual([
      expect.stringContaining('callgate.defaults.auth is a setting of single servers'),
    ]);
  });

  test('plain http to an authorization server on this machine is taken', async () => {
    expect(await settingsOf({ ...good, tokenUrl: 'http://localhost:9/token' })).toMatchObject({
      tokenUrl: 'http://localhost:9/token',
    });
  });
});
