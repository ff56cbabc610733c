import type { GrantTarget } from '../access/grants.ts';
import type { CallStatus } from '../core/errors.ts';
import type { Outcome } from '../core/outcome.ts';
import type { Render } from '../tools/policy.ts';

/** Where a call stands: on its way, or at its end. */
export type RecordStatus = 'received' | 'started' | CallStatus;

/** Every status. Stores know them by their place here: none ever moves, and a new one goes to the end. */
export const recordStatuses = [
  'received',
  'started',
  'succeeded',
  'failed',
  'rejected',
  'not_sent',
  'unknown',
] as const satisfies readonly RecordStatus[];

/** What every id of a call looks like. */
export const callIdPattern = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** The tool of a call as it was when the call came, so that a repeat can be judged after the tool is gone. */
export interface RecordedTool {
  /** The server's own name of the tool. */
  readonly name: string;
  /** What a grant has to cover: alias, grant segment, class. */
  readonly target: GrantTarget;
  /** Whether running it a second time does no harm: classed read, or declared idempotent. */
  readonly isRepeatable: boolean;
  readonly render: Render | undefined;
}

/** A call as the ledger takes it: what it is, and whose. Nothing of this ever changes. */
export interface RecordedCall {
  /** callgate's own id (UUIDv7); one for all attempts under the same key. */
  readonly id: string;
  /** SHA-256 over actor, run, turn and `call_id`: two posts with one key are the same call (RL-2). */
  readonly key: string;
  /** SHA-256 over the declared name and the arguments before any mending: what the key stands for. */
  readonly fingerprint: string;
  /** Issuer, kind, subject and client in one text. */
  readonly actor: string;
  readonly run: string | undefined;
  readonly turn: string | undefined;
  readonly callId: string;
  /** The declared name as it was looked up. */
  readonly name: string;
  /** Undefined for a call that found no tool. */
  readonly tool: RecordedTool | undefined;
  /** Epoch milliseconds, as all times of a record. */
  readonly createdAtMs: number;
}

/** The ledger's entry of one call. */
export interface CallRecord extends RecordedCall {
  readonly status: RecordStatus;
  /** How often the call was claimed. A claim can settle only its own attempt (the fencing number). */
  readonly attempt: number;
  /** How often a `tools/call` was sent for it, over all claims. */
  readonly attempts: number;
  readonly updatedAtMs: number;
  /** The end of the call; undefined while it is on its way, and after its retention. */
  readonly outcome: Outcome | undefined;
  /** The result is no longer kept; what is left says only that the call was, and how it ended. */
  readonly isExpired: boolean;
}

/** How a call ended. */
export interface CallEnd {
  readonly outcome: Outcome;
  /** `tools/call` requests sent by this claim. */
  readonly attempts: number;
  readonly atMs: number;
}

/** The right to run and settle one attempt of a call. */
export interface Claim {
  readonly call: RecordedCall;
  readonly attempt: number;
}

/** Whether a record is the late claim of the same read, which needs no more than its end (`Ledger.record`). */
export const isOpenRead = (record: CallRecord, call: RecordedCall): boolean =>
  !isFinal(record.status) && record.tool?.target.class === 'read' && record.fingerprint === call.fingerprint;

/** Whether a call has come to its end. */
export const isFinal = (status: RecordStatus): status is CallStatus =>
  status !== 'received' && status !== 'started';

/** Whether the tool may have run; true for whatever was sent, unless there is proof that it did not. */
export function mayHaveExecuted({ status, outcome }: Pick<CallRecord, 'status' | 'outcome'>): boolean {
  if (outcome !== undefined) return outcome.error?.mayHaveExecuted ?? true;
  return isFinal(status) ? status !== 'rejected' && status !== 'not_sent' : status === 'started';
}
