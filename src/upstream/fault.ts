import type { OutcomeCode } from '../core/errors.ts';
import type { JsonObject } from '../core/json.ts';
import { limits } from '../core/limits.ts';
import type { Redact } from '../core/redact.ts';
import { localFault } from './answer-faults.ts';
import { CallCancelled, CallTimeout, ConnectionEnded } from './call-channel.ts';
import type { TimeLimit } from './deadline.ts';
import { shown } from './shown.ts';
import { NotSentError } from './stdio/batch-writer.ts';

/**
 * What this process itself saw go wrong in an exchange over HTTP.
 * - `unreachable`: no connection came about, so nothing was sent
 * - `refused`: the HTTP status says that the request was turned away before anything was run
 * - `session_lost`: refused, because the server no longer knows the session
 * - `cut`: sent, and the connection or the answer's stream ended before the answer
 * - `malformed`: an answer came that is not MCP
 * - `oversize`: the answer passed the cap on bytes
 * - `status`: an HTTP error status that proves nothing about what was run
 */
export type HttpFaultKind =
  | 'unreachable'
  | 'refused'
  | 'session_lost'
  | 'cut'
  | 'malformed'
  | 'oversize'
  | 'status';

/** What an HTTP error status came with. */
export interface HttpFaultFacts {
  readonly status?: number;
  /** The code of a JSON-RPC error in the body of an HTTP error; nothing else of such a body is ever kept (MT-13). */
  readonly rpcCode?: number | undefined;
  /** How long the server wants to be left alone. */
  readonly retryAfterMs?: number | undefined;
}

/**
 * A fault of an HTTP exchange. It reaches the call as `data` of a JSON-RPC error, by reference; what a server sends
 * comes out of a JSON parser and can never be an instance, so it cannot be forged.
 */
export class HttpFault extends Error {
  readonly kind: HttpFaultKind;
  readonly facts: HttpFaultFacts;

  /** @param reason in words for the model: no server text, no address, no path */
  constructor(kind: HttpFaultKind, reason: string, facts: HttpFaultFacts = {}) {
    super(reason);
    this.kind = kind;
    this.facts = facts;
  }
}

/** The fault of an HTTP exchange behind the error of a request. */
export function httpFault(error: unknown): HttpFault | undefined {
  if (error instanceof HttpFault) return error;
  const data = error instanceof Error && 'data' in error ? error.data : undefined;
  return data instanceof HttpFault ? data : undefined;
}

/** The code of a JSON-RPC error that a server answered with. */
export const rpcErrorCode = (error: unknown): number | undefined =>
  error instanceof Error && error.name === 'McpError' && 'code' in error && typeof error.code === 'number'
    ? error.code
    : undefined;

/** The server speaks only protocol 2026-07-28 (`UnsupportedProtocolVersionError`). */
export const unsupportedVersionCode = -32022;
/** The headers of a request do not say what its body says, as the server knows the tool (2026-07-28). */
export const headerMismatchCode = -32020;
/**
 * The server cannot go on with what a call carries: it wants its user to open a URL first (2025-11-25, URL
 * elicitation), or input that a client without capabilities cannot give (2026-07-28).
 */
const inputRequiredCodes: ReadonlySet<number> = new Set([-32042, -32021]);
/** JSON-RPC errors that say the request never reached the tool. */
const neverExecutedCodes: ReadonlySet<number> = new Set([
  ...[-32700, -32600, -32601, -32602],
  ...[headerMismatchCode, unsupportedVersionCode],
]);

/** A failed attempt, but for the time it took. */
export interface CallFault {
  readonly code: OutcomeCode;
  readonly message: string;
  readonly sent: boolean;
  readonly mayHaveExecuted: boolean;
  readonly details?: JsonObject;
}

/** What belongs to a call whose request failed. */
export interface CallFacts {
  readonly alias: string;
  readonly redact: Redact;
}

const checkFirst = 'the tool may have run: check its effect before you call it again';

/** A call of which the server provably got nothing. */
export const notSent = (code: NotSentCode, message: string, details?: JsonObject): CallFault => ({
  code,
  message,
  sent: false,
  mayHaveExecuted: false,
  ...(details === undefined ? {} : { details }),
});

/** Codes of calls that were not sent. */
export type NotSentCode = 'server_unavailable' | 'server_busy' | 'timeout' | 'cancelled';

const sent = (
  code: OutcomeCode,
  message: string,
  mayHaveExecuted = true,
  details?: JsonObject,
): CallFault => ({
  code,
  message,
  sent: true,
  mayHaveExecuted,
  ...(details === undefined ? {} : { details }),
});

/** Says what the error means that the request of a call ended with. */
export function classifyFault(error: unknown, facts: CallFacts): CallFault {
  const { alias } = facts;
  if (error instanceof CallTimeout) return timedOut(alias, error.limit);
  if (error instanceof CallCancelled) return cancelled(alias, error.reason);
  const http = httpFault(error);
  if (http !== undefined) return classifyHttpFault(http, alias);

  if (error instanceof NotSentError) return notSent('server_unavailable', unavailable(alias, 'it has ended'));
  const stdio = localFault(error);
  if (stdio === 'oversize') return oversize(alias);
  if (stdio === 'malformed_answer') return malformed(alias, 'its answer is not a JSON-RPC response');

  if (error instanceof ConnectionEnded) {
    return sent(
      'connection_lost',
      `the connection to the server "${alias}" ended during the call; ${checkFirst}`,
    );
  }
  const code = rpcErrorCode(error);
  // All that is left is the SDK's transport, which could not make a message of what came.
  if (code === undefined) return malformed(alias, 'its answer cannot be read');
  if (inputRequiredCodes.has(code)) return inputRequired(alias);
  return serverError(
    alias,
    code,
    shown(messageOf(error, code), facts.redact, limits.foreignMessageCharsMax) || '(no text)',
  );
}

