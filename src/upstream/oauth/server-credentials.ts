import { LRUCache } from 'lru-cache';
import type { EventLog } from '../../core/events.ts';
import { isLoopbackHost } from '../../core/hosts.ts';
import type { Redact } from '../../core/redact.ts';
import type { Secret } from '../../core/secret.ts';
import type { CredentialSettings } from '../credential-settings.ts';
import type { Credentials } from '../credentials.ts';
import { createOutbound } from '../http/outbound.ts';
import { LimitedLog } from '../limited-log.ts';
import { EndpointFinder } from './endpoint.ts';
import { createOAuthFetch } from './oauth-fetch.ts';
import { TokenRefused } from './token-refused.ts';
import { type Grant, TokenRequest } from './token-request.ts';
import { type IssuedToken, type Subject, TokenSource } from './token-source.ts';

/** What the credentials of a server need from outside. */
export interface CredentialDeps {
  readonly alias: string;
  readonly serverUrl: string;
  readonly log: EventLog;
  readonly redact: Redact;
  readonly monotonicMs: () => number;
  /** How long the server itself may take to be reached: its token takes no longer. */
  readonly connectTimeoutMs: number;
}

/** The credentials for one server. */
export interface ServerCredentials {
  /** For the server's own connection. */
  readonly own: Credentials;
  /**
   * For a connection that belongs to one actor.
   * @param actor who it is, in one text; never anything of a token
   * @param token the token that the actor showed last
   */
  forCaller(actor: string, token: () => Secret | undefined): Credentials;
  /** Ends the requests that are on their way. */
  close(): Promise<void>;
}

/** For a token, with all the metadata that are read for it. */
const limitMsMax = 10_000;
/** Actors whose tokens are kept; for one that was dropped a new one is asked for. */
const actorsMax = 1_000;

/** Makes the credentials of a server whose tokens come from an authorization server. */
export function createCredentials(settings: CredentialSettings, deps: CredentialDeps): ServerCredentials {
  const { alias, serverUrl, redact, monotonicMs } = deps;
  const limitMs = Math.min(limitMsMax, deps.connectTimeoutMs);
  const written = [serverUrl, settings.issuer, settings.tokenUrl].filter((url) => url !== undefined);
  const allowLoopback = written.some((url) => isLoopbackHost(new URL(url).hostname));
  const outboundBy = (writtenBy: 'operator' | 'discovered') =>
    createOutbound({ rules: { writtenBy, allowLoopback }, connectTimeoutMs: limitMs });
  const outbound = { operator: outboundBy('operator'), discovered: outboundBy('discovered') };
  const fetch = createOAuthFetch(written, outbound);
  const endpoint = new EndpointFinder(settings, { serverUrl, fetch });
  const tokens = new TokenRequest(settings, { fetch, redact });
  const log = new LimitedLog(deps.log, monotonicMs);

  const ask = async (grant: Grant): Promise<IssuedToken> => {
    const signal = AbortSignal.timeout(limitMs);
    const found = await endpoint.find(signal);
    try {
      return await tokens.send(found, grant, signal);
    } catch (error) {
      if (!(error instanceof TokenRefused && error.facts.isDecision === true)) endpoint.forget();
      throw error;
    }
  };
  const sourceOf = (request: (subject: Secret | undefined) => Promise<IssuedToken>): TokenSource =>
    new TokenSource({
      request,
      monotonicMs,
      onRefused: ({ message, detail }, failures, retryInMs) =>
        log.write('warn', 'server.token_refused', () => ({
          server: alias,
          reason: message,
          detail,
          failures,
          retry_in_ms: retryInMs,
        })),
    });

  const credentialsOf = (source: TokenSource, subject: Subject): Credentials => ({
    headers: () => (endpoint.awaitsChallenge ? {} : source.headers(subject)),
    renew(refused, challenge) {
      endpoint.note(challenge);
      return source.renew(refused, subject);
    },
  });
  const own = credentialsOf(
    sourceOf(() => ask({ kind: 'client_credentials' })),
    () => undefined,
  );

  const exchange = async (subject: Secret | undefined): Promise<IssuedToken> => {
    if (subject !== undefined) return ask({ kind: 'token_exchange', subject });
    throw new TokenRefused(
      'the caller showed no token that could be exchanged for one of this server',
      'no token',
    );
  };
  // By the actor and never by its token, of which it has a new one every few minutes.
  const actors = new LRUCache<string, TokenSource>({ max: actorsMax });
  const forCaller = (actor: string, token: Subject): Credentials => {
    if (settings.kind === 'client_credentials') return own;
    const source = actors.get(actor) ?? sourceOf(exchange);
    actors.set(actor, source);
    return credentialsOf(source, token);
  };

  return {
    own,
    forCaller,
    close: async () => {
      log.flush({ server: alias });
      await Promise.all([outbound.operator.close(), outbound.discovered.close()]);
    },
  };
}
