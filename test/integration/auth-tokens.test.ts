import { createHmac, createPublicKey } from 'node:crypto';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { authorise } from '../../src/access/authorise.ts';
import { type Authenticator, createAuthenticator } from '../../src/auth/bearer.ts';
import type { DenyLists, IssuerSettings } from '../../src/auth/settings.ts';
import { createEventRecorder, createFakeTime, verdict } from '../support/auth-fakes.ts';
import { type Minting, startIssuer, type TestIssuer } from '../support/issuer.ts';

let time: ReturnType<typeof createFakeTime>;
let issuer: TestIssuer;
let log: ReturnType<typeof createEventRecorder>;
let authenticator: Authenticator;
const opened: { close(): void | Promise<void> }[] = [];

/** Opens an authenticator for these issuers and waits for their keys. */
async function open(
  issuers: readonly IssuerSettings[],
  more: { globalWildcards?: boolean; deny?: DenyLists } = {},
): Promise<Authenticator> {
  const made = createAuthenticator(
    { clockToleranceS: 30, globalWildcards: false, ...more, issuers },
    { log, ...time },
  );
  opened.push(made);
  await made.reload();
  return made;
}

const present = (token: string): Promise<string> => verdict(authenticator.authenticate(`Bearer ${token}`));

const presentMinted = async (minting: Minting): Promise<string> => present(await issuer.mint(minting));

const encode = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString('base64url');

beforeEach(async () => {
  time = createFakeTime();
  log = createEventRecorder();
  issuer = await startIssuer(time.nowMs);
  opened.push(issuer);
  authenticator = await open([issuer.settings()]);
});

afterEach(async () => {
  for (const one of opened.splice(0)) await one.close();
});

