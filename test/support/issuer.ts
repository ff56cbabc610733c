import { generateKeyPairSync, type KeyObject, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { CompactSign } from 'jose';
import type { IssuerSettings } from '../../src/auth/settings.ts';

/** How the JWKS route of a test issuer behaves. */
export type IssuerBehaviour =
  | 'serve'
  | 'hang'
  | 'drip'
  | 'redirect'
  | 'huge'
  | 'html'
  | 'empty'
  | 'many'
  | 'failing';

type Jwk = Readonly<Record<string, unknown>>;

export interface Minting {
  /** Over the default claims; `undefined` removes one. */
  readonly claims?: Readonly<Record<string, unknown>>;
  /** Over the default header; `undefined` removes a member. */
  readonly header?: Readonly<Record<string, unknown>>;
  /** The key that signs; the first one made unless named. */
  readonly signedBy?: string;
}

/** An identity provider on loopback with a real JWKS route, which counts its requests and can misbehave. */
export interface TestIssuer {
  readonly issuer: string;
  readonly audience: string;
  readonly jwksUri: string;
  behaviour: IssuerBehaviour;
  /** Requests that reached the JWKS route. */
  readonly hits: () => number;
  /** Requests that reached any other route: nothing in a token may cause one (AUTH-7). */
  readonly strayHits: () => number;
  /** Makes a key; it verifies nothing before it is published. */
  makeKey(kid: string, algorithm?: 'RS256' | 'ES256' | 'EdDSA'): Jwk;
  publish(...keys: readonly Jwk[]): void;
  withdraw(kid: string): void;
  privateKey(kid: string): KeyObject;
  settings(changes?: Partial<IssuerSettings>): IssuerSettings;
  mint(minting?: Minting): Promise<string>;
  /** Refuses connections until `start`. */
  stop(): Promise<void>;
  start(): Promise<void>;
  close(): Promise<void>;
}

const algorithms = ['RS256', 'ES256', 'EdDSA'] as const;

/** Starts an issuer that publishes one ES256 key, `k1`. */
export async function startIssuer(nowMs: () => number = Date.now): Promise<TestIssuer> {
  const keys = new Map<string, { key: KeyObject; algorithm: string }>();
  let published: readonly Jwk[] = [];
  let hits = 0;
  let strayHits = 0;
  const server = createServer((request, response) => {
    if (request.url === '/jwks') {
      hits += 1;
      answer(response, testIssuer.behaviour, published);
    } else {
      strayHits += 1;
      response.writeHead(404).end();
    }
  });

  const stop = async (): Promise<void> => {
    server.closeAllConnections();
    if (!server.listening) return;
    server.close();
    await once(server, 'close');
  };
  const listen = async (port: number): Promise<void> => {
    server.listen(port, '127.0.0.1');
    await once(server, 'listening');
  };
  await listen(0);
  const { port } = server.address() as AddressInfo;
  const origin = `http://127.0.0.1:${port}`;

  const testIssuer: TestIssuer = {
    issuer: `${origin}/`,
    audience: 'https://callgate.test',
    jwksUri: `${origin}/jwks`,
    behaviour: 'serve',
    hits: () => hits,
    strayHits: () => strayHits,
    makeKey(kid, algorithm = 'ES256') {
      const { publicKey, privateKey } = generatePair(algorithm);
      keys.set(kid, { key: privateKey, algorithm });
      return { ...publicKey.export({ format: 'jwk' }), kid, alg: algorithm, use: 'sig' };
    },
    publish(...more) {
      published = [...published, ...more];
    },
    withdraw(kid) {
      published = published.filter((jwk) => jwk.kid !== kid);
    },
    privateKey(kid) {
      const pair = keys.get(kid);
      if (pair === undefined) throw new Error(`the test issuer has no key ${kid}`);
      return pair.key;
    },
    settings: (changes = {}) => ({
      issuer: testIssuer.issuer,
      audience: testIssuer.audience,
      keys: {
        kind: 'url',
        jwksUri: testIssuer.jwksUri,
        maxAgeMs: 300_000,
        cooldownMs: 30_000,
        timeoutMs: 5_000,
        staleMaxMs: 86_400_000,
      },
      algorithms,
      profile: 'rfc9068',
      scopeClaims: ['scope', 'scp'],
      scopeMap: {},
      grantsMax: undefined,
      lifetimeMaxS: 86_400,
      ...changes,
    }),
    async mint({ claims = {}, header = {}, signedBy = 'k1' } = {}) {
      const nowS = Math.floor(nowMs() / 1000);
      const { algorithm = 'ES256' } = keys.get(signedBy) ?? {};
      const payload = {
        iss: testIssuer.issuer,
        aud: testIssuer.audience,
        sub: 'user-1',
        client_id: 'backend-1',
        jti: randomUUID(),
        iat: nowS,
        exp: nowS + 3600,
        ...claims,
      };
      const protectedHeader = { alg: algorithm, typ: 'at+jwt', kid: signedBy, ...header };
      return new CompactSign(Buffer.from(JSON.stringify(payload)))
        .setProtectedHeader(JSON.parse(JSON.stringify(protectedHeader)) as { alg: string })
        .sign(testIssuer.privateKey(signedBy));
    },
    stop,
    start: () => listen(port),
    close: stop,
  };
  testIssuer.publish(testIssuer.makeKey('k1'));
  return testIssuer;
}

function generatePair(algorithm: (typeof algorithms)[number]): {
  publicKey: KeyObject;
  privateKey: KeyObject;
} {
  if (algorithm === 'RS256') return generateKeyPairSync('rsa', { modulusLength: 2048 });
  if (algorithm === 'EdDSA') return generateKeyPairSync('ed25519');
  return generateKeyPairSync('ec', { namedCurve: 'P-256' });
}

function answer(response: ServerResponse, behaviour: IssuerBehaviour, keys: readonly Jwk[]): void {
  const body = JSON.stringify({ keys });
  const json = { 'content-type': 'application/json' };
  switch (behaviour) {
    case 'serve':
      response.writeHead(200, json).end(body);
      return;
    case 'hang':
      return;
    case 'drip':
      // Never ends by itself: one blank at a time, each soon enough for a limit on idle time.
      response.writeHead(200, json);
      drip(response);
      return;
    case 'redirect':
      response.writeHead(302, { location: '/elsewhere' }).end();
      return;
    case 'huge':
      response.writeHead(200, json);
      pour(response);
      return;
    case 'html':
      response.writeHead(200, { 'content-type': 'text/html' }).end('<!doctype html><title>Sign in</title>');
      return;
    case 'empty':
      response.writeHead(200, json).end('{"keys":[]}');
      return;
    case 'many':
      response
        .writeHead(200, json)
        .end(JSON.stringify({ keys: Array.from({ length: 101 }, (_, n) => ({ ...keys[0], kid: `n${n}` })) }));
      return;
    case 'failing':
      response.writeHead(500, json).end(body);
      return;
    default:
      behaviour satisfies never;
  }
}

function drip(response: ServerResponse): void {
  const timer = setInterval(() => response.write(' '), 5);
  response.once('close', () => clearInterval(timer));
}

/** Pours blanks for as long as somebody reads them. */
function pour(response: ServerResponse): void {
  const blanks = Buffer.alloc(65_536, ' ');
  const more = (): void => {
    if (response.destroyed) return;
    if (response.write(blanks)) setImmediate(more);
    else response.once('drain', more);
  };
  more();
}
