import type { StoredRow } from './row.ts';
import type { SqlRow } from './sqlite-driver.ts';

/** A row of the calls, as records are read from it; the row itself has only a number for its actor. */
export const storedRow = (row: SqlRow, actor: string): StoredRow => ({
  id: row.id as string,
  key: row.key as string,
  actor,
  status: row.status as number,
  attempt: row.attempt as number,
  attempts: row.attempts as number,
  updatedAtMs: row.updated as number,
  call: row.call as string,
  outcome: row.outcome as string | null,
});