describe('the token table (field case O19)', () => {
  const nowS = 1_800_000_000;
  test.each<[string, Minting['claims'], string]>([
    ['a good token', {}, 'accepted'],
    ['an audience among others', { aud: ['z', 'https://callgate.test'] }, 'accepted'],
    ['another audience', { aud: 'https://other.test' }, 'invalid_token'],
    ['no audience', { aud: undefined }, 'invalid_token'],
    ['no audience in the list', { aud: [] }, 'invalid_token'],
    ['foreign audiences', { aud: ['z'] }, 'invalid_token'],
    ['an audience that is not text', { aud: ['https://callgate.test', 5] }, 'invalid_token'],
    ['another issuer', { iss: 'https://evil.test/' }, 'invalid_token'],
    ['no issuer', { iss: undefined }, 'invalid_token'],
    ['an issuer in a list', { iss: ['i'] }, 'invalid_token'],
    ['no expiry', { exp: undefined }, 'invalid_token'],
    ['expired 5 s ago', { iat: nowS - 60, exp: nowS - 5 }, 'accepted'],
    ['expired 29 s ago', { iat: nowS - 60, exp: nowS - 29 }, 'accepted'],
    ['expired 30 s ago', { iat: nowS - 60, exp: nowS - 30 }, 'invalid_token'],
    ['expired 10 min ago', { iat: nowS - 900, exp: nowS - 600 }, 'invalid_token'],
    ['valid in 5 s', { nbf: nowS + 5 }, 'accepted'],
    ['valid in 5 min', { nbf: nowS + 300 }, 'invalid_token'],
    ['issued in 30 s', { iat: nowS + 30 }, 'accepted'],
    ['issued in 31 s', { iat: nowS + 31 }, 'invalid_token'],
    ['issued in 1 h', { iat: nowS + 3600, exp: nowS + 7200 }, 'invalid_token'],
    ['no issue time', { iat: undefined }, 'invalid_token'],
    ['an expiry as text', { exp: `${nowS + 60}` }, 'invalid_token'],
    ['an expiry far beyond', { exp: 1e308 }, 'invalid_token'],
    ['a fraction of a second', { exp: nowS + 60.5 }, 'invalid_token'],
    ['an expiry that is null, as NaN becomes', { exp: Number.NaN }, 'invalid_token'],
    ['a negative issue time', { iat: -1 }, 'invalid_token'],
    ['an expiry before the issue time', { iat: nowS + 20, exp: nowS + 10 }, 'invalid_token'],
    ['a life of 24 h', { exp: nowS + 86_400 }, 'accepted'],
    ['a longer life', { exp: nowS + 86_401 }, 'invalid_token'],
    ['no subject', { sub: undefined }, 'invalid_token'],
    ['a number as subject', { sub: 7 }, 'invalid_token'],
    ['an empty subject', { sub: '' }, 'invalid_token'],
    ['a proof key', { cnf: { jkt: 'x' } }, 'invalid_token'],
    ['an actor claim', { act: { sub: 'x' } }, 'invalid_token'],
  ])('%s', async (_name, claims, expected) => {
    expect(await presentMinted({ claims: claims ?? {} })).toBe(expected);
  });

  test('an issuer is matched as exact text', async () => {
    for (const iss of [issuer.issuer.slice(0, -1), issuer.issuer.toUpperCase(), `${issuer.issuer}/`]) {
      expect(await presentMinted({ claims: { iss } })).toBe('invalid_token');
    }
  });

  test.each(['none', 'None', 'noNE', 'rs256', 'es256', ['ES256'], undefined])(
    'alg %j is refused',
    async (alg) => {
      const [, payload, signature] = (await issuer.mint()).split('.');
      for (const end of [signature, '']) {
        expect(await present(`${encode({ alg, typ: 'at+jwt', kid: 'k1' })}.${payload}.${end}`)).toBe(
          'invalid_token',
        );
      }
    },
  );

  test('a token signed with the text of the public key as a shared secret is refused', async () => {
    issuer.publish(issuer.makeKey('rsa', 'RS256'));
    await authenticator.reload();
    expect(await presentMinted({ signedBy: 'rsa' })).toBe('accepted');
    const pem = createPublicKey(issuer.privateKey('rsa')).export({ type: 'spki', format: 'pem' });
    const [, payload] = (await issuer.mint({ signedBy: 'rsa' })).split('.');
    const head = encode({ alg: 'HS256', typ: 'at+jwt', kid: 'rsa' });
    const mac = createHmac('sha256', pem).update(`${head}.${payload}`).digest('base64url');
    expect(await present(`${head}.${payload}.${mac}`)).toBe('invalid_token');
  });

  test('without bearer credentials there is nothing to refuse', async () => {
    for (const header of [undefined, '', 'Basic dTpw', 'Bearerish x']) {
      expect(await verdict(authenticator.authenticate(header))).toBe('unauthenticated');
    }
    for (const header of ['Bearer anything', 'Bearer', 'Bearer ', 'bearer a b']) {
      expect(await verdict(authenticator.authenticate(header))).toBe('invalid_token');
    }
  });

  test('the scheme is written in any case', async () => {
    expect(await verdict(authenticator.authenticate(`bEARER  ${await issuer.mint()}`))).toBe('accepted');
  });
});

