import type { PoolClient } from 'pg';
import type { ConnectionPool } from './postgres-connections.ts';
import { statusesWithoutTombstone } from './row.ts';
import type { LedgerDeps, LedgerSettings } from './settings.ts';

interface RetentionOptions {
  readonly pool: ConnectionPool;
  readonly settings: LedgerSettings;
  readonly deps: Pick<LedgerDeps, 'nowMs'>;
}

/** Rows that one statement changes; short enough that no call waits for their locks. */
const sliceRows = 500;
/** Rows that one statement counts. */
const countedRows = 10_000;
/** Between two rounds, as a multiple of what the last one took. */
const gapShare = 20;

/** Another replica is at it. */
class Occupied extends Error {}

/** The accounts of one actor. */
interface Account {
  readonly actor: string;
  readonly records: number;
  /** Those that are not removed to make room. */
  readonly writes: number;
  readonly bytes: number;
}

type Shelf = 'read' | 'write';

/**
 * Drops what is past its time or over a bound. One replica does it at a time, in slices of a few hundred rows. The
 * bounds are kept by counting everything once in a while, in the order of actors and from an index alone, so between
 * two rounds there may be more than they say, by as much as is written meanwhile.
 */
export class Retention {
  readonly #pool: ConnectionPool;
  readonly #settings: LedgerSettings;
  readonly #nowMs: () => number;
  #tookMs = 0;

  constructor({ pool, settings, deps }: RetentionOptions) {
    this.#pool = pool;
    this.#settings = settings;
    this.#nowMs = deps.nowMs;
  }

