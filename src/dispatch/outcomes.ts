import { authorise, hasGrantOn } from '../access/authorise.ts';
import { type FunctionCall, lookupName } from '../core/call.ts';
import { outcomeCodes } from '../core/errors.ts';
import type { JsonObject } from '../core/json.ts';
import { limits } from '../core/limits.ts';
import { type CallError, failed, type Outcome, type ToolResult } from '../core/outcome.ts';
import { foreignText } from '../core/text.ts';
import type { ArgumentFault } from '../tools/arguments.ts';
import { describeFinding, type SchemaFinding } from '../tools/findings.ts';
import type { Binding } from '../tools/registry.ts';
import type { Attempt, Caller, DispatchPorts } from './ports.ts';
import { type CallRecord, isFinal } from './record.ts';

/** What a caller is told to wait when the ledger cannot be written. */
const ledgerRetryMs = 1_000;

/** A name that is not in the registry; where its server has never been seen, that is said instead. */
export function unknownTool(call: FunctionCall, caller: Caller, ports: DispatchPorts): Outcome {
  const name = lookupName(call);
  const alias = ports.aliases.find((configured) => name.startsWith(`${configured}__`));
  if (alias !== undefined && !ports.upstream.hasListed(alias) && hasGrantOn(caller.actor, alias)) {
    return failed('server_unavailable', ports.upstream.unavailability(alias), { details: { server: alias } });
  }
  const near: string[] = [];
  for (const binding of new Set(ports.registry().near(name))) {
    if (near.length === limits.nearNamesMax) break;
    if (authorise(caller.actor, binding.target).allowed) near.push(binding.name);
  }
  const hint =
    near.length > 0 ? `; did you mean ${near.join(' or ')}?` : '; call only tools that were declared to you';
  return failed('unknown_tool', `there is no tool named ${JSON.stringify(foreignText(name, 80))}${hint}`, {
    details: { ...(near.length > 0 ? { near_names: near } : {}), ...declarationsChanged(caller) },
  });
}

/** A tool that the actor may not call; names what is missing and nothing else of the tool. */
export const forbidden = (missing: string, mayHaveExecuted = false): Outcome =>
  failed('forbidden', `the caller may not use this tool; it needs the grant ${missing}`, {
    mayHaveExecuted,
    details: { missing_grant: missing },
  });

/** Arguments that are no JSON object. */
export const unreadableArguments = ({ path, message }: ArgumentFault, caller: Caller): Outcome =>
  failed('invalid_arguments', message, {
    details: { findings: [{ path, message }], ...declarationsChanged(caller) },
  });

/** Arguments that do not fit the tool's schema. */
export function invalidArguments(findings: readonly SchemaFinding[], caller: Caller): Outcome {
  const told = findings.slice(0, limits.findingsMax);
  return failed(
    'invalid_arguments',
    `the arguments do not fit the tool: ${told.map(describeFinding).join('; ')}`,
    { details: { findings: told.map((finding) => ({ ...finding })), ...declarationsChanged(caller) } },
  );
}

/** A tool whose schema passed the gate and still cannot be compiled: the schema is to blame, not the arguments. */
export const unusableSchema = (reason: string, { alias }: Binding): Outcome =>
  failed('server_unavailable', `this tool cannot be called: ${reason}`, {
    retryable: false,
    details: { server: alias },
  });

const declarationsChanged = (caller: Caller): JsonObject =>
  caller.declarationsChanged ? { declarations_changed: true } : {};

/** The tool ran and says that it failed: for the model to see and correct. */
export const toolError = (result: ToolResult): Outcome =>
  failed(
    'tool_error',
    hasNoWords(result)
      ? 'the tool reported an error without text'
      : 'the tool reported an error; its own words are in the content',
    { result },
  );

const hasNoWords = ({ content, structuredContent }: ToolResult): boolean =>
  structuredContent === undefined &&
  content.every(({ type, text }) => type === 'text' && (typeof text !== 'string' || text.trim() === ''));