describe('the form of a token (AUTH-1, AUTH-7)', () => {
  test('what jose reads past is refused: padding, blanks, line feeds, other parts', async () => {
    const token = await issuer.mint();
    const [head, payload, signature] = token.split('.');
    const bent = [
      `${token}=`,
      `${token}==`,
      `${head}.${payload}.${signature?.slice(0, 9)} ${signature?.slice(9)}`,
      `${head}.${payload}.${signature?.slice(0, 9)}\n${signature?.slice(9)}`,
      `${head}.${payload}`,
      `${token}.`,
      `${token}.e30`,
      `${token}.e30.e30`,
      `{"${token}"}`,
      `"${token}"`,
      `${head}.${payload}.`,
      `.${payload}.${signature}`,
      'a'.repeat(5_000_000),
    ];
    for (const text of bent) expect(await present(text)).toBe('invalid_token');
    expect(await present(token)).toBe('accepted');
  });

  test.each<[string, Minting['header']]>([
    ['kid as a list', { kid: ['k1'] }],
    ['kid as an object', { kid: {} }],
    ['kid as a path', { kid: '../../k1' }],
    ['a number as typ', { typ: 1 }],
  ])('%s is refused', async (_name, header) => {
    expect(await presentMinted({ header: header ?? {} })).toBe('invalid_token');
  });

  test.each([{ crit: [] }, { crit: ['x'], x: 1 }, { crit: ['b64'], b64: false }, { b64: false }])(
    'a header with %j is refused',
    async (more) => {
      const [, payload, signature] = (await issuer.mint()).split('.');
      const text = `${encode({ alg: 'ES256', typ: 'at+jwt', kid: 'k1', ...more })}.${payload}.${signature}`;
      expect(await present(text)).toBe('invalid_token');
    },
  );

  test('keys that a header offers are never used and never fetched', async () => {
    const own = issuer.makeKey('own');
    const header = {
      kid: 'k1',
      jwk: own,
      jku: `${issuer.issuer}own`,
      x5u: `${issuer.issuer}x5u`,
      x5c: ['AAAA'],
    };
    const hits = issuer.hits();
    expect(await presentMinted({ header, signedBy: 'own' })).toBe('invalid_token');
    expect(await presentMinted({ header, signedBy: 'k1' })).toBe('accepted');
    expect([issuer.strayHits(), issuer.hits()]).toEqual([0, hits]);
  });

  test('10,000 mutated tokens are all refused, without a throw', async () => {
    const token = await issuer.mint();
    await present(token);
    let seed = 42;
    const random = (below: number): number => {
      seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648;
      return seed % below;
    };
    const alphabet = 'Aa0_-.=+/ \n{"é\u0000';
    let accepted = 0;
    for (let round = 0; round < 10_000; round += 1) {
      const at = random(token.length);
      const inserted = alphabet[random(alphabet.length)] ?? '';
      const mutated = [
        token.slice(0, at) + inserted + token.slice(at + 1),
        token.slice(0, at) + inserted + token.slice(at),
        token.slice(0, at) + token.slice(at + 1 + random(20)),
        token.slice(at) + token.slice(0, at),
      ][random(4)];
      // The last character of the signature carries bits that mean nothing: the same signature in other letters.
      if (
        mutated === token ||
        (mutated?.slice(0, -1) === token.slice(0, -1) && mutated.length === token.length)
      )
        continue;
      const code = await verdict(authenticator.authenticate(`Bearer ${mutated}`));
      expect(['accepted', 'invalid_token']).toContain(code);
      if (code === 'accepted') accepted += 1;
    }
    expect(accepted).toBe(0);
  });
});

describe('several issuers (AUTH-3)', () => {
  test('a token of one issuer signed with the key of another is refused', async () => {
    const other = await startIssuer(time.nowMs);
    opened.push(other);
    authenticator = await open([issuer.settings(), other.settings()]);
    expect(await presentMinted({})).toBe('accepted');
    expect(await present(await other.mint())).toBe('accepted');
    expect(await presentMinted({ claims: { iss: other.issuer } })).toBe('invalid_token');
  });

  test('each issuer has its own audience and profile', async () => {
    const other = await startIssuer(time.nowMs);
    opened.push(other);
    authenticator = await open([
      issuer.settings(),
      other.settings({ profile: 'legacy', audience: 'urn:other' }),
    ]);
    const legacy = { header: { typ: 'JWT' }, claims: { aud: 'urn:other' } };
    expect(await present(await other.mint(legacy))).toBe('accepted');
    expect(await present(await other.mint({ header: { typ: 'JWT' } }))).toBe('invalid_token');
    expect(await presentMinted(legacy)).toBe('invalid_token');
  });

  test('an issuer configured twice is a mistake that stops the start', () => {
    const settings = {
      clockToleranceS: 30,
      globalWildcards: false,
      issuers: [issuer.settings(), issuer.settings()],
    };
    expect(() => createAuthenticator(settings, { log, ...time })).toThrow(/configured twice/);
  });
});

