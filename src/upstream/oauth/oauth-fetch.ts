import { HttpFault } from '../fault.ts';
import { AddressRefused, type Outbound, type OutboundRequest } from '../http/outbound.ts';

/** One request to an authorization server, or for metadata; the answer has come whole. */
export type OAuthFetch = (url: string, request: OutboundRequest) => Promise<Response>;

/** The answer was a redirect. */
class Redirected extends Error {}

/**
 * Sends a request where its URL may lead: an origin that the operator wrote is reached by the operator's rules, any other
 * by those for URLs that were found out (MT-8).
 */
export function createOAuthFetch(
  written: readonly string[],
  outbound: Readonly<Record<'operator' | 'discovered', Outbound>>,
): OAuthFetch {
  const origins = new Set(written.map((url) => new URL(url).origin));
  return async (url, request) => {
    const writtenBy = origins.has(new URL(url).origin) ? 'operator' : 'discovered';
    const response = await outbound[writtenBy].fetch(url, request);
    if (response.status < 300 || response.status >= 400) return response;
    throw new Redirected(`it redirects (HTTP ${response.status}), which is not followed`);
  };
}

/** Says why a request came to nothing, in words for anybody that hold nothing of what was sent. */
export function reasonOf(error: unknown, signal: AbortSignal): string {
  if (signal.aborted) return 'it did not answer in time';
  if (error instanceof AddressRefused || error instanceof Redirected || error instanceof HttpFault)
    return error.message;
  const code = error instanceof Error && 'code' in error ? ` (${String(error.code).slice(0, 40)})` : '';
  return `it could not be reached${code}`;
}
