import { generateKeyPairSync, randomUUID } from 'node:crypto';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { createActor } from '../../src/access/actor.ts';
import type { EventFields, EventLog } from '../../src/core/events.ts';
import { createRedactor } from '../../src/core/redact.ts';
import { Secret } from '../../src/core/secret.ts';
import type { Caller } from '../../src/dispatch/ports.ts';
import type { Connection } from '../../src/upstream/connection.ts';
import type { CredentialSettings } from '../../src/upstream/credential-settings.ts';
import { type Credentials, CredentialsRefused } from '../../src/upstream/credentials.ts';
import { Deadline } from '../../src/upstream/deadline.ts';
import { LegacyConnection } from '../../src/upstream/legacy-connection.ts';
import { createCredentials, type ServerCredentials } from '../../src/upstream/oauth/server-credentials.ts';
import { AuthorizationServer, type TokenBehaviour } from '../support/authorization-server.ts';
import { GuardedServer } from '../support/guarded-server.ts';
import { server as settingsOf, someone, textOf, WatchedUpstreams } from '../support/upstream.ts';

const clientSecret = 'the-secret-of-callgate/+%';
const keys = generateKeyPairSync('ec', { namedCurve: 'P-256' });

let authorization: AuthorizationServer;
let guarded: GuardedServer;
let nowMs: number;
let logged: { readonly event: string; readonly fields: EventFields }[];
const closers: (() => Promise<void>)[] = [];

beforeEach(async () => {
  nowMs = 0;
  logged = [];
  authorization = await AuthorizationServer.start();
  authorization.clients.set('callgate', { secret: clientSecret, publicKey: keys.publicKey });
  guarded = await GuardedServer.start(authorization);
});

afterEach(async () => {
  await Promise.all(closers.splice(0).map((close) => close()));
  await Promise.all([authorization.close(), guarded.close()]);
});

const note = (event: string, fields: EventFields): void => void logged.push({ event, fields });
const log: EventLog = { info: note, warn: note, error: note };
const redact = createRedactor([clientSecret]);

const clientCredentials = (more: Partial<CredentialSettings> = {}): CredentialSettings => ({
  kind: 'client_credentials',
  issuer: undefined,
  tokenUrl: authorization.tokenUrl,
  clientId: 'callgate',
  authentication: { method: 'client_secret_basic', secret: clientSecret },
  scope: undefined,
  audience: undefined,
  resource: undefined,
  ...more,
});
const tokenExchange = (): CredentialSettings => clientCredentials({ kind: 'token_exchange' });
/** The operator has said nothing but who callgate is. */
const toBeFound = (more: Partial<CredentialSettings> = {}): CredentialSettings =>
  clientCredentials({ tokenUrl: undefined, ...more });

function credentialsFor(settings: CredentialSettings, connectTimeoutMs = 20_000): ServerCredentials {
  const credentials = createCredentials(settings, {
    alias: 'one',
    serverUrl: guarded.url,
    log,
    redact,
    monotonicMs: () => nowMs,
    connectTimeoutMs,
  });
  closers.push(() => credentials.close());
  return credentials;
}

/** A connection of callgate to the guarded server, closed after the test. */
function connect(settings: CredentialSettings, credentials: Credentials): Connection {
  const transport = { kind: 'http', url: guarded.url, headers: {}, credentials: settings } as const;
  const connection = new LegacyConnection(settingsOf('one', transport), {
    log,
    redact,
    credentials,
    onLost: () => {},
    onToolsChanged: () => {},
  });
  closers.push(() => connection.close());
  return connection;
}

async function opened(settings: CredentialSettings, credentials = credentialsFor(settings).own) {
  const connection = connect(settings, credentials);
  expect(await connection.open()).toBeUndefined();
  return connection;
}

/** Whom the server took callgate for. */
async function whoami(connection: Connection): Promise<unknown> {
  const call = {
    alias: 'one',
    tool: 'whoami',
    arguments: {},
    inputSchema: {},
    caller: someone,
    id: randomUUID(),
    timeoutMs: 20_000,
    timeoutTotalMs: 20_000,
    mayRepeat: false,
    signal: new AbortController().signal,
    onProgress: () => {},
    onLateAnswer: () => {},
  };
  const deadline = new Deadline(() => performance.now(), 20_000);
  const answer = await connection.callTool(call, deadline, 1);
  return answer.ok ? answer.value.content[0] : answer.error.message;
}

