import { type ProblemCode, problemCodes } from '../core/errors.ts';
import type { EventLog } from '../core/events.ts';
import type { Answer } from './exchange.ts';

/** What is wrong at one place of a request. */
export interface ProblemError {
  /** JSON Pointer into the body; empty for the whole of it. */
  readonly pointer?: string;
  /** A query parameter or a header, where it is not the body. */
  readonly parameter?: string;
  readonly detail: string;
}

/** A request that ends in problem details (RFC 9457) instead of an answer. */
export class Problem extends Error {
  readonly code: ProblemCode;
  readonly errors: readonly ProblemError[];
  readonly headers: Readonly<Record<string, string>>;

  constructor(
    code: ProblemCode,
    detail: string,
    more: { errors?: readonly ProblemError[]; headers?: Readonly<Record<string, string>> } = {},
  ) {
    super(detail);
    this.code = code;
    this.errors = more.errors ?? [];
    this.headers = more.headers ?? {};
  }
}

/** The body of a problem answer. */
export function problemBody(problem: Problem, requestId: string): string {
  const { status, title } = problemCodes[problem.code];
  return JSON.stringify({
    type: `urn:callgate:problem:${problem.code}`,
    title,
    status,
    detail: problem.message,
    code: problem.code,
    request_id: requestId,
    ...(problem.errors.length === 0 ? {} : { errors: problem.errors }),
  });
}

/** A problem as the answer of a route. */
export const problemAnswer = (problem: Problem, requestId: string): Answer => ({
  status: problemCodes[problem.code].status,
  headers: {
    'content-type': 'application/problem+json',
    'cache-control': 'no-store',
    'x-request-id': requestId,
    ...problem.headers,
  },
  body: problemBody(problem, requestId),
});

/** The problem of a fault of callgate, which only its log names. */
export function unexpected(error: unknown, requestId: string, log: EventLog): Problem {
  log.error('request.failed', {
    request_id: requestId,
    error: error instanceof Error ? (error.stack ?? error.message) : String(error),
  });
  return new Problem(
    'internal',
    `callgate failed on this request; its log has the reason under ${requestId}`,
  );
}

/** Logs what callgate fails on after its answer has been given. */
export function logFailure(work: Promise<unknown>, requestId: string, log: EventLog): void {
  work.catch((error: unknown) => void unexpected(error, requestId, log));
}

/** The problem of a request that needs the ledger while that cannot be used. */
export const ledgerUnavailable = (retryAfterMs: number): Problem =>
  new Problem(
    'ledger_unavailable',
    'callgate cannot use its ledger at present; nothing was run: send the request again later',
    { headers: { 'retry-after': String(Math.max(1, Math.ceil(retryAfterMs / 1_000))) } },
  );