  /**
   * A round, unless some replica has begun one in the last `gapMs`, or in twenty times what our last round took.
   * @throws whatever the database says
   */
  async roundIfDue(gapMs: number, signal: AbortSignal): Promise<void> {
    if (await this.#isDue(Math.max(gapMs, gapShare * this.#tookMs))) await this.round(signal);
  }

  /** A round now; false when another replica is at it. @throws whatever the database says */
  async round(signal: AbortSignal): Promise<boolean> {
    try {
      const sinceMs = performance.now();
      await this.#dropByAge(signal);
      await this.#keepBounds(signal);
      this.#tookMs = performance.now() - sinceMs;
      return true;
    } catch (error) {
      if (error instanceof Occupied) return false;
      throw error;
    }
  }

  async #isDue(gapMs: number): Promise<boolean> {
    return this.#pool.withClient(async (client) => {
      const { rowCount } = await client.query(
        `UPDATE callgate.retention SET began_at = now()
         WHERE began_at <= now() - $1 * interval '1 millisecond'`,
        [gapMs],
      );
      return rowCount === 1;
    });
  }

  async #dropByAge(signal: AbortSignal): Promise<void> {
    const nowMs = this.#nowMs();
    const { outputRetentionMs, readOutputRetentionMs, tombstoneRetentionMs } = this.#settings;
    await this.#repeat(signal, () => this.#shelve('read', nowMs - readOutputRetentionMs));
    await this.#repeat(signal, () => this.#shelve('write', nowMs - outputRetentionMs));
    await this.#repeat(signal, () =>
      this.#slice(async (client) => {
        const { rowCount } = await client.query(
          `DELETE FROM callgate.calls c WHERE c.shelf = 'tombstone' AND c.key IN (
             SELECT key FROM callgate.calls WHERE shelf = 'tombstone' AND updated_at_ms < $1
             ORDER BY updated_at_ms LIMIT ${sliceRows} FOR UPDATE SKIP LOCKED)`,
          [nowMs - tombstoneRetentionMs],
        );
        return (rowCount ?? 0) === sliceRows;
      }),
    );
  }

  #shelve(shelf: Shelf, beforeMs: number): Promise<boolean> {
    return this.#slice(async (client) => {
      const { rows } = await client.query<{ key: string }>(
        `SELECT key FROM callgate.calls WHERE shelf = $1 AND updated_at_ms < $2
         ORDER BY updated_at_ms LIMIT ${sliceRows} FOR UPDATE SKIP LOCKED`,
        [shelf, beforeMs],
      );
      await dropResults(
        client,
        rows.map(({ key }) => key),
      );
      return rows.length === sliceRows;
    });
  }

  async #keepBounds(signal: AbortSignal): Promise<void> {
    const { bytesMax, actorBytesMax, actorRecordsMax } = this.#settings;
    let bytes = 0;
    const full: string[] = [];
    for await (const account of this.#accounts(signal)) {
      let left = account.bytes;
      if (left > actorBytesMax) left -= await this.#dropBytes(left - actorBytesMax, account.actor, signal);
      bytes += left;
      if (account.records > actorRecordsMax) {
        await this.#removeReads(account.actor, account.records - actorRecordsMax, signal);
      }
      if (account.writes >= actorRecordsMax) full.push(account.actor);
    }
    // Half a count must not lift a bound.
    if (signal.aborted) return;
    await this.#slice(async (client) => {
      await client.query('DELETE FROM callgate.full_actors WHERE actor_hash <> ALL($1::bigint[])', [full]);
      await client.query(
        'INSERT INTO callgate.full_actors SELECT unnest($1::bigint[]) ON CONFLICT DO NOTHING',
        [full],
      );
      return false;
    });
    if (bytes > bytesMax) await this.#dropBytes(bytes - bytesMax, undefined, signal);
  }

  // One account after the other; the rows of an actor stand together in the index.
  async *#accounts(signal: AbortSignal): AsyncGenerator<Account> {
    let after: readonly [actor: string, id: string] = ['-9223372036854775808', ''];
    let open: Account | undefined;
    while (!signal.aborted) {
      let counted = 0;
      const accounts: Account[] = [];
      await this.#slice(async (client) => {
        const { rows } = await client.query<{
          actor_hash: string;
          records: number;
          writes: number;
          bytes: number;
          last_id: string;
        }>(
          `SELECT actor_hash, count(*)::float8 AS records, sum(result_bytes)::float8 AS bytes, max(id) AS last_id,
             count(*) FILTER (WHERE NOT is_read AND shelf IS DISTINCT FROM 'read')::float8 AS writes
           FROM (
             SELECT actor_hash, id, shelf, is_read, result_bytes FROM callgate.calls
             WHERE (actor_hash, id) > ($1::bigint, $2) ORDER BY actor_hash, id LIMIT ${countedRows}) AS page
           GROUP BY actor_hash ORDER BY actor_hash`,
          [...after],
        );
        for (const { actor_hash: actor, records, writes, bytes, last_id: lastId } of rows) {
          counted += records;
          accounts.push({ actor, records, writes, bytes });
          after = [actor, lastId];
        }
        return false;
      });
      for (const account of accounts) {
        if (open !== undefined && open.actor !== account.actor) {
          yield open;
          open = undefined;
        }
        open = {
          actor: account.actor,
          records: (open?.records ?? 0) + account.records,
          writes: (open?.writes ?? 0) + account.writes,
          bytes: (open?.bytes ?? 0) + account.bytes,
        };
      }
      if (counted < countedRows) break;
    }
    if (open !== undefined) yield open;
  }

  // Gives back how many bytes went: those of reads first, the oldest before the others.
  async #dropBytes(excess: number, actor: string | undefined, signal: AbortSignal): Promise<number> {
    let dropped = 0;
    for (const shelf of ['read', 'write'] as const) {
      await this.#repeat(signal, () =>
        this.#slice(async (client) => {
          const { rows } = await client.query<{ key: string; result_bytes: number }>(
            actor === undefined
              ? `SELECT key, result_bytes FROM callgate.calls WHERE shelf = $1
                 ORDER BY updated_at_ms LIMIT ${sliceRows} FOR UPDATE SKIP LOCKED`
              : `SELECT key, result_bytes FROM callgate.calls WHERE actor_hash = $2 AND shelf = $1
                 ORDER BY id LIMIT ${sliceRows} FOR UPDATE SKIP LOCKED`,
            actor === undefined ? [shelf] : [shelf, actor],
          );
          const keys: string[] = [];
          for (const { key, result_bytes: bytes } of rows) {
            if (dropped >= excess) break;
            keys.push(key);
            dropped += bytes;
          }
          await dropResults(client, keys);
          return dropped < excess && rows.length === sliceRows;
        }),
      );
    }
    return dropped;
  }

  async #removeReads(actor: string, count: number, signal: AbortSignal): Promise<void> {
    let removed = 0;
    await this.#repeat(signal, () =>
      this.#slice(async (client) => {
        const limit = Math.min(sliceRows, count - removed);
        const { rowCount } = await client.query(
          `DELETE FROM callgate.calls c WHERE c.shelf IS NOT NULL AND c.key IN (
             SELECT key FROM callgate.calls
             WHERE actor_hash = $1 AND shelf IS NOT NULL AND (is_read OR status = 'rejected')
             ORDER BY id LIMIT $2 FOR UPDATE SKIP LOCKED)`,
          [actor, limit],
        );
        removed += rowCount ?? 0;
        return removed < count && (rowCount ?? 0) === limit;
      }),
    );
  }

  async #repeat(signal: AbortSignal, slice: () => Promise<boolean>): Promise<void> {
    while (!signal.aborted && (await slice()));
  }

  // The lock is taken anew for each slice, so that none is ever left behind. Between two slices of one replica
  // another may do some: each of them stands for itself.
  #slice(run: (client: PoolClient) => Promise<boolean>): Promise<boolean> {
    return this.#pool.withClient(async (client) => {
      await client.query('BEGIN');
      const { rows } = await client.query<{ is_free: boolean }>(
        "SELECT pg_try_advisory_xact_lock(hashtextextended('callgate.retention', 0)) AS is_free",
      );
      if (rows[0]?.is_free !== true) throw new Occupied();
      const isMore = await run(client);
      await client.query('COMMIT');
      return isMore;
    });
  }
}

// What cannot have had an effect may be run anew, so nothing has to be remembered of it.
async function dropResults(client: PoolClient, keys: readonly string[]): Promise<void> {
  if (keys.length === 0) return;
  await client.query('DELETE FROM callgate.calls WHERE key = ANY($1::text[]) AND status = ANY($2::text[])', [
    keys,
    statusesWithoutTombstone,
  ]);
  await client.query(
    `UPDATE callgate.calls SET outcome = NULL, result_bytes = 0, shelf = 'tombstone' WHERE key = ANY($1::text[])`,
    [keys],
  );
}