const said = (text: string) => expect.objectContaining({ type: 'text', text });

describe("callgate's own token", () => {
  test.each<[string, CredentialSettings['authentication']]>([
    ['client_secret_basic', { method: 'client_secret_basic', secret: clientSecret }],
    ['client_secret_post', { method: 'client_secret_post', secret: clientSecret }],
    [
      'private_key_jwt',
      {
        method: 'private_key_jwt',
        privateKey: String(keys.privateKey.export({ type: 'pkcs8', format: 'pem' })),
        algorithm: 'ES256',
        keyId: 'k1',
      },
    ],
  ])('is asked for with %s, for the URL of the server', async (_, authentication) => {
    const connection = await opened(clientCredentials({ authentication, scope: 'a b' }));
    expect(await whoami(connection)).toEqual(said('callgate'));
    expect(authorization.asked).toHaveLength(1);
    expect(authorization.asked[0]?.parameters).toMatchObject({
      grant_type: 'client_credentials',
      resource: guarded.url,
      scope: 'a b',
    });
    expect(guarded.shown).not.toContain(undefined);
  });

  test('may be asked for by "audience" in the place of "resource"', async () => {
    const connection = await opened(clientCredentials({ audience: guarded.url }));
    expect(await whoami(connection)).toEqual(said('callgate'));
    expect(authorization.asked[0]?.parameters).not.toHaveProperty('resource');
  });

  test('ten calls at once after it has ended cost one request', async () => {
    authorization.lifeS = 60;
    const connection = await opened(clientCredentials());
    nowMs = 60_000;
    const release = authorization.hold();
    const calls = Array.from({ length: 10 }, () => whoami(connection));
    await authorization.when(() => authorization.asked.length === 2);
    release();
    expect(await Promise.all(calls)).toEqual(Array.from({ length: 10 }, () => said('callgate')));
    expect(authorization.asked).toHaveLength(2);
  });

  test('is replaced before its end without that any call waits', async () => {
    authorization.lifeS = 60;
    const connection = await opened(clientCredentials());
    nowMs = 50_000;
    const release = authorization.hold();
    expect(await whoami(connection)).toEqual(said('callgate'));
    await authorization.when(() => authorization.asked.length === 2);
    expect(new Set(guarded.shown).size).toBe(1);
    release();
    await expect.poll(async () => whoami(connection).then(() => new Set(guarded.shown).size)).toBe(2);
    expect(authorization.asked).toHaveLength(2);
  });

  test('after a 401 one new token is got for all, and each call is sent once more', async () => {
    const connection = await opened(clientCredentials());
    authorization.revokeAll();
    const calls = Array.from({ length: 10 }, () => whoami(connection));
    expect(await Promise.all(calls)).toEqual(Array.from({ length: 10 }, () => said('callgate')));
    expect(authorization.asked).toHaveLength(2);
    expect(guarded.calls).toBeLessThanOrEqual(20);
  });

  test('is asked for with more scopes when the server wants more, and with all of them from then on', async () => {
    const connection = await opened(clientCredentials());
    guarded.scope = 'write';
    expect(await whoami(connection)).toEqual(said('callgate'));
    guarded.scope = 'admin';
    nowMs = 60_000;
    expect(await whoami(connection)).toEqual(said('callgate'));
    expect(authorization.asked.map(({ parameters }) => parameters.scope)).toEqual([
      undefined,
      'write',
      'write admin',
    ]);
  });

  test('a server that goes on refusing gets each call twice, and its authorization server is left alone', async () => {
    const connection = await opened(clientCredentials());
    guarded.takesNone = true;
    expect(await whoami(connection)).toContain('it refused the configured credentials (HTTP 401)');
    expect(guarded.calls).toBe(2);
    for (let call = 0; call < 10; call++) await whoami(connection);
    expect(guarded.calls).toBe(12);
    expect(authorization.asked).toHaveLength(2);
  });
});