function classifyHttpFault(fault: HttpFault, alias: string): CallFault {
  switch (fault.kind) {
    case 'unreachable':
    case 'refused':
    case 'session_lost':
      return notSent('server_unavailable', unavailable(alias, fault.message), retryAfter(fault));
    case 'cut':
      return sent(
        'connection_lost',
        `the call on the server "${alias}" was cut off: ${fault.message}; ${checkFirst}`,
      );
    case 'malformed':
      return malformed(alias, fault.message);
    case 'oversize':
      return oversize(alias);
    case 'status': {
      const { rpcCode } = fault.facts;
      if (rpcCode === undefined) return malformed(alias, fault.message, retryAfter(fault));
      return inputRequiredCodes.has(rpcCode)
        ? inputRequired(alias)
        : serverError(alias, rpcCode, fault.message, retryAfter(fault));
    }
    default:
      return fault.kind satisfies never;
  }
}

const retryAfter = ({ facts }: HttpFault): JsonObject | undefined =>
  facts.retryAfterMs === undefined ? undefined : { retry_after_ms: facts.retryAfterMs };

/**
 * Whether a failed call may be sent once more: what did not get through always, what ended nobody knows how only where
 * a second time does no harm (RL-3). An answer of the server, its limits included, is no reason to ask again.
 */
export type Resend = 'always' | 'if_repeatable' | 'never';

/** Whether the call may be sent once more whose request ended with this error. */
export function resendAfter(error: unknown, { code }: CallFault): Resend {
  const http = httpFault(error);
  if (error instanceof NotSentError || http?.kind === 'session_lost') return 'always';
  const isRefusal = http?.facts.status !== undefined && http.facts.status < 500;
  return isOpenEnded(code) && !isRefusal ? 'if_repeatable' : 'never';
}

const isOpenEnded = (code: OutcomeCode): boolean => code === 'connection_lost' || code === 'protocol_error';

function timedOut(alias: string, { ms, kind }: TimeLimit): CallFault {
  switch (kind) {
    case 'answer':
      return sent('timeout', `the server "${alias}" did not answer within ${ms} ms; ${checkFirst}`);
    case 'silence':
      return sent(
        'timeout',
        `the server "${alias}" neither answered nor told of progress for ${ms} ms; ${checkFirst}`,
      );
    case 'total':
      return sent(
        'timeout',
        `the server "${alias}" did not answer within ${ms} ms, the longest that a call of this tool may take; ${checkFirst}`,
      );
    default:
      return kind satisfies never;
  }
}

/** A call that was ended from this side while the server had it. */
export const cancelled = (alias: string, reason: string): CallFault =>
  sent('cancelled', `the call was cancelled while it ran on the server "${alias}": ${reason}; ${checkFirst}`);

/** A call that was ended from this side before the server got anything of it. */
export const cancelledUnsent = (alias: string, reason: string): CallFault =>
  notSent('cancelled', `the call was cancelled before it was sent to the server "${alias}": ${reason}`);

/** The fault of a call whose earlier sending may have had its effect, whatever became of the last one. */
export function afterUnknown(earlier: CallFault, last: CallFault): CallFault {
  return last.sent ? { ...last, mayHaveExecuted: true } : earlier;
}

/** Why a server cannot be called. */
export const unavailable = (alias: string, reason: string): string =>
  `the server "${alias}" is not available: ${reason}; the call was not sent`;

/** The server wants more input than a call carries, which callgate cannot give (MT-17). */
export const inputRequired = (alias: string): CallFault =>
  sent(
    'input_required',
    `the server "${alias}" asks for more input from a person before it goes on; callgate cannot give it`,
  );

/** The server's answer is not what MCP says. */
export const malformed = (alias: string, reason: string, details?: JsonObject): CallFault =>
  sent(
    'protocol_error',
    `the server "${alias}" did not answer in the way of MCP: ${reason}; ${checkFirst}`,
    true,
    details,
  );

const oversize = (alias: string): CallFault =>
  sent(
    'output_too_large',
    `the answer of the server "${alias}" is larger than its limit and was dropped; ${checkFirst}`,
  );

function serverError(alias: string, code: number, text: string, details?: JsonObject): CallFault {
  const mayHaveExecuted = !neverExecutedCodes.has(code);
  const advice = mayHaveExecuted ? `; ${checkFirst}` : '';
  return sent(
    'server_error',
    `the server "${alias}" answered with an error: ${text}${advice}`,
    mayHaveExecuted,
    { json_rpc_code: code, ...details },
  );
}

/** The server's words, without the prefix that the SDK puts before them. */
function messageOf(error: unknown, code: number): string {
  const message = error instanceof Error ? error.message : '';
  const prefix = `MCP error ${code}: `;
  return message.startsWith(prefix) ? message.slice(prefix.length) : message;
}
