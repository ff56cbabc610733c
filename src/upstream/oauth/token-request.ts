import { importPKCS8 } from 'jose';
import {
  type AuthorizationServer,
  allowInsecureRequests,
  type ClientAuth,
  ClientSecretPost,
  customFetch,
  genericTokenEndpointRequest,
  modifyAssertion,
  PrivateKeyJwt,
  processGenericTokenEndpointResponse,
  type TokenEndpointResponse,
} from 'oauth4webapi';
import { isObject } from '../../core/json.ts';
import type { Redact } from '../../core/redact.ts';
import { Secret } from '../../core/secret.ts';
import type { ClientAuthentication, CredentialSettings } from '../credential-settings.ts';
import { retryAfterMs } from '../http/http-body.ts';
import { shown } from '../shown.ts';
import type { TokenEndpoint } from './endpoint.ts';
import { type OAuthFetch, reasonOf } from './oauth-fetch.ts';
import { TokenRefused } from './token-refused.ts';
import type { IssuedToken } from './token-source.ts';

/** What is asked for: a token of callgate's own, or one for the caller who showed this token. */
export type Grant =
  | { readonly kind: 'client_credentials' }
  | { readonly kind: 'token_exchange'; readonly subject: Secret };

/** What token requests need. */
export interface TokenRequestDeps {
  readonly fetch: OAuthFetch;
  readonly redact: Redact;
}

const grantTypes = {
  client_credentials: 'client_credentials',
  token_exchange: 'urn:ietf:params:oauth:grant-type:token-exchange',
} as const;
const accessTokenType = 'urn:ietf:params:oauth:token-type:access_token';
/** What RFC 8693 allows to call an access token. */
const accessTokenTypes: readonly unknown[] = [
  undefined,
  accessTokenType,
  'urn:ietf:params:oauth:token-type:jwt',
];
/** How long a token is used whose authorization server does not say how long it lives. */
const unknownLifeMs = 300_000;
const lifeMsMin = 5_000;
const lifeMsMax = 86_400_000;
/** The longest time that an authorization server is taken at its word for. */
const retryAfterMsMax = 300_000;
const detailCharsMax = 500;
/** Characters of a header that a token may have. */
const tokenText = /^[\x21-\x7e]{1,16384}$/;

/** What to do about the errors that RFC 6749, 8693 and 8707 name; they are the only ones that are repeated. */
const advice: Readonly<Record<string, string>> = {
  invalid_client: 'check "clientId", the secret or key, and "clientAuthentication" under "auth"',
  invalid_grant:
    'it does not take the token of the caller: see that it trusts the issuer, and lets this client exchange its tokens',
  invalid_request:
    'it lacks something, or does not take something, that is sent: compare "auth" with what it asks of its clients',
  invalid_scope: 'check "scope" under "auth"',
  invalid_target: 'check "audience" and "resource" under "auth"',
  unauthorized_client: 'allow this client that grant there',
  unsupported_grant_type: 'allow this client that grant there, or take another "type" under "auth"',
  access_denied: 'its own rules forbid it',
};

/** Asks the token endpoint of an authorization server for tokens, as one client. */
export class TokenRequest {
  readonly #settings: CredentialSettings;
  readonly #deps: TokenRequestDeps;
  #authentication: Promise<ClientAuth> | undefined;

  constructor(settings: CredentialSettings, deps: TokenRequestDeps) {
    this.#settings = settings;
    this.#deps = deps;
  }