describe('the token of a caller', () => {
  const forCaller = (credentials: ServerCredentials, who: string, token: string) =>
    credentials.forCaller(who, () => new Secret(token));

  test('is exchanged for one with the audience of the server, and is shown to nobody else', async () => {
    const canary = `canary-${randomUUID()}`;
    authorization.subjects.set(`${canary}-alice`, 'alice').set(`${canary}-bob`, 'bob');
    const settings = tokenExchange();
    const credentials = credentialsFor(settings);
    const own = await opened(settings, credentials.own);
    const alice = await opened(settings, forCaller(credentials, 'actor-a', `${canary}-alice`));
    const bob = await opened(settings, forCaller(credentials, 'actor-b', `${canary}-bob`));
    expect(await Promise.all([own, alice, bob].map(whoami))).toEqual(['callgate', 'alice', 'bob'].map(said));
    expect(await own.listTools()).toMatchObject({ tools: [{ name: 'whoami' }] });

    expect(authorization.asked.map(({ parameters }) => parameters.subject_token)).toEqual([
      undefined,
      `${canary}-alice`,
      `${canary}-bob`,
    ]);
    expect(authorization.asked[1]?.parameters).toMatchObject({
      grant_type: 'urn:ietf:params:oauth:grant-type:token-exchange',
      subject_token_type: 'urn:ietf:params:oauth:token-type:access_token',
      resource: guarded.url,
    });
    expect(JSON.stringify([guarded.heard, logged])).not.toContain(canary);
    expect(JSON.stringify([guarded.heard, logged])).not.toContain(clientSecret);
  });

  test('is exchanged once for all connections of its actor, whatever newer tokens it has', async () => {
    for (const n of [0, 1, 2]) authorization.subjects.set(`token-${n}`, 'alice');
    const credentials = credentialsFor(tokenExchange());
    const all = [0, 1, 2].map((n) => forCaller(credentials, 'actor-a', `token-${n}`));
    const headers = await Promise.all(all.map(async (one) => one.headers()));
    expect(new Set(headers.map(({ authorization: value }) => value)).size).toBe(1);
    expect(authorization.asked).toHaveLength(1);
  });

  test('is exchanged anew after a 401, with the newest one that was shown', async () => {
    authorization.subjects.set('old', 'alice').set('new', 'alice');
    let token = 'old';
    const settings = tokenExchange();
    const alice = await opened(
      settings,
      credentialsFor(settings).forCaller('a', () => new Secret(token)),
    );
    authorization.revokeAll();
    token = 'new';
    expect(await whoami(alice)).toEqual(said('alice'));
    expect(authorization.asked.map(({ parameters }) => parameters.subject_token)).toEqual(['old', 'new']);
  });

  test('without one nothing is sent, and callgate does not go on as itself', async () => {
    const settings = tokenExchange();
    const connection = connect(
      settings,
      credentialsFor(settings).forCaller('a', () => undefined),
    );
    expect(await connection.open()).toMatchObject({
      reason: 'the caller showed no token that could be exchanged for one of this server',
    });
    expect(authorization.asked).toEqual([]);
    expect(guarded.shown).toEqual([]);
  });

  test('a refusal for one caller is nothing to another', async () => {
    authorization.subjects.set('good', 'alice');
    const credentials = credentialsFor(tokenExchange());
    await expect(async () => forCaller(credentials, 'b', 'bad').headers()).rejects.toThrow('invalid_grant');
    expect(await forCaller(credentials, 'a', 'good').headers()).toHaveProperty('authorization');
  });

  test('what an authorization server repeats of it is shown to nobody', async () => {
    authorization.behaviour = 'echo';
    const canary = `eyJ${randomUUID()}.${randomUUID()}`;
    const credentials = credentialsFor(tokenExchange());
    const refused = Promise.resolve(forCaller(credentials, 'a', canary).headers());
    const error = await refused.catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(CredentialsRefused);
    const told = JSON.stringify([error, String(error), (error as CredentialsRefused).detail, logged]);
    expect(told).toContain('HTTP 400');
    for (const part of [canary, canary.slice(0, 20), clientSecret]) expect(told).not.toContain(part);
  });
});

