import { type ProblemCode, problemCodes } from '../core/errors.ts';
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