  /** @throws TokenRefused */
  async send(endpoint: TokenEndpoint, grant: Grant, signal: AbortSignal): Promise<IssuedToken> {
    const { server } = endpoint;
    const client = { client_id: this.#settings.clientId };
    this.#authentication ??= clientAuthentication(this.#settings.authentication);
    const authentication = await this.#authentication;
    let response: Response;
    try {
      response = await genericTokenEndpointRequest(
        server,
        client,
        authentication,
        grantTypes[grant.kind],
        this.#parameters(endpoint, grant),
        // Which URLs may be plain http is the business of this fetch.
        { [customFetch]: this.#deps.fetch, [allowInsecureRequests]: true, signal },
      );
    } catch (error) {
      const reason = reasonOf(error, signal);
      throw new TokenRefused(`its authorization server gave no token: ${reason}`, reason);
    }
    if (response.status !== 200) throw await this.#refusal(response, grant);
    return read(await parse(server, client, response), grant);
  }

  #parameters({ resource, scope }: TokenEndpoint, grant: Grant): URLSearchParams {
    const { audience } = this.#settings;
    const wanted = {
      scope: this.#settings.scope ?? scope,
      audience,
      // Some authorization servers take only one of the two.
      resource: this.#settings.resource ?? (audience === undefined ? resource : undefined),
      ...(grant.kind === 'token_exchange' && {
        subject_token: grant.subject.reveal(),
        subject_token_type: accessTokenType,
        requested_token_type: accessTokenType,
      }),
    };
    return new URLSearchParams(
      Object.entries(wanted).filter((entry): entry is [string, string] => entry[1] !== undefined),
    );
  }

  async #refusal(response: Response, { kind }: Grant): Promise<TokenRefused> {
    const { status } = response;
    const { code, description } = errorIn(await response.text());
    const known = code !== undefined && Object.hasOwn(advice, code) ? code : undefined;
    const reason = known ?? `HTTP ${status}`;
    const what = kind === 'token_exchange' ? 'to exchange the token of the caller' : 'callgate a token';
    const hint = advice[known ?? (status === 401 ? 'invalid_client' : '')];
    const words = description === undefined ? undefined : `it says: ${this.#safe(description)}`;
    const detail = [`HTTP ${status}`, hint, words].filter((part) => part !== undefined).join('; ');
    const retryMs = retryAfterMs(response.headers.get('retry-after') ?? undefined);
    return new TokenRefused(`its authorization server refused ${what} (${reason})`, detail, {
      isDecision: known !== undefined,
      retryAfterMs: Math.min(retryMs ?? 0, retryAfterMsMax),
    });
  }

  /** The words of an authorization server, which may repeat what it was sent: anything like a token is left out. */
  #safe(text: string): string {
    return shown(text, this.#deps.redact, detailCharsMax).replace(/[\w.~+/=-]{20,}/g, '[...]');
  }
}

const errorIn = (
  body: string,
): { readonly code?: string | undefined; readonly description?: string | undefined } => {
  try {
    const parsed: unknown = JSON.parse(body);
    if (!isObject(parsed)) return {};
    const { error, error_description: description } = parsed;
    return {
      code: typeof error === 'string' ? error : undefined,
      description: typeof description === 'string' ? description : undefined,
    };
  } catch {
    return {};
  }
};

async function parse(
  server: AuthorizationServer,
  client: { readonly client_id: string },
  response: Response,
): Promise<TokenEndpointResponse> {
  try {
    return await processGenericTokenEndpointResponse(server, client, response);
  } catch (error) {
    // What the error carries beside its message may be the token.
    throw notOAuth(error instanceof Error ? error.message : String(error));
  }
}

function read(answer: TokenEndpointResponse, { kind }: Grant): IssuedToken {
  const { access_token: token, token_type: type, expires_in: lifeS, issued_token_type: issued } = answer;
  if (type !== 'bearer') throw notOAuth('its token is not of the type "Bearer", the only one that MCP knows');
  if (kind === 'token_exchange' && !accessTokenTypes.includes(issued))
    throw notOAuth('it gave something else than an access token ("issued_token_type")');
  if (!tokenText.test(token)) throw notOAuth('its token cannot be sent in a header');
  const lifeMs = lifeS === undefined ? unknownLifeMs : lifeS * 1_000;
  return { token: new Secret(token), lifeMs: Math.min(Math.max(lifeMs, lifeMsMin), lifeMsMax) };
}

const notOAuth = (detail: string): TokenRefused =>
  new TokenRefused('its authorization server did not answer in the way of OAuth', detail);

async function clientAuthentication(settings: ClientAuthentication): Promise<ClientAuth> {
  switch (settings.method) {
    case 'client_secret_basic':
      return basic(settings.secret);
    case 'client_secret_post':
      return ClientSecretPost(settings.secret);
    case 'private_key_jwt': {
      const { privateKey, algorithm, keyId } = settings;
      const key = await importPKCS8(privateKey, algorithm);
      return PrivateKeyJwt(keyId === undefined ? key : { key, kid: keyId }, {
        // Hardly any authorization server knows Ed25519 under its newer name.
        [modifyAssertion]: (header) => {
          header.alg = algorithm;
        },
      });
    }
    default:
      return settings satisfies never;
  }
}

/**
 * RFC 6749 2.3.1. The library's own also escapes what need not be, such as the hyphen, which authorization servers that
 * decode nothing then take for part of the name.
 */
const basic =
  (secret: string): ClientAuth =>
  (_server, client, _body, headers) => {
    const pair = [client.client_id, secret].map(formEncoded).join(':');
    headers.set('authorization', `Basic ${btoa(pair)}`);
  };

const formEncoded = (text: string): string => new URLSearchParams({ '': text }).toString().slice(1);