describe('profiles (AUTH-6)', () => {
  test.each<[string | undefined, string, string]>([
    ['at+jwt', 'accepted', 'invalid_token'],
    ['AT+JWT', 'accepted', 'invalid_token'],
    ['application/at+jwt', 'accepted', 'invalid_token'],
    ['JWT', 'invalid_token', 'accepted'],
    ['jwt', 'invalid_token', 'accepted'],
    [undefined, 'invalid_token', 'accepted'],
    ['logout+jwt', 'invalid_token', 'invalid_token'],
    ['dpop+jwt', 'invalid_token', 'invalid_token'],
  ])('typ %s is %s as rfc9068 and %s as legacy', async (typ, strict, legacy) => {
    expect(await presentMinted({ header: { typ } })).toBe(strict);
    authenticator = await open([issuer.settings({ profile: 'legacy' })]);
    expect(await presentMinted({ header: { typ } })).toBe(legacy);
  });

  test('rfc9068 needs client_id and jti', async () => {
    expect(await presentMinted({ claims: { client_id: undefined } })).toBe('invalid_token');
    expect(await presentMinted({ claims: { client_id: undefined, azp: 'c' } })).toBe('invalid_token');
    expect(await presentMinted({ claims: { jti: undefined } })).toBe('invalid_token');
  });

  test.each<[string, Minting['claims'], string]>([
    [
      'Auth0 access token',
      { aud: ['https://callgate.test', 'https://x.test/userinfo'], azp: 'spa', scope: 'openid' },
      'accepted',
    ],
    [
      'Keycloak access token',
      { azp: 'web', realm_access: { roles: ['reader'] }, session_state: 's' },
      'accepted',
    ],
    ['Entra v2 access token', { azp: 'app', scp: 'read', ver: '2.0', tid: 't', oid: 'o' }, 'accepted'],
    ['Okta access token', { cid: 'app', uid: 'u', scp: ['read'], ver: 1 }, 'accepted'],
    ['ID token with a nonce', { azp: 'web', nonce: 'n' }, 'invalid_token'],
    ['ID token with at_hash', { azp: 'web', at_hash: 'h' }, 'invalid_token'],
    ['ID token for its own client', { azp: 'https://callgate.test' }, 'invalid_token'],
    [
      'logout token',
      { events: { 'http://schemas.openid.net/event/backchannel-logout': {} } },
      'invalid_token',
    ],
  ])('legacy: %s', async (_name, claims, expected) => {
    authenticator = await open([issuer.settings({ profile: 'legacy' })]);
    const minting = { header: { typ: 'JWT' }, claims: { client_id: undefined, jti: undefined, ...claims } };
    expect(await presentMinted(minting)).toBe(expected);
  });
});

describe('the actor (AUTH-15)', () => {
  const actorOf = async (claims: Minting['claims']) => {
    const result = await authenticator.authenticate(`Bearer ${await issuer.mint({ claims: claims ?? {} })}`);
    return result.ok ? result.value : undefined;
  };

  test('a client is who its subject is, and a user whose subject equals a client id is not that client', async () => {
    expect(await actorOf({ sub: 'bot', client_id: 'bot' })).toMatchObject({
      kind: 'client',
      subject: 'bot',
      client: 'bot',
    });
    expect(await actorOf({ sub: 'bot', client_id: 'web' })).toMatchObject({
      kind: 'user',
      subject: 'bot',
      client: 'web',
    });
  });

  test('the client is client_id, else azp', async () => {
    expect(await actorOf({ client_id: 'a', azp: 'b' })).toMatchObject({ client: 'a' });
    authenticator = await open([issuer.settings({ profile: 'legacy' })]);
    const token = await issuer.mint({ header: { typ: 'JWT' }, claims: { client_id: undefined, azp: 'b' } });
    expect(await authenticator.authenticate(`Bearer ${token}`)).toMatchObject({
      ok: true,
      value: { client: 'b' },
    });
  });

  test('a token without grants has an actor without rights', async () => {
    expect(await actorOf({})).toMatchObject({ grants: [], grantsKey: '' });
  });
});

