import { type ConnectionPool, Connections, type Statement } from './postgres-connections.ts';
import { describeFailure, isRefusal, unavailable } from './postgres-errors.ts';
import { callBytesOf, isBefore, type RecordRow, recordColumns, recordFromRow } from './postgres-rows.ts';
import { checkSchemaVersion, readSchemaVersion, schemaVersion } from './postgres-schema.ts';
import { operatorsWord } from './row.ts';
import { type LedgerArchive, LedgerRefused } from './settings.ts';

const closeMaxMs = 2_000;

/** `$1`: status, or null for any; `$2`: older than this id, or null; `$3`: how many. */
const listStatement: Statement = {
  name: 'callgate_archive_list',
  text: `
    SELECT ${recordColumns} FROM callgate.calls c
    WHERE ($1::text IS NULL OR c.status = $1) AND ${isBefore}
    ORDER BY c.id DESC LIMIT $3`,
};

const getStatement: Statement = {
  name: 'callgate_archive_get',
  text: `SELECT ${recordColumns} FROM callgate.calls c WHERE c.id = $1`,
};

/** `$1`: id; `$2`: status; `$3`: outcome; `$4`: when. */
const settleStatement: Statement = {
  name: 'callgate_archive_settle',
  text: `
    UPDATE callgate.calls c SET status = $2, outcome = $3, updated_at_ms = $4,
      result_bytes = octet_length($3) + ${callBytesOf('c')}
    WHERE c.id = $1 AND c.status = 'unknown' AND c.outcome IS NOT NULL
    RETURNING c.id`,
};

/**
 * The records of all actors, beside whatever replicas run.
 * @throws LedgerRefused where there is no ledger that this version can read
 * @throws LedgerUnavailable where the database does not answer
 */
export async function openPostgresArchive(
  url: string,
  nowMs: () => number = Date.now,
): Promise<LedgerArchive> {
  const connections = connectionsTo(url);
  const pool = connections.pool({
    connectionsMax: 2,
    waitingMax: 100,
    refusal: 'too many operations at once',
    statementMaxMs: 4_000,
    givesUp: 'one',
  });
  try {
    const version = await pool.withClient(readSchemaVersion);
    checkSchemaVersion(version);
    if (version < schemaVersion) {
      throw new LedgerRefused(
        version === 0
          ? 'there is no ledger in this database: start callgate with it once'
          : 'the ledger in this database is of an older version: start this version of callgate with it once',
      );
    }
  } catch (error) {
    await connections.close(closeMaxMs);
    if (error instanceof LedgerRefused) throw error;
    throw isRefusal(error) ? new LedgerRefused(describeFailure(error), { cause: error }) : unavailable(error);
  }
  return new PostgresArchive(pool, nowMs);
}

/** @throws LedgerRefused where the URL cannot be read */
export function connectionsTo(url: string): Connections {
  try {
    return new Connections(url);
  } catch (error) {
    throw new LedgerRefused(
      'the URL of the ledger cannot be read: correct callgate.ledger.url (postgres://user:password@host:5432/database)',
      { cause: error },
    );
  }
}

class PostgresArchive implements LedgerArchive {
  readonly #pool: ConnectionPool;
  readonly #nowMs: () => number;

  constructor(pool: ConnectionPool, nowMs: () => number) {
    this.#pool = pool;
    this.#nowMs = nowMs;
  }

  async list({
    status,
    before,
    limit,
  }: Parameters<LedgerArchive['list']>[0]): ReturnType<LedgerArchive['list']> {
    if (before?.includes('\0') === true) return [];
    const rows = await this.#query<RecordRow>(listStatement, [status ?? null, before ?? null, limit]);
    return rows.map(recordFromRow);
  }

  async get(id: string): ReturnType<LedgerArchive['get']> {
    if (id.includes('\0')) return undefined;
    const [row] = await this.#query<RecordRow>(getStatement, [id]);
    return row === undefined ? undefined : recordFromRow(row);
  }

  async settle(
    id: string,
    status: 'succeeded' | 'failed',
    note: string,
    user: string,
  ): ReturnType<LedgerArchive['settle']> {
    if (id.includes('\0')) return false;
    const atMs = this.#nowMs();
    const outcome = JSON.stringify(operatorsWord(status, note, { user, atMs }));
    const rows = await this.#query(settleStatement, [id, status, outcome, atMs]);
    return rows.length > 0;
  }

  close(): Promise<void> {
    return this.#pool.close(closeMaxMs);
  }

  async #query<Row extends readonly unknown[]>(
    statement: Statement,
    parameters: readonly unknown[],
  ): Promise<readonly Row[]> {
    try {
      return await this.#pool.query<Row>(statement, parameters);
    } catch (error) {
      throw unavailable(error);
    }
  }
}
