import type { JsonObject, JsonValue } from '../core/json.ts';
import type { CallError, Outcome, Settler } from '../core/outcome.ts';
import { foreignText, timeText } from '../core/text.ts';
import { type CallRecord, mayHaveExecuted } from '../dispatch/record.ts';

const cellCharsMax = 48;

type Json = { readonly [key: string]: JsonValue | undefined };

/** A record without its result, in the words of the API. */
export function overviewOf(record: CallRecord): Json {
  const { outcome, tool } = record;
  return {
    id: record.id,
    status: record.status,
    code: outcome?.error?.code,
    may_have_executed: mayHaveExecuted(record),
    attempts: record.attempts,
    created_at: timeText(record.createdAtMs),
    updated_at: timeText(record.updatedAtMs),
    name: record.name,
    call_id: record.callId,
    run: record.run,
    turn: record.turn,
    actor: actorOf(record.actor),
    server: tool?.target.alias,
    tool: tool?.name,
    class: tool?.target.class,
    expired: record.isExpired,
  };
}

/** All that the ledger has of a call; its arguments are not among it. */
export const recordJson = (record: CallRecord): Json => ({
  ...overviewOf(record),
  outcome: record.outcome === undefined ? undefined : outcomeJson(record.outcome),
});

const outcomeJson = ({ error, result, warnings, settledBy }: Outcome): JsonObject => ({
  ...(error === undefined ? {} : { error: errorJson(error) }),
  ...(result === undefined
    ? {}
    : {
        result: {
          content: [...result.content],
          ...(result.structuredContent === undefined ? {} : { structured: result.structuredContent }),
          is_error: result.isError,
        },
      }),
  ...(warnings === undefined ? {} : { warnings: [...warnings] }),
  ...(settledBy === undefined ? {} : { settled_by: settlerJson(settledBy) }),
});

const settlerJson = ({ user, note, atMs }: Settler): JsonObject => ({ user, note, at: timeText(atMs) });

const errorJson = ({ code, message, mayHaveExecuted, retryable, details }: CallError): JsonObject => ({
  code,
  message,
  may_have_executed: mayHaveExecuted,
  retryable,
  ...details,
});

/** Records for a terminal, one a line. What comes from outside is cut and freed of control characters. */
export function table(records: readonly CallRecord[]): string {
  if (records.length === 0) return 'no calls\n';
  const rows = [
    ['ID', 'STATUS', 'CODE', 'CREATED', 'SENT', 'NAME', 'CALL ID', 'ACTOR'],
    ...records.map((record) => [
      record.id,
      record.isExpired ? `${record.status}, expired` : record.status,
      record.outcome?.error?.code ?? '',
      timeText(record.createdAtMs),
      String(record.attempts),
      cell(record.name),
      cell(record.callId),
      cell(actorText(record.actor)),
    ]),
  ];
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  return rows
    .map(
      (row) =>
        `${row
          .map((text, column) => text.padEnd(widths[column] ?? 0))
          .join('  ')
          .trimEnd()}\n`,
    )
    .join('');
}

const cell = (text: string): string => foreignText(text, cellCharsMax);

const actorText = (stored: string): string => {
  const { issuer, kind, subject, client } = actorOf(stored);
  return kind === 'user' ? `${subject} by ${client ?? '?'} at ${issuer}` : `${subject} at ${issuer}`;
};

/** Takes the text apart by which the ledger knows an actor (`actorText` of dispatch/receipt.ts). */
function actorOf(stored: string): { issuer: string; kind: string; subject: string; client: string | null } {
  const [issuer, kind, subject, client] = JSON.parse(stored) as [string, string, string, string | null];
  return { issuer, kind, subject, client };
}
