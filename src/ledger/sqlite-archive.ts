import { LedgerUnavailable } from '../dispatch/ports.ts';
import type { CallRecord } from '../dispatch/record.ts';
import { operatorsWord, recordOf, type StoredRow, statusNumber } from './row.ts';
import { type LedgerArchive, LedgerRefused } from './settings.ts';
import { bucketsMask } from './sqlite-accounts.ts';
import { type Database, type SqlValue, sqliteDriver } from './sqlite-driver.ts';
import { appliedSchema, sqliteSchema } from './sqlite-migrations.ts';
import { faultText, openExisting, orRefusal } from './sqlite-open.ts';
import { storedRow } from './sqlite-rows.ts';

const columns = `calls.id, calls.key, actors.name AS actor, calls.status, calls.attempt, calls.attempts,
  calls.updated, calls.call, calls.outcome`;

/**
 * Opens the records of a SQLite ledger for operators. It takes no hold on the ledger, so that it works beside the
 * service; each of its changes is one short transaction.
 * @throws LedgerRefused where there is no ledger, or where it has another schema than this version
 */
export async function openSqliteArchive(
  file: string,
  nowMs: () => number = Date.now,
): Promise<LedgerArchive> {
  const openDatabase = await sqliteDriver();
  const database = openExisting(openDatabase, file);
  try {
    return orRefusal(file, () => {
      database.exec('PRAGMA busy_timeout = 5000; PRAGMA synchronous = FULL');
      const schema = appliedSchema(database);
      if (schema !== sqliteSchema) {
        throw new LedgerRefused(
          `the ledger ${file} has schema ${schema}, and this version of callgate needs schema ${sqliteSchema}: use the version of the service, or start the service of this version on it once`,
        );
      }
      return new SqliteArchive(database, nowMs);
    });
  } catch (error) {
    database.close();
    throw error;
  }
}

class SqliteArchive implements LedgerArchive {
  readonly #database: Database;
  readonly #nowMs: () => number;

  constructor(database: Database, nowMs: () => number) {
    this.#database = database;
    this.#nowMs = nowMs;
  }

  async list({
    status,
    before,
    limit,
  }: Parameters<LedgerArchive['list']>[0]): Promise<readonly CallRecord[]> {
    const ofStatus = status === undefined ? '' : 'AND calls.status = ?';
    const parameters = [
      before ?? afterEveryId,
      ...(status === undefined ? [] : [statusNumber(status)]),
      limit,
    ];
    const rows = this.#inEachBucket(
      `SELECT ${columns} FROM calls JOIN actors ON actors.number = calls.actor
       WHERE calls.actor & ${bucketsMask} = ? AND calls.id < ? ${ofStatus} ORDER BY calls.id DESC LIMIT ?`,
      parameters,
    );
    // Each part of the index has given its newest; the newest of those are the newest of all.
    const newest = rows.sort((a, b) => (a.id < b.id ? 1 : -1)).slice(0, limit);
    return orUnavailable(() => newest.map(recordOf));
  }

  async get(id: string): Promise<CallRecord | undefined> {
    const [row] = this.#inEachBucket(
      `SELECT ${columns} FROM calls JOIN actors ON actors.number = calls.actor
       WHERE calls.actor & ${bucketsMask} = ? AND calls.id = ?`,
      [id],
    );
    return row === undefined ? undefined : orUnavailable(() => recordOf(row));
  }

  async settle(id: string, status: 'succeeded' | 'failed', note: string, user?: string): Promise<boolean> {
    // The size stays what the service has counted, and its time in the store what it was.
    const statement = `UPDATE calls SET status = ?, updated = ?, outcome = ?
      WHERE actor & ${bucketsMask} = ? AND id = ? AND status = ${statusNumber('unknown')} AND outcome IS NOT NULL`;
    const atMs = this.#nowMs();
    const outcome = JSON.stringify(
      operatorsWord(status, note, user === undefined ? undefined : { user, atMs }),
    );
    return orUnavailable(() => {
      const settle = this.#database.prepare(statement);
      return buckets.some((bucket) => settle.run([statusNumber(status), atMs, outcome, bucket, id]) > 0);
    });
  }

  async close(): Promise<void> {
    this.#database.close();
  }

  /** The index by id is in parts, see the migrations. */
  #inEachBucket(sql: string, parameters: readonly SqlValue[]): StoredRow[] {
    return orUnavailable(() => {
      const statement = this.#database.prepare(sql);
      const rows = buckets.flatMap((bucket) => statement.all([bucket, ...parameters]));
      return rows.map((row) => storedRow(row, row.actor as string));
    });
  }
}

const afterEveryId = '~';
const buckets = Array.from({ length: bucketsMask + 1 }, (_, bucket) => bucket);

function orUnavailable<T>(work: () => T): T {
  try {
    return work();
  } catch (error) {
    throw new LedgerUnavailable(faultText(error));
  }
}
