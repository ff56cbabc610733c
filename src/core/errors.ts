/**
 * The codes of callgate, in one table each. They are part of the API: a code is never renamed and never changes
 * its meaning. A test holds these tables against `openapi.yaml` and `docs/codes.md`.
 */

/** Errors of an HTTP request, answered as RFC 9457 problem details. */
export const problemCodes = {
  invalid_request: { status: 400, title: 'The request is not valid' },
  unauthenticated: { status: 401, title: 'No credentials were sent' },
  invalid_token: { status: 401, title: 'The token was not accepted' },
  insufficient_scope: { status: 403, title: 'The token lacks a scope that this route needs' },
  not_found: { status: 404, title: 'There is no such resource' },
  method_not_allowed: { status: 405, title: 'This resource does not know the method' },
  not_acceptable: { status: 406, title: 'The answer is not available in the accepted media types' },
  conflict: { status: 409, title: 'The resource is not in a state that allows this' },
  payload_too_large: { status: 413, title: 'The body is too large' },
  unsupported_media_type: { status: 415, title: 'The body has a media type that is not read here' },
  headers_too_large: { status: 431, title: 'The request headers are too large' },
  internal: { status: 500, title: 'callgate failed on this request' },
  overloaded: { status: 503, title: 'callgate has no room for the request at present' },
  draining: { status: 503, title: 'callgate is shutting down' },
  ledger_unavailable: { status: 503, title: 'The ledger cannot be written at present' },
  keys_unavailable: { status: 503, title: 'The keys of the token issuer cannot be fetched' },
} as const satisfies Record<string, { status: number; title: string }>;

export type ProblemCode = keyof typeof problemCodes;

/** What a final call is. `unknown` is the honest answer where the effect may or may not have happened. */
export type CallStatus = 'succeeded' | 'failed' | 'rejected' | 'not_sent' | 'unknown';

interface OutcomeCodeFacts {
  /** The state in which a call with this code ends; where several are possible, the usual one. */
  readonly status: CallStatus;
  /** Whether the tool may have run. */
  readonly mayHaveExecuted: boolean;
  /** Whether sending the same call again can help without any change to it. */
  readonly retryable: boolean;
}

/** Errors of one call, answered as its output with HTTP 200. */
export const outcomeCodes = {
  unknown_tool: { status: 'rejected', mayHaveExecuted: false, retryable: false },
  forbidden: { status: 'rejected', mayHaveExecuted: false, retryable: false },
  invalid_arguments: { status: 'rejected', mayHaveExecuted: false, retryable: false },
  call_id_reused: { status: 'rejected', mayHaveExecuted: false, retryable: false },
  rate_limited: { status: 'not_sent', mayHaveExecuted: false, retryable: true },
  server_busy: { status: 'not_sent', mayHaveExecuted: false, retryable: true },
  ledger_unavailable: { status: 'not_sent', mayHaveExecuted: false, retryable: true },
  server_unavailable: { status: 'not_sent', mayHaveExecuted: false, retryable: true },
  tool_error: { status: 'failed', mayHaveExecuted: true, retryable: false },
  server_error: { status: 'failed', mayHaveExecuted: true, retryable: false },
  protocol_error: { status: 'unknown', mayHaveExecuted: true, retryable: false },
  output_too_large: { status: 'unknown', mayHaveExecuted: true, retryable: false },
  input_required: { status: 'failed', mayHaveExecuted: true, retryable: false },
  timeout: { status: 'unknown', mayHaveExecuted: true, retryable: false },
  connection_lost: { status: 'unknown', mayHaveExecuted: true, retryable: false },
  cancelled: { status: 'unknown', mayHaveExecuted: true, retryable: false },
  interrupted: { status: 'unknown', mayHaveExecuted: true, retryable: false },
  call_expired: { status: 'unknown', mayHaveExecuted: true, retryable: false },
} as const satisfies Record<string, OutcomeCodeFacts>;

export type OutcomeCode = keyof typeof outcomeCodes;
