import { type AuthorizationServer, processDiscoveryResponse } from 'oauth4webapi';
import { isObject } from '../../core/json.ts';
import type { CredentialSettings } from '../credential-settings.ts';
import { type OAuthFetch, reasonOf } from './oauth-fetch.ts';
import { TokenRefused } from './token-refused.ts';

/** Where tokens for a server are got, and what is asked for where the operator says nothing. */
export interface TokenEndpoint {
  readonly server: AuthorizationServer;
  readonly resource: string;
  readonly scope: string | undefined;
}

/** What a server says about its tokens (RFC 9728). */
interface Resource {
  readonly issuer: string;
  readonly resource: string;
  readonly scope: string | undefined;
}

/** What finding an endpoint needs. */
export interface EndpointDeps {
  readonly serverUrl: string;
  readonly fetch: OAuthFetch;
}

/** Scopes that a server may ask for. */
const scopesMax = 64;
/** Characters of a URL, an issuer or a scope that a server names. */
const namedCharsMax = 2_048;

/**
 * Finds the token endpoint for one server: as it is configured, or by the metadata of the configured authorization
 * server, or by those of the one that the MCP server names when it refuses a request (MCP 2025-11-25, authorization).
 */
export class EndpointFinder {
  readonly #settings: CredentialSettings;
  readonly #serverUrl: URL;
  readonly #fetch: OAuthFetch;
  #metadataUrl: string | undefined;
  #isChallenged = false;
  /** All that the server has asked for so far: a token for one tool must not be too small for the one before. */
  readonly #scopes = new Set<string>();
  #issuer: string | undefined;
  #found: TokenEndpoint | undefined;
  #looking: Promise<TokenEndpoint> | undefined;

  constructor(settings: CredentialSettings, { serverUrl, fetch }: EndpointDeps) {
    this.#settings = settings;
    this.#serverUrl = new URL(serverUrl);
    this.#fetch = fetch;
  }

  /** Whether nothing can be known before the server has refused a request. */
  get awaitsChallenge(): boolean {
    const { tokenUrl, issuer } = this.#settings;
    return tokenUrl === undefined && issuer === undefined && !this.#isChallenged;
  }

