import type { Actor } from '../access/actor.ts';
import type { AuthResult } from '../auth/bearer.ts';
import { challenge } from '../auth/challenge.ts';
import type { Service } from './context.ts';
import type { IncomingRequest } from './exchange.ts';
import { Problem } from './problem.ts';

/**
 * The actor of a request; at once for a token that was verified before.
 * @throws Problem `unauthenticated`, `invalid_token`, `keys_unavailable` or `invalid_request`
 */
export function authenticate(
  request: IncomingRequest,
  service: Service,
  requestId: string,
): Actor | Promise<Actor> {
  const header = request.headers.get('authorization') ?? undefined;
  const metadataUrl = service.resourceMetadataUrl;
  // RFC 6750 2.3: a token in a URL ends in logs and histories; it is never read, and never beside another one.
  // Two Authorization headers arrive as one with a comma, which no bearer token holds.
  if (header !== undefined && (/[?&]access_token=/.test(request.url) || /^bearer .*,/i.test(header))) {
    throw new Problem(
      'invalid_request',
      'send the token once, in the Authorization header, and never in the URL',
      { headers: { 'www-authenticate': challenge({ metadataUrl, error: 'invalid_request' }) } },
    );
  }
  const result = service.authenticator.authenticate(header);
  return result instanceof Promise
    ? result.then((settled) => actorOf(settled, service, requestId))
    : actorOf(result, service, requestId);
}

function actorOf(result: AuthResult, service: Service, requestId: string): Actor {
  const metadataUrl = service.resourceMetadataUrl;
  if (result.ok) return result.value;
  switch (result.error.code) {
    case 'unauthenticated':
      throw unauthenticated(metadataUrl);
    case 'invalid_token':
      // The reason helps whoever forges tokens; it goes to the operator's log only.
      service.log.warn('token.refused', { request_id: requestId, reason: result.error.reason });
      throw new Problem('invalid_token', 'the bearer token was not accepted; get a new one from the issuer', {
        headers: { 'www-authenticate': challenge({ metadataUrl, error: 'invalid_token' }) },
      });
    case 'keys_unavailable':
      throw new Problem(
        'keys_unavailable',
        'the keys of the token issuer cannot be fetched at present; try again',
        { headers: { 'retry-after': String(result.error.retryAfterS) } },
      );
    default:
      return result.error satisfies never;
  }
}

const unauthenticated = (metadataUrl: string | undefined): Problem =>
  new Problem('unauthenticated', 'send a bearer token in the Authorization header', {
    headers: { 'www-authenticate': challenge({ metadataUrl }) },
  });

/** Refuses an actor without this admin scope. */
export function requireScope(actor: Actor, scope: string, service: Service): void {
  if (actor.adminScopes.has(scope)) return;
  throw new Problem(
    'insufficient_scope',
    `this route needs the scope ${scope}, from an issuer whose "grantsMax" names it`,
    {
      headers: {
        'www-authenticate': challenge({
          metadataUrl: service.resourceMetadataUrl,
          error: 'insufficient_scope',
          scope,
        }),
      },
    },
  );
}
