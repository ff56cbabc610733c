import type { CallRecord, RecordedCall, RecordedTool, RecordStatus } from '../dispatch/record.ts';
import { toolFromText, toolText, withOutcome } from './row.ts';

/** The columns of `callgate.calls` that make a record, in the order that `recordFromRow` takes them. */
export const recordColumns =
  'c.key, c.id, c.fingerprint, c.actor, c.run, c.turn, c.call_id, c.name, c.tool, c.created_at_ms, ' +
  'c.status, c.attempt, c.attempts, c.updated_at_ms, c.outcome';

/** Whether a record is older than the id `$2`, or that is null: no id sorts after "~". An OR would keep indexes out. */
export const isBefore = "c.id < coalesce($2, '~')";

/** A row of `recordColumns`; a list adds how many records there are of which it may give only the first. */
export type RecordRow = readonly [
  key: string,
  id: string,
  fingerprint: string,
  actor: string,
  run: string | null,
  turn: string | null,
  callId: string,
  name: string,
  tool: string | null,
  createdAtMs: number,
  status: RecordStatus,
  attempt: number,
  attempts: number,
  updatedAtMs: number,
  outcome: string | null,
  found?: number,
];

/** A record as it was written. */
export function recordFromRow(row: RecordRow): CallRecord {
  const [key, id, fingerprint, actor, run, turn, callId, name, tool, createdAtMs, status, attempt] = row;
  const [, , , , , , , , , , , , attempts, updatedAtMs, outcome] = row;
  return withOutcome(
    {
      id,
      key,
      fingerprint,
      actor,
      run: run === null ? undefined : decodeText(run),
      turn: turn === null ? undefined : decodeText(turn),
      callId: decodeText(callId),
      name: decodeText(name),
      tool: tool === null ? undefined : toolFromText(tool),
      createdAtMs,
      status,
      attempt,
      attempts,
      updatedAtMs,
    },
    outcome,
  );
}

/** Bytes that the call in a row of this name takes beside its outcome. */
export const callBytesOf = (row: string): string =>
  `octet_length(concat(${row}.actor, ${row}.run, ${row}.turn, ${row}.call_id, ${row}.name, ${row}.tool))`;

/** A caller's text as PostgreSQL can hold it: JSON escapes NUL and lone surrogates. */
export const encodeText = (text: string): string => JSON.stringify(text);

const decodeText = (json: string): string => JSON.parse(json) as string;

// Many calls share few tools, and a registry gives all calls of one tool the same values.
const toolTexts = new WeakMap<RecordedTool, string>();

function encodeTool(tool: RecordedTool): string {
  let text = toolTexts.get(tool);
  if (text === undefined) {
    text = toolText(tool);
    toolTexts.set(tool, text);
  }
  return text;
}

/** Replicas that lock the same rows lock them in the same order. */
export const byKey = <Input>(inputs: readonly Input[], keyOf: (input: Input) => string): readonly Input[] =>
  inputs.length < 2 ? inputs : [...inputs].sort((a, b) => (keyOf(a) < keyOf(b) ? -1 : 1));

/** One parameter of a statement over many rows: a column in PostgreSQL's array syntax. */
export function arrayOf<Item>(items: readonly Item[], value: (item: Item) => string | undefined): string {
  let text = '{';
  for (const item of items) {
    if (text.length > 1) text += ',';
    const each = value(item);
    text += each === undefined ? 'NULL' : quoted(each);
  }
  return `${text}}`;
}

/**
 * The same for JSON texts. They hold no control characters, and for all others JSON's quotes are PostgreSQL's.
 */
export function jsonArrayOf<Item>(items: readonly Item[], json: (item: Item) => string | undefined): string {
  let text = '{';
  for (const item of items) {
    if (text.length > 1) text += ',';
    const each = json(item);
    text += each === undefined ? 'NULL' : JSON.stringify(each);
  }
  return `${text}}`;
}

/** The same for numbers and booleans, which need no quotes. */
export function scalarArrayOf<Item>(items: readonly Item[], value: (item: Item) => number | boolean): string {
  let text = '{';
  for (const item of items) {
    if (text.length > 1) text += ',';
    text += value(item);
  }
  return `${text}}`;
}

const needsEscape = /["\\]/;

const quoted = (text: string): string =>
  needsEscape.test(text) ? `"${text.replace(/["\\]/g, '\\$&')}"` : `"${text}"`;

/** The parameters `$1` to `$12` of statements that take calls. */
export const callParameters = (calls: readonly RecordedCall[]): string[] => [
  arrayOf(calls, ({ key }) => key),
  arrayOf(calls, ({ id }) => id),
  arrayOf(calls, ({ actor }) => actor),
  arrayOf(calls, ({ fingerprint }) => fingerprint),
  jsonArrayOf(calls, ({ run }) => (run === undefined ? undefined : encodeText(run))),
  jsonArrayOf(calls, ({ turn }) => (turn === undefined ? undefined : encodeText(turn))),
  jsonArrayOf(calls, ({ callId }) => encodeText(callId)),
  jsonArrayOf(calls, ({ name }) => encodeText(name)),
  jsonArrayOf(calls, ({ tool }) => (tool === undefined ? undefined : encodeTool(tool))),
  scalarArrayOf(calls, ({ tool }) => tool === undefined || tool.target.class === 'read'),
  scalarArrayOf(calls, ({ tool }) => tool?.isRepeatable === true),
  scalarArrayOf(calls, ({ createdAtMs }) => createdAtMs),
];
