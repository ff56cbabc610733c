import type { ProblemCode } from './shapes.ts';

/** What is wrong at one place of a request. */
export interface ProblemError {
  pointer?: string;
  parameter?: string;
  detail: string;
}

/**
 * Why a request has no result. Beside the codes of problems: `unreachable`, nothing that answers for callgate was
 * reached in time; `unfinished`, calls still run, and the same request again collects them; `unexpected_answer`, what
 * answered is not callgate.
 */
export type CallgateErrorCode = ProblemCode | 'unreachable' | 'unfinished' | 'unexpected_answer';

/** A request to callgate that came to nothing. An error of a call is no error of the request, but an output. */
export class CallgateError extends Error {
  override readonly name = 'CallgateError';
  readonly code: CallgateErrorCode;
  /** The HTTP status of the last answer; undefined where none came. */
  readonly status: number | undefined;
  /** What callgate's log has the request under. */
  readonly requestId: string | undefined;
  readonly errors: readonly ProblemError[];

  constructor(
    code: CallgateErrorCode,
    message: string,
    facts: {
      status?: number | undefined;
      requestId?: string | undefined;
      errors?: readonly ProblemError[] | undefined;
      cause?: unknown;
    } = {},
  ) {
    super(message, 'cause' in facts ? { cause: facts.cause } : undefined);
    this.code = code;
    this.status = facts.status;
    this.requestId = facts.requestId;
    this.errors = facts.errors ?? [];
  }
}