  /** Takes what the server says in its refusal (`WWW-Authenticate`). */
  note(challenge: string | undefined): void {
    this.#isChallenged = true;
    this.#metadataUrl = parameter(challenge, 'resource_metadata') ?? this.#metadataUrl;
    for (const scope of parameter(challenge, 'scope')?.split(' ') ?? []) {
      if (scope !== '' && this.#scopes.size < scopesMax) this.#scopes.add(scope);
    }
  }

  /** @throws TokenRefused */
  async find(signal: AbortSignal): Promise<TokenEndpoint> {
    this.#found ??= await this.#lookOnce(signal);
    const endpoint = this.#found;
    return this.#scopes.size === 0 ? endpoint : { ...endpoint, scope: [...this.#scopes].join(' ') };
  }

  /** What was found is of no use any more: whoever asks next has it looked for again. */
  forget(): void {
    this.#found = undefined;
  }

  #lookOnce(signal: AbortSignal): Promise<TokenEndpoint> {
    this.#looking ??= this.#look(signal).finally(() => {
      this.#looking = undefined;
    });
    return this.#looking;
  }

  async #look(signal: AbortSignal): Promise<TokenEndpoint> {
    const { tokenUrl, issuer } = this.#settings;
    // The query may hold a key of the server.
    const own = { resource: `${this.#serverUrl.origin}${this.#serverUrl.pathname}`, scope: undefined };
    if (tokenUrl !== undefined) {
      return { ...own, server: { issuer: issuer ?? tokenUrl, token_endpoint: tokenUrl } };
    }
    if (issuer !== undefined) return { ...own, server: await this.#metadata(issuer, signal) };
    const { issuer: named, ...about } = await this.#resource(signal);
    // A server that has been taken over must not lead the secret of its client to somebody else.
    if (this.#issuer !== undefined && this.#issuer !== named) {
      throw notFound(
        'the server names another authorization server than before: start callgate anew if that is right, or name it under "auth" ("issuer")',
      );
    }
    const server = await this.#metadata(named, signal);
    this.#issuer = named;
    return { ...about, server };
  }

  async #resource(signal: AbortSignal): Promise<Resource> {
    const named = this.#metadataUrl;
    const { origin, pathname } = this.#serverUrl;
    const wellKnown = `${origin}/.well-known/oauth-protected-resource`;
    const urls = named === undefined ? [`${wellKnown}${pathname}`, wellKnown] : [named];
    for (const url of new Set(urls.map(withoutSlash))) {
      const response = await this.#get(url, 'the metadata of the server', signal);
      if (response.status !== 200) continue;
      return this.#readResource(await response.text());
    }
    throw notFound(
      'the server refuses requests without a token, and does not say where to get one: name its authorization server under "auth" ("issuer" or "tokenUrl")',
    );
  }

  #readResource(text: string): Resource {
    const value = parseObject(text);
    const { resource, authorization_servers: servers, scopes_supported: scopes } = value ?? {};
    if (typeof resource !== 'string' || !covers(resource, this.#serverUrl))
      throw notFound(
        'the metadata of the server are for another resource than its URL, so they are not its own',
      );
    const issuer: unknown = Array.isArray(servers) ? servers[0] : undefined;
    if (!isShortText(issuer) || !URL.canParse(issuer))
      throw notFound('the metadata of the server name no authorization server');
    const scope = Array.isArray(scopes) ? scopes.join(' ') : undefined;
    return { issuer, resource, scope: isShortText(scope) ? scope : undefined };
  }

  async #metadata(issuer: string, signal: AbortSignal): Promise<AuthorizationServer> {
    for (const url of metadataUrls(new URL(issuer))) {
      const response = await this.#get(url, 'the metadata of its authorization server', signal);
      if (response.status !== 200) continue;
      try {
        const server = await processDiscoveryResponse(new URL(issuer), response);
        if (typeof server.token_endpoint === 'string' && URL.canParse(server.token_endpoint)) return server;
      } catch {
        throw notFound(
          'the metadata of the authorization server are not what RFC 8414 says, or name another issuer',
        );
      }
      throw notFound('the metadata of the authorization server name no token endpoint');
    }
    throw notFound(
      'the authorization server has no metadata: name its token endpoint under "auth" ("tokenUrl")',
    );
  }

  async #get(url: string, what: string, signal: AbortSignal): Promise<Response> {
    let response: Response;
    try {
      response = await this.#fetch(url, { headers: { accept: 'application/json' }, signal });
    } catch (error) {
      throw notFound(`${what}: ${reasonOf(error, signal)}`);
    }
    if (response.status >= 500) throw notFound(`${what}: HTTP ${response.status}`);
    return response;
  }
}

const notFound = (detail: string): TokenRefused =>
  new TokenRefused('its authorization server could not be found out', detail);

/** The places of RFC 8414 and OpenID Connect, in the order that MCP wants. */
function metadataUrls({ origin, pathname }: URL): readonly string[] {
  const path = withoutSlash(pathname);
  const wellKnown = (name: string): string => `${origin}/.well-known/${name}${path}`;
  return [
    wellKnown('oauth-authorization-server'),
    wellKnown('openid-configuration'),
    ...(path === '' ? [] : [`${origin}${path}/.well-known/openid-configuration`]),
  ];
}

const withoutSlash = (text: string): string => text.replace(/\/$/, '');

/** Whether metadata for this resource speak of the server: of its URL, or of what its URL lies under. */
function covers(resource: string, server: URL): boolean {
  if (!isShortText(resource) || !URL.canParse(resource)) return false;
  const { origin, pathname } = new URL(resource);
  return origin === server.origin && `${server.pathname}/`.startsWith(`${withoutSlash(pathname)}/`);
}

/** One parameter of a challenge (RFC 9110 11.6.1). */
function parameter(challenge: string | undefined, name: 'resource_metadata' | 'scope'): string | undefined {
  const pattern = new RegExp(`(?:^|[\\s,])${name}\\s*=\\s*(?:"([^"]*)"|([^\\s,"]+))`, 'i');
  const [, quoted, plain] = pattern.exec(challenge ?? '') ?? [];
  const value = quoted ?? plain;
  return isShortText(value) ? value : undefined;
}

const isShortText = (value: unknown): value is string =>
  typeof value === 'string' && value !== '' && value.length <= namedCharsMax;

function parseObject(text: string): Readonly<Record<string, unknown>> | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return isObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}