/** An attempt that brought no result. */
export function attemptFailed(attempt: Attempt & { kind: 'failed' }, alias: string): Outcome {
  return failed(attempt.code, attempt.message, {
    // What was provably not sent has had no effect, whatever the code's usual state is.
    status: attempt.sent ? outcomeCodes[attempt.code].status : 'not_sent',
    mayHaveExecuted: attempt.sent && attempt.mayHaveExecuted,
    retryable: !attempt.sent,
    details: { server: alias, ...attempt.details },
  });
}

/** The end of an attempt after another of which nobody knows the end: that one may have had an effect, whatever this one says. */
export function afterUnknown(outcome: Outcome): Outcome {
  const { status, error } = outcome;
  if (error === undefined) return outcome;
  return {
    ...outcome,
    status: status === 'not_sent' ? 'unknown' : status,
    error: {
      ...error,
      message: error.mayHaveExecuted ? error.message : `${error.message}; an earlier attempt may have run`,
      mayHaveExecuted: true,
    },
  };
}

/** The key of this call belongs to another one, of which nothing is told. */
export const callIdReused = (callId: string): Outcome =>
  failed(
    'call_id_reused',
    `the call id ${JSON.stringify(foreignText(callId, 80))} was used before with another name or other arguments; the call was not run: give each call its own id, or send a Callgate-Turn that changes with each model answer`,
  );

/** The result of a call that is no longer kept. */
export const callExpired = ({ status, updatedAtMs }: CallRecord): Outcome =>
  failed(
    'call_expired',
    `this call came to its end on ${new Date(updatedAtMs).toISOString()} as ${status}, and its result is no longer kept; it was not run again. A deliberate repeat needs a new call id`,
    {
      status: isFinal(status) ? status : 'unknown',
      mayHaveExecuted: status !== 'rejected' && status !== 'not_sent',
    },
  );

/** The call was cancelled before anything was done about it. */
export const cancelledUnsent = (reason: unknown): Outcome =>
  failed('cancelled', `the call was cancelled before it was sent: ${String(reason)}`, {
    status: 'not_sent',
    mayHaveExecuted: false,
    retryable: true,
  });

/** One more post of a call that many wait for already. */
export const tooManyWait = (): Outcome =>
  failed(
    'server_busy',
    `${limits.waitersMax} posts of this call wait for its end already; it runs on: post it again later`,
    { status: 'unknown', mayHaveExecuted: true, details: { retry_after_ms: ledgerRetryMs } },
  );

/** Nobody waits any longer for a call that another process runs. */
export const stillRunning = ({ tool }: CallRecord): Outcome =>
  failed(
    'cancelled',
    'the wait for this call was ended; it may still be running: check its effect before you call it again',
    {
      details: tool === undefined ? {} : { server: tool.target.alias },
    },
  );

/** What may change something is not run without a record of it. */
export const ledgerUnavailable = (): Outcome & { readonly error: CallError } => {
  const outcome = failed(
    'ledger_unavailable',
    'callgate cannot record calls at present, so the call was not sent; try again later',
    { details: { retry_after_ms: ledgerRetryMs } },
  );
  return { ...outcome, error: outcome.error as CallError };
};

/** Whether a call that may change something is a repeat cannot be told, and so not what an earlier post of it did. */
export const recordUnreadable = (): Outcome =>
  failed(
    'ledger_unavailable',
    'callgate cannot read its records at present, so this post of the call was not sent, and whether an earlier one was cannot be told; post it again later',
    { status: 'unknown', mayHaveExecuted: true, details: { retry_after_ms: ledgerRetryMs } },
  );

/** The actor has as many records as it may have. */
export const quotaExceeded = (retryAfterMs: number): Outcome =>
  failed(
    'rate_limited',
    'the caller has filled its part of the ledger with calls that change something; the call was not sent: try again later',
    { details: { retry_after_ms: retryAfterMs } },
  );