describe('an authorization server in trouble', () => {
  test.each<[TokenBehaviour, string]>([
    ['deny', 'refused callgate a token (invalid_scope)'],
    ['html', 'did not answer in the way of OAuth'],
    ['empty', 'did not answer in the way of OAuth'],
    ['dpop', 'did not answer in the way of OAuth'],
    ['redirect', 'it redirects (HTTP 307), which is not followed'],
    ['huge', 'its answer is larger than the limit'],
    ['busy', 'refused callgate a token (HTTP 503)'],
    ['cut', 'could not be reached'],
  ])(
    'that answers with "%s" fails the connection in words, and is not asked again at once',
    async (behaviour, text) => {
      authorization.behaviour = behaviour;
      const settings = clientCredentials();
      const { own } = credentialsFor(settings);
      expect((await connect(settings, own).open())?.reason).toContain(text);
      expect((await connect(settings, own).open())?.reason).toContain(text);
      expect(authorization.asked).toHaveLength(1);
      expect(authorization.looked).toEqual([]);
      expect(guarded.shown).toEqual([]);
      expect(logged.filter(({ event }) => event === 'server.token_refused')).toHaveLength(1);

      authorization.behaviour = 'issue';
      nowMs = 300_000;
      expect(await whoami(await opened(settings, own))).toEqual(said('callgate'));
    },
  );

  test('that does not know callgate: the log says what to look at', async () => {
    authorization.clients.clear();
    const error = await Promise.resolve(credentialsFor(clientCredentials()).own.headers()).catch(String);
    expect(error).toContain('refused callgate a token (invalid_client)');
    expect(logged).toEqual([
      {
        event: 'server.token_refused',
        fields: expect.objectContaining({
          server: 'one',
          detail: expect.stringContaining('check "clientId"'),
        }),
      },
    ]);
  });

  test('that does not answer', async () => {
    authorization.behaviour = 'hang';
    const headers = async () => credentialsFor(clientCredentials(), 200).own.headers();
    await expect(headers).rejects.toThrow('gave no token: it did not answer in time');
    expect(authorization.asked).toHaveLength(1);
  });

  test('that is not there', async () => {
    await authorization.close();
    const headers = async () => credentialsFor(clientCredentials()).own.headers();
    await expect(headers).rejects.toThrow('gave no token: it could not be reached (ECONNREFUSED)');
  });
});

describe('an authorization server that the operator did not name', () => {
  test('is found by the refusal of the server (RFC 9728, RFC 8414)', async () => {
    guarded.metadata = { scopes_supported: ['read', 'write'] };
    const connection = await opened(toBeFound());
    expect(await whoami(connection)).toEqual(said('callgate'));
    expect(guarded.shown.filter((value) => value === undefined)).toHaveLength(1);
    expect(authorization.asked.map(({ parameters }) => parameters)).toEqual([
      { grant_type: 'client_credentials', resource: guarded.url, scope: 'read write' },
    ]);
    expect(authorization.looked).toEqual(['/.well-known/oauth-authorization-server']);
  });

  test.each([
    ['the well-known place of its path', '/.well-known/oauth-protected-resource/mcp'],
    ['the well-known place of its origin', '/.well-known/oauth-protected-resource'],
  ])('also where the refusal does not say it: at %s', async (_, path) => {
    guarded.metadataPath = path;
    guarded.challenge = 'realm="x", scope="from-the-challenge"';
    expect(await whoami(await opened(toBeFound()))).toEqual(said('callgate'));
    expect(authorization.asked[0]?.parameters.scope).toBe('from-the-challenge');
  });

  test('may have the metadata of OpenID Connect', async () => {
    authorization.metadataPath = '/.well-known/openid-configuration';
    expect(await whoami(await opened(toBeFound()))).toEqual(said('callgate'));
  });

  test('one that is named needs no refusal, and no word of the server', async () => {
    const connection = await opened(toBeFound({ issuer: authorization.origin }));
    expect(await whoami(connection)).toEqual(said('callgate'));
    expect(guarded.shown).not.toContain(undefined);
    expect(guarded.heard.filter((url) => url.includes('well-known'))).toEqual([]);
  });

  test.each<[string, () => void]>([
    ['metadata of another resource', () => (guarded.metadata = { resource: 'https://evil.example/mcp' })],
    ['metadata of a sibling', () => (guarded.metadata = { resource: `${guarded.origin}/mc` })],
    ['metadata without an authorization server', () => (guarded.metadata = { authorization_servers: [] })],
    ['metadata that are nowhere', () => (guarded.metadataPath = '/nowhere')],
    ['metadata of another issuer', () => (authorization.metadata = { issuer: 'https://evil.example' })],
    ['no token endpoint', () => (authorization.metadata = { token_endpoint: 7 })],
    [
      'an authorization server in a private network (MT-8)',
      () => (guarded.metadata = { authorization_servers: ['https://10.0.0.1/'] }),
    ],
    [
      'a token endpoint at the metadata service of a cloud (MT-8)',
      () => (authorization.metadata = { token_endpoint: 'http://169.254.169.254/token' }),
    ],
    [
      'plain http to another machine',
      () => (authorization.metadata = { token_endpoint: 'http://idp.example/token' }),
    ],
    ['metadata elsewhere by plain http', () => (guarded.challenge = 'resource_metadata="http://a.example/"')],
  ])('is refused with %s, and no secret leaves', async (_, spoil) => {
    guarded.challenge = `resource_metadata="${guarded.origin}/.well-known/oauth-protected-resource/mcp"`;
    spoil();
    const settings = toBeFound();
    const { own } = credentialsFor(settings);
    expect((await connect(settings, own).open())?.reason).toMatch(
      /could not be found out|gave no token: its (host|URL)/,
    );
    expect(authorization.asked).toEqual([]);
    expect(guarded.heard.join()).not.toContain(clientSecret);
  });

  test('may not change while callgate runs: whoever takes a server over does not get the secret', async () => {
    const settings = toBeFound();
    const { own } = credentialsFor(settings);
    await opened(settings, own);
    const other = await AuthorizationServer.start();
    closers.push(() => other.close());
    authorization.revokeAll();
    authorization.behaviour = 'cut';
    nowMs = 60_000;
    expect((await connect(settings, own).open())?.reason).toContain('it could not be reached');
    guarded.metadata = { authorization_servers: [other.origin] };
    nowMs = 120_000;
    expect((await connect(settings, own).open())?.reason).toContain('could not be found out');
    expect(other.asked).toEqual([]);
    expect(JSON.stringify(logged)).toContain('names another authorization server than before');
  });
});

