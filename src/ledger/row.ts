import type { CallStatus } from '../core/errors.ts';
import { jsonText } from '../core/json.ts';
import { onceFor } from '../core/once-for.ts';
import { failed, type Outcome, type Settler, succeeded } from '../core/outcome.ts';
import {
  type CallRecord,
  isFinal,
  type RecordedCall,
  type RecordedTool,
  type RecordStatus,
  recordStatuses,
} from '../dispatch/record.ts';

const numbers = Object.fromEntries(recordStatuses.map((status, index) => [status, index])) as Readonly<
  Record<RecordStatus, number>
>;

/** The number of a status in a store. */
export const statusNumber = (status: RecordStatus): number => numbers[status];

/** The status that a number in a store stands for. */
export const statusOf = (number: number): RecordStatus => recordStatuses[number] as RecordStatus;

/** A record as a store gives it back. */
export interface StoredRow {
  readonly id: string;
  readonly key: string;
  readonly actor: string;
  readonly status: number;
  readonly attempt: number;
  readonly attempts: number;
  readonly updatedAtMs: number;
  /** See `callText`. */
  readonly call: string;
  /** The JSON text of the outcome; null while the call is on its way, and after its retention. */
  readonly outcome: string | null;
}

type ToolParts = [
  name: string,
  alias: string,
  tool: string,
  toolClass: RecordedTool['target']['class'],
  isRepeatable: boolean,
  render: 'envelope' | 'text' | null,
];

type CallParts = [
  fingerprint: string,
  run: string | null,
  turn: string | null,
  callId: string,
  name: string,
  tool: ToolParts | null,
  createdAtMs: number,
];

/**
 * What a call is, in one JSON text of `CallParts`. JSON, since texts of callers may hold NUL and lone surrogates, which the text
 * columns of databases lose or refuse.
 */
export function callText({ fingerprint, run, turn, callId, name, tool, createdAtMs }: RecordedCall): string {
  const before = `${jsonText(fingerprint)},${textOrNull(run)},${textOrNull(turn)},${jsonText(callId)},${jsonText(name)}`;
  return `[${before},${tool === undefined ? 'null' : toolText(tool)},${createdAtMs}]`;
}

const textOrNull = (text: string | undefined): string => (text === undefined ? 'null' : jsonText(text));

/** Bytes that a call takes in a row beside its outcome; control characters are escaped to six each. */
export const callBytes = (call: RecordedCall): number => Buffer.byteLength(callText(call));

/** A call from the text that `callText` made, and from what identifies it. @throws DamagedText */
export function callOf(
  text: string,
  { id, key, actor }: Pick<StoredRow, 'id' | 'key' | 'actor'>,
): RecordedCall {
  try {
    const [fingerprint, run, turn, callId, name, tool, createdAtMs] = JSON.parse(text) as CallParts;
    return {
      id,
      key,
      fingerprint,
      actor,
      run: run ?? undefined,
      turn: turn ?? undefined,
      callId,
      name,
      tool: tool === null ? undefined : toolOf(tool),
      createdAtMs,
    };
  } catch {
    // What the parser says would show a piece of it.
    throw new DamagedText('the text of a record cannot be read');
  }
}

/** A text of the store is not as it was written. */
export class DamagedText extends Error {}

const partsOf = ({ name, target, isRepeatable, render }: RecordedTool): ToolParts => [
  name,
  target.alias,
  target.tool,
  target.class,
  isRepeatable,
  render ?? null,
];

const toolOf = ([name, alias, tool, toolClass, isRepeatable, render]: ToolParts): RecordedTool => ({
  name,
  target: { alias, tool, class: toolClass },
  isRepeatable,
  render: render ?? undefined,
});

/** A tool in one JSON text, for stores that keep it beside the rest of its call. */
export const toolText = onceFor((tool: RecordedTool): string => JSON.stringify(partsOf(tool)));

/** A tool from the text that `toolText` made. */
export const toolFromText = (text: string): RecordedTool => toolOf(JSON.parse(text) as ToolParts);

/** A record from its row. @throws DamagedText */
export const recordOf = (row: StoredRow): CallRecord =>
  withOutcome(
    {
      ...callOf(row.call, row),
      status: statusOf(row.status),
      attempt: row.attempt,
      attempts: row.attempts,
      updatedAtMs: row.updatedAtMs,
    },
    row.outcome,
  );

/**
 * A record with the JSON text of its outcome, or null where there is none. The text is parsed when the outcome is
 * asked for: it may be of many megabytes, and most answers need no more than the rest.
 */
export function withOutcome(
  record: Omit<CallRecord, 'outcome' | 'isExpired'>,
  text: string | null,
): CallRecord {
  let unparsed = text;
  let outcome: Outcome | undefined;
  return {
    ...record,
    get outcome() {
      if (unparsed !== null) outcome = outcomeOf(unparsed);
      unparsed = null;
      return outcome;
    },
    isExpired: text === null && isFinal(record.status),
  };
}

function outcomeOf(text: string): Outcome {
  try {
    return JSON.parse(text) as Outcome;
  } catch {
    return failed('ledger_unavailable', 'the stored result of this call is damaged and cannot be read', {
      status: 'unknown',
      mayHaveExecuted: true,
      retryable: false,
    });
  }
}

/** What one read of a list brings of stored bytes at most, unless its first record alone is larger. */
export const listedBytesMax = 4_194_304;

/** Whether nothing has happened under the key of a record that could happen twice. */
export const mayBeTakenOver = (old: CallRecord, call: RecordedCall): boolean =>
  old.status === 'rejected' ||
  (old.fingerprint === call.fingerprint &&
    (old.status === 'not_sent' ||
      (old.status === 'unknown' &&
        !old.isExpired &&
        old.tool?.isRepeatable === true &&
        call.tool?.isRepeatable === true)));

/** Whether the outcome of a call is kept for the time of reads: it only read, or came to no tool. */
export const isKeptAsRead = ({ tool }: Pick<RecordedCall, 'tool'>, status: RecordStatus): boolean =>
  status === 'rejected' || tool === undefined || tool.target.class === 'read';

/** Whether the record of a call with this end outlives its outcome: only what may have had an effect must not run anew. */
export const leavesTombstone = (status: RecordStatus): boolean =>
  status !== 'rejected' && status !== 'not_sent';

/** The ends that leave no tombstone. */
export const statusesWithoutTombstone: readonly RecordStatus[] = recordStatuses.filter(
  (status) => isFinal(status) && !leavesTombstone(status),
);

/** How a call ends whose process has lost it (RL-10). */
export const interrupted = (status: RecordStatus): Outcome & { readonly status: CallStatus } =>
  status === 'received'
    ? failed('interrupted', 'callgate stopped before this call was sent; it can be sent again', {
        status: 'not_sent',
        mayHaveExecuted: false,
        retryable: true,
      })
    : failed(
        'interrupted',
        'callgate stopped while this call was running; it may have had its effect: check before you call it again',
      );

/** How a call ends that an operator has looked into. */
export function operatorsWord(
  status: 'succeeded' | 'failed',
  note: string,
  by?: Pick<Settler, 'user' | 'atMs'>,
): Outcome {
  const result = { content: [{ type: 'text', text: note }], isError: status === 'failed' };
  const outcome =
    status === 'succeeded'
      ? succeeded(result, ['an operator settled this call by hand'])
      : failed('tool_error', 'an operator settled this call by hand, as failed', { result });
  return by === undefined ? outcome : { ...outcome, settledBy: { user: by.user, note, atMs: by.atMs } };
}
