import { type CallStatus, type OutcomeCode, outcomeCodes } from './errors.ts';
import type { JsonObject, JsonValue } from './json.ts';

/** A content block as the server sent it. Only `type` is known to be a string; the rest is read with care. */
export type ContentBlock = JsonObject & { readonly type: string };

/** What a server answered to one `tools/call`, checked for shape and nothing else (MCP, CallToolResult). */
export interface ToolResult {
  readonly content: readonly ContentBlock[];
  /** Present only when the server sent it; any JSON value (MCP 2026-07-28). */
  readonly structuredContent?: JsonValue | undefined;
  readonly isError: boolean;
}

/** Why a call has no successful result, in words for the model, and with the facts that a program needs. */
export interface CallError {
  readonly code: OutcomeCode;
  readonly message: string;
  readonly mayHaveExecuted: boolean;
  readonly retryable: boolean;
  /** Facts of the code (`missing_grant`, `findings`, `server`, ...), already in wire spelling. */
  readonly details?: JsonObject;
}

/** The final result of a call. */
export interface Outcome {
  readonly status: CallStatus;
  readonly error?: CallError;
  /** What the server answered; with `tool_error` it stands beside the error. */
  readonly result?: ToolResult;
  /** Remarks for the caller that change nothing about the outcome. */
  readonly warnings?: readonly string[];
  /** Present where an operator has settled the call by hand; for operators, not for callers. */
  readonly settledBy?: Settler;
}

/** Who settled a call by hand, and how they knew. */
export interface Settler {
  readonly user: string;
  readonly note: string;
  readonly atMs: number;
}

/** An outcome with an error, filled from the code table where the caller knows nothing more exact. */
export function failed(
  code: OutcomeCode,
  message: string,
  more: {
    status?: CallStatus;
    mayHaveExecuted?: boolean;
    retryable?: boolean;
    details?: JsonObject;
    result?: ToolResult;
  } = {},
): Outcome {
  const facts = outcomeCodes[code];
  return {
    status: more.status ?? facts.status,
    error: {
      code,
      message,
      mayHaveExecuted: more.mayHaveExecuted ?? facts.mayHaveExecuted,
      retryable: more.retryable ?? facts.retryable,
      ...(more.details === undefined ? {} : { details: more.details }),
    },
    ...(more.result === undefined ? {} : { result: more.result }),
  };
}

export const succeeded = (result: ToolResult, warnings: readonly string[] = []): Outcome =>
  warnings.length === 0 ? { status: 'succeeded', result } : { status: 'succeeded', result, warnings };