describe('a server with such credentials, as a whole', () => {
  const callerWith = (subject: string, token: string | undefined): Caller => ({
    ...someone,
    actor: createActor({ ...someone.actor, kind: 'user', subject }),
    token: token === undefined ? undefined : new Secret(token),
  });

  test('lists its tools as callgate and runs each call as its caller, whose token it never sees', async () => {
    const canary = `canary-${randomUUID()}`;
    const names = ['alice', 'bob', 'carol'];
    for (const name of names) authorization.subjects.set(`${canary}-${name}`, name);
    const transport = { kind: 'http', url: guarded.url, headers: {}, credentials: tokenExchange() } as const;
    const watched = new WatchedUpstreams([settingsOf('one', transport, { connection: 'actor' })]);
    closers.push(() => watched.upstreams.stop());
    await watched.when(() => watched.lists.length > 0);
    expect(watched.lists[0]?.tools.map(({ name }) => name)).toEqual(['whoami']);

    const order = Array.from({ length: 60 }, (_, n) => names[n % names.length] ?? '');
    const attempts = await Promise.all(
      order.map((name) => watched.call('whoami', {}, { caller: callerWith(name, `${canary}-${name}`) })),
    );
    expect(attempts.map(textOf)).toEqual(order);
    expect(authorization.asked).toHaveLength(1 + names.length);

    const without = await watched.call('whoami', {}, { caller: callerWith('dave', undefined) });
    expect(without).toMatchObject({ kind: 'failed', code: 'server_unavailable', sent: false });
    const wrong = await watched.call('whoami', {}, { caller: callerWith('eve', `${canary}-eve`) });
    expect(wrong).toMatchObject({
      code: 'server_unavailable',
      message: expect.stringContaining('refused to exchange the token of the caller (invalid_grant)'),
    });
    const told = JSON.stringify([guarded.heard, watched.logged, watched.status(), attempts, without, wrong]);
    expect(told).not.toContain(canary);
    expect(told).not.toContain(clientSecret);
  });

  test('shows why it is not up, and comes up when its tokens come', async () => {
    authorization.behaviour = 'deny';
    const credentials = clientCredentials();
    const transport = { kind: 'http', url: guarded.url, headers: {}, credentials } as const;
    const watched = new WatchedUpstreams([settingsOf('one', transport)]);
    closers.push(() => watched.upstreams.stop());
    await watched.when(() => watched.logged.some(({ event }) => event === 'server.connect_failed'));
    expect(watched.status().lastError).toContain('refused callgate a token (invalid_scope)');
    authorization.behaviour = 'issue';
    await watched.when(() => watched.lists.length > 0);
    expect(watched.status().state).toBe('ready');
  });
});