describe('the shape of the scope claim (field case O20)', () => {
  const target = { alias: 'tickets', tool: 'create', class: 'write' } as const;
  const scopeMap = { 'tools:write': ['tools:tickets:*'], 'tools:read': ['tools:tickets:*:read'] };

  const call = async (claims: Minting['claims']): Promise<string> => {
    const result = await authenticator.authenticate(`Bearer ${await issuer.mint({ claims: claims ?? {} })}`);
    if (!result.ok) return result.error.code;
    return authorise(result.value, target).allowed ? 'runs' : 'forbidden';
  };

  test.each<[number, Minting['claims'], string]>([
    [1, { scope: 'tools:read tools:write' }, 'runs'],
    [2, { scope: ['tools:read', 'tools:write'] }, 'runs'],
    [3, { scp: 'tools:write' }, 'runs'],
    [4, { scp: ['tools:write'] }, 'runs'],
    [5, { permissions: ['tools:write'] }, 'forbidden'],
    [6, { scope: 'tools:writer' }, 'forbidden'],
    [7, { scope: 'xtools:write' }, 'forbidden'],
    [8, { scope: 'tools:*' }, 'forbidden'],
    [9, { scope: 'TOOLS:WRITE' }, 'forbidden'],
    [10, { scope: ['tools:write', 5] }, 'invalid_token'],
    [11, { scope: { '0': 'tools:write' } }, 'invalid_token'],
    [12, {}, 'forbidden'],
    [13, { scope: 'tools:read' }, 'forbidden'],
    [14, { scope: 'tools:tickets:create' }, 'runs'],
    [15, { scope: 'tools:*:*' }, 'forbidden'],
    [16, { scope: null }, 'invalid_token'],
    [17, { scope: 'constructor __proto__ toString' }, 'forbidden'],
  ])('case %i: %j is %s', async (_number, claims, expected) => {
    authenticator = await open([issuer.settings({ scopeMap })]);
    expect(await call(claims)).toBe(expected);
  });

  test.each<[string, Minting['claims'], string]>([
    ['permissions', { permissions: ['tools:write'] }, 'runs'],
    ['realm_access.roles', { realm_access: { roles: ['tools:write'] } }, 'runs'],
    ['realm_access.roles', { realm_access: 'tools:write' }, 'invalid_token'],
    ['realm_access.roles', { realm_access: { roles: { a: 1 } } }, 'invalid_token'],
    ['https://x.test/roles', { 'https://x.test/roles': ['tools:write'] }, 'runs'],
    ['__proto__.roles', {}, 'forbidden'],
    ['constructor.name', {}, 'forbidden'],
  ])('the configured claim %s with %j: %s', async (claim, claims, expected) => {
    authenticator = await open([issuer.settings({ scopeMap, scopeClaims: [claim] })]);
    expect(await call(claims)).toBe(expected);
  });

  test('global wildcards count where the operator allows them, also out of a scope map', async () => {
    authenticator = await open([issuer.settings({ scopeMap: { all: ['tools:*:*'] } })]);
    expect(await call({ scope: 'all' })).toBe('forbidden');
    authenticator = await open([issuer.settings({ scopeMap: { all: ['tools:*:*'] } })], {
      globalWildcards: true,
    });
    expect(await call({ scope: 'all' })).toBe('runs');
  });

  test('grantsMax caps what is conferred, and alone opens admin scopes', async () => {
    const scope = 'tools:tickets:* tools:docs:* callgate:operate callgate:approve callgate:other';
    const actorOf = async () => {
      const result = await authenticator.authenticate(`Bearer ${await issuer.mint({ claims: { scope } })}`);
      return result.ok ? [result.value.grantsKey, [...result.value.adminScopes]] : result.error.code;
    };
    expect(await actorOf()).toEqual(['tools:docs:* tools:tickets:*', []]);
    expect(log.events.at(-1)).toMatchObject({ event: 'token.grants_ignored', fields: { ignoredGrants: 3 } });
    authenticator = await open([
      issuer.settings({ grantsMax: ['tools:docs:*:read', 'callgate:operate', 'callgate:other'] }),
    ]);
    expect(await actorOf()).toEqual(['tools:docs:*:read', ['callgate:operate']]);
    authenticator = await open([issuer.settings({ grantsMax: ['tools:*:*'] })]);
    expect(await actorOf()).toEqual(['tools:docs:* tools:tickets:*', []]);
    authenticator = await open([issuer.settings({ grantsMax: [] })]);
    expect(await actorOf()).toEqual(['', []]);
  });

  test('500 grants are read, 501 are refused', async () => {
    const many = (count: number) => Array.from({ length: count }, (_, n) => `tools:tickets:t${n}`);
    authenticator = await open([issuer.settings({ scopeMap: { most: many(500), more: many(501) } })]);
    expect(await call({ scope: 'most' })).toBe('forbidden');
    expect(await call({ scope: 'more' })).toBe('invalid_token');
  });
});

