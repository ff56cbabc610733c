import { type KeyObject, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { jwtVerify } from 'jose';

/** How the token endpoint behaves. */
export type TokenBehaviour =
  | 'issue'
  | 'deny'
  | 'echo'
  | 'hang'
  | 'html'
  | 'empty'
  | 'dpop'
  | 'redirect'
  | 'huge'
  | 'busy'
  | 'cut';

/** A request that reached the token endpoint. */
export interface TokenAsked {
  readonly parameters: Readonly<Record<string, string>>;
  readonly authorization: string | undefined;
}

interface Issued {
  readonly subject: string;
  readonly audience: string | undefined;
  readonly scopes: readonly string[];
}

/** A client that may ask for tokens. */
export interface TestClient {
  readonly secret?: string;
  readonly publicKey?: KeyObject;
}

const exchangeGrant = 'urn:ietf:params:oauth:grant-type:token-exchange';
const json = { 'content-type': 'application/json', 'cache-control': 'no-store' };

/** An authorization server on loopback with opaque tokens, which counts its requests and can misbehave. */
export class AuthorizationServer {
  readonly clients = new Map<string, TestClient>();
  /** Who is behind each token that may be exchanged. */
  readonly subjects = new Map<string, string>();
  readonly asked: TokenAsked[] = [];
  /** Paths of all other requests. */
  readonly looked: string[] = [];
  behaviour: TokenBehaviour = 'issue';
  lifeS: number | undefined = 3_600;
  /** Members of its metadata over the usual ones. */
  metadata: Readonly<Record<string, unknown>> = {};
  metadataPath = '/.well-known/oauth-authorization-server';
  /** Whether one token is given out again and again. */
  repeatsItself = false;
  /** Text of `error` and `error_description` where it denies. */
  denial = { error: 'invalid_scope', error_description: 'no such scope' };
  origin = '';
  readonly #issued = new Map<string, Issued>();
  readonly #waiting: { readonly isMet: () => boolean; readonly resolve: () => void }[] = [];
  readonly #server = createServer((request, response) => void this.#handle(request, response));
  #held: Promise<void> | undefined;

  static async start(): Promise<AuthorizationServer> {
    const server = new AuthorizationServer();
    server.#server.listen(0, '127.0.0.1');
    await once(server.#server, 'listening');
    server.origin = `http://127.0.0.1:${(server.#server.address() as AddressInfo).port}`;
    return server;
  }

  get tokenUrl(): string {
    return `${this.origin}/token`;
  }

  /** Who may use a token at a server with this URL. */
  subjectOf(token: string | undefined, audience: string): string | undefined {
    const issued = this.#issued.get(token ?? '');
    return issued?.audience === audience ? issued.subject : undefined;
  }

  hasScope(token: string | undefined, scope: string): boolean {
    return this.#issued.get(token ?? '')?.scopes.includes(scope) ?? false;
  }

  /** Every token that it has given out so far is worth nothing from now on. */
  revokeAll(): void {
    this.#issued.clear();
  }

  /** Leaves token requests without an answer until the function that it gives is called. */
  hold(): () => void {
    let release = (): void => {};
    this.#held = new Promise((resolve) => {
      release = resolve;
    });
    return release;
  }

  /** Resolves when the condition holds; looked at after each request. */
  when(isMet: () => boolean): Promise<void> {
    return new Promise((resolve) => {
      this.#waiting.push({ isMet, resolve });
      this.#check();
    });
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    if (!this.#server.listening) return;
    this.#server.close();
    await once(this.#server, 'close');
  }

  #check(): void {
    for (const { isMet, resolve } of this.#waiting) if (isMet()) resolve();
  }

  async #handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (request.url === '/token' && request.method === 'POST') {
      let body = '';
      for await (const chunk of request) body += String(chunk);
      const parameters = Object.fromEntries(new URLSearchParams(body));
      this.asked.push({ parameters, authorization: request.headers.authorization });
      this.#check();
      await this.#held;
      return this.#answer({ parameters, authorization: request.headers.authorization }, response);
    }
    this.looked.push(request.url ?? '');
    this.#check();
    if (request.url !== this.metadataPath) {
      response.writeHead(404).end();
      return;
    }
    const metadata = { issuer: this.origin, token_endpoint: this.tokenUrl, ...this.metadata };
    response.writeHead(200, json).end(JSON.stringify(metadata));
  }

  async #answer(asked: TokenAsked, response: ServerResponse): Promise<void> {
    const refuse = (status: number, body: object, headers: object = {}): void =>
      void response.writeHead(status, { ...json, ...headers }).end(JSON.stringify(body));
    switch (this.behaviour) {
      case 'issue':
      case 'dpop':
        return this.#issue(asked, response, refuse);
      case 'deny':
        return refuse(400, this.denial);
      case 'echo':
        // What a careless server says: everything that it was sent.
        return refuse(400, {
          error: `${asked.parameters.subject_token}`,
          error_description: JSON.stringify(asked),
        });
      case 'busy':
        return refuse(503, {}, { 'retry-after': '120' });
      case 'hang':
        return;
      case 'html':
        response.writeHead(200, { 'content-type': 'text/html' }).end('<title>Sign in</title>');
        return;
      case 'empty':
        response.writeHead(200, json).end('{}');
        return;
      case 'redirect':
        response.writeHead(307, { location: `${this.origin}/elsewhere` }).end();
        return;
      case 'huge':
        response.writeHead(200, json).end(Buffer.alloc(1_000_000, ' '));
        return;
      case 'cut':
        response.destroy();
        return;
      default:
        this.behaviour satisfies never;
    }
  }

  async #issue(
    { parameters, authorization }: TokenAsked,
    response: ServerResponse,
    refuse: (status: number, body: object, headers?: object) => void,
  ): Promise<void> {
    const client = await this.#clientOf(parameters, authorization);
    if (client === undefined)
      return refuse(401, { error: 'invalid_client' }, { 'www-authenticate': 'Basic realm="tokens"' });
    const isExchange = parameters.grant_type === exchangeGrant;
    const subject = isExchange ? this.subjects.get(parameters.subject_token ?? '') : client;
    if (subject === undefined)
      return refuse(400, { error: 'invalid_grant', error_description: 'not a token of mine' });
    const known = this.repeatsItself
      ? [...this.#issued].find(([, issued]) => issued.subject === subject)
      : undefined;
    const token = known?.[0] ?? `opaque-${randomUUID()}`;
    const { audience = parameters.resource, scope = '' } = parameters;
    this.#issued.set(token, { subject, audience, scopes: scope.split(' ') });
    const answer = {
      access_token: token,
      token_type: this.behaviour === 'dpop' ? 'DPoP' : 'Bearer',
      expires_in: this.lifeS,
      ...(isExchange && { issued_token_type: 'urn:ietf:params:oauth:token-type:access_token' }),
    };
    response.writeHead(200, json).end(JSON.stringify(answer));
  }

  async #clientOf(
    parameters: TokenAsked['parameters'],
    authorization: string | undefined,
  ): Promise<string | undefined> {
    if (parameters.client_assertion !== undefined) return this.#verifyAssertion(parameters);
    const basic = /^Basic (.+)$/.exec(authorization ?? '')?.[1];
    const [id = '', secret] =
      basic === undefined
        ? [parameters.client_id, parameters.client_secret]
        : atob(basic)
            .split(':')
            .map((part) => decodeURIComponent(part.replaceAll('+', ' ')));
    const known = this.clients.get(id)?.secret;
    return known !== undefined && known === secret ? id : undefined;
  }

  async #verifyAssertion({ client_id: id = '', client_assertion: assertion = '' }: TokenAsked['parameters']) {
    const { publicKey } = this.clients.get(id) ?? {};
    if (publicKey === undefined) return undefined;
    try {
      await jwtVerify(assertion, publicKey, {
        issuer: id,
        subject: id,
        audience: [this.origin, this.tokenUrl],
        requiredClaims: ['jti', 'exp'],
      });
      return id;
    } catch {
      return undefined;
    }
  }
}
