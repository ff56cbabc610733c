import { HttpFault, type HttpFaultFacts } from '../fault.ts';
import { errorCodeReader, mediaType, retryAfterMs } from './http-body.ts';
import type { OutgoingRequest } from './http-pool.ts';
import type { BodyReader, ResponseControl, ResponseHead } from './http-response.ts';

/** The server wants other credentials; nothing was run. */
export class Unauthorized extends HttpFault {
  /** Its `WWW-Authenticate` header. */
  readonly challenge: string | undefined;

  constructor(reason: string, facts: HttpFaultFacts, challenge: string | undefined) {
    super('refused', reason, facts);
    this.challenge = challenge;
  }
}

/** How long the body of an HTTP error may take, in which there may be a code. */
const errorBodyMs = 1_000;

/** HTTP statuses that say, by contract, that nothing was run. */
const refusals: Readonly<Record<number, string>> = {
  401: 'it refused the configured credentials (HTTP 401)',
  403: 'it refused the configured credentials (HTTP 403)',
  404: 'there is no MCP endpoint at its URL (HTTP 404)',
  405: 'its URL does not take MCP messages (HTTP 405)',
  406: 'it cannot answer in the media types of MCP (HTTP 406)',
  415: 'it does not read JSON (HTTP 415)',
  429: 'it limits the rate of requests (HTTP 429)',
};

/**
 * Reads a response whose status is no success: the outcome is always a fault.
 * @param request what it responds to
 * @throws HttpFault
 */
export function statusReader(
  head: ResponseHead,
  request: OutgoingRequest,
  control: Pick<ResponseControl<never>, 'limit'>,
): BodyReader<never> {
  const { status, headers } = head;
  if (status === 404 && isOfSession(request))
    throw new HttpFault('session_lost', 'it no longer knows the session');
  const facts = { status, retryAfterMs: retryAfterMs(headers['retry-after']) };
  if (status < 400) {
    throw new HttpFault(
      'refused',
      `it redirects to another URL (HTTP ${status}), which is not followed`,
      facts,
    );
  }
  const refusal = refusals[status];
  if (refusal !== undefined) {
    // A server that does not know the method says 404 as well (2026-07-28), and in the body that it is that.
    if (status === 404 && mediaType(head) === 'application/json') {
      control.limit(errorBodyMs);
      return errorCodeReader(head, (rpcCode) => new HttpFault('refused', refusal, { ...facts, rpcCode }));
    }
    const challenge = challengeOf(headers);
    const wantsOthers = status === 401 || (status === 403 && challenge?.includes('insufficient_scope'));
    throw wantsOthers
      ? new Unauthorized(refusal, facts, challenge)
      : new HttpFault('refused', refusal, facts);
  }
  const fault = (rpcCode: number | undefined): HttpFault =>
    new HttpFault('status', `it answered with HTTP ${status}`, { ...facts, rpcCode });
  if (mediaType(head) !== 'application/json') throw fault(undefined);
  control.limit(errorBodyMs);
  return errorCodeReader(head, fault);
}

/** Its challenges in one text. Each may have a header of its own, which the types of Node do not know. */
function challengeOf(headers: ResponseHead['headers']): string | undefined {
  const challenges: string | readonly string[] | undefined = headers['www-authenticate'];
  return challenges === undefined ? undefined : [challenges].flat().join(', ');
}

/** Over HTTP+SSE the endpoint that the server named is its session. */
const isOfSession = ({ headers, isSession = false }: OutgoingRequest): boolean =>
  isSession || 'mcp-session-id' in headers;