describe('verified tokens', () => {
  test('a known token is answered at once, and only as long as it lives', async () => {
    const header = `Bearer ${await issuer.mint()}`;
    expect(authenticator.authenticate(header)).toBeInstanceOf(Promise);
    await authenticator.authenticate(header);
    expect(authenticator.authenticate(header)).toMatchObject({ ok: true });
    time.advance((3600 + 30) * 1000 - 1);
    expect(authenticator.authenticate(header)).toMatchObject({ ok: true });
    time.advance(1);
    expect(await verdict(authenticator.authenticate(header))).toBe('invalid_token');
  });

  test('a known token is refused once its key is withdrawn', async () => {
    const header = `Bearer ${await issuer.mint()}`;
    expect(await verdict(authenticator.authenticate(header))).toBe('accepted');
    issuer.publish(issuer.makeKey('k2'));
    issuer.withdraw('k1');
    await authenticator.reload();
    expect(await verdict(authenticator.authenticate(header))).toBe('invalid_token');
  });

  test('a known token stays known while other keys come', async () => {
    const header = `Bearer ${await issuer.mint()}`;
    await authenticator.authenticate(header);
    issuer.publish(issuer.makeKey('k2'));
    await authenticator.reload();
    expect(await verdict(authenticator.authenticate(header))).toBe('accepted');
    expect(authenticator.authenticate(header)).toMatchObject({ ok: true });
  });

  test.each<[string, (issuer: string) => DenyLists]>([
    ['its jti', (name) => ({ tokens: [{ issuer: name, jti: 'j1' }], subjects: [], keys: [] })],
    ['its key', (name) => ({ tokens: [], subjects: [], keys: [{ issuer: name, kid: 'k1' }] })],
    [
      'its subject',
      (name) => ({
        tokens: [],
        subjects: [{ issuer: name, subject: 'user-1', issuedBeforeS: 1_800_000_001 }],
        keys: [],
      }),
    ],
  ])('a known token is refused once %s is denied, and so it is from the start', async (_what, lists) => {
    const header = `Bearer ${await issuer.mint({ claims: { jti: 'j1' } })}`;
    authenticator.deny(lists('https://other.test/'));
    expect(await verdict(authenticator.authenticate(header))).toBe('accepted');
    authenticator.deny(lists(issuer.issuer));
    expect(await verdict(authenticator.authenticate(header))).toBe('invalid_token');
    authenticator = await open([issuer.settings()], { deny: lists(issuer.issuer) });
    expect(await verdict(authenticator.authenticate(header))).toBe('invalid_token');
  });

  test('tokens issued from the moment on are not denied with those before it', async () => {
    authenticator.deny({
      tokens: [],
      keys: [],
      subjects: [{ issuer: issuer.issuer, subject: 'user-1', issuedBeforeS: 1_800_000_000 }],
    });
    expect(await presentMinted({})).toBe('accepted');
  });

  test('no part of a token and nothing it says reaches the log or a reason', async () => {
    const claims = { sub: 'canary-subject', scope: 'tools:canary-scope', nonce: 'canary-nonce', exp: 1 };
    const token = await issuer.mint({ claims, header: { kid: 'k1', x: 'canary-header' } });
    const result = await authenticator.authenticate(`Bearer ${token}`);
    const written = JSON.stringify([log.events, result]);
    expect(result).toMatchObject({ ok: false });
    expect(written).not.toContain('canary');
    for (const part of token.split('.')) expect(written).not.toContain(part.slice(0, 20));
  });
});
