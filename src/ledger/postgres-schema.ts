import type { ClientBase } from 'pg';
import { missingMigrations } from './migrations.ts';

/** One step of the schema. What is released is never changed; the number is its place in the list, from 1. */
interface Migration {
  readonly name: string;
  readonly sql: string;
}

/**
 * The schema, step by step. A replica of an older version may be running while a step is taken: from then on it claims
 * and starts nothing more, but it still settles what it has sent. So every step keeps what `settle` writes in place.
 */
export const migrations: readonly Migration[] = [
  {
    name: 'calls, replicas and quotas',
    sql: `
      -- The processes that run calls. What a dead one has left is ended by those that live.
      CREATE TABLE callgate.replicas (
        number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        name text NOT NULL,
        lease_until timestamptz NOT NULL
      );

      -- run, turn, call_id, name and tool are JSON texts: a caller's text may hold what text columns cannot.
      CREATE TABLE callgate.calls (
        key text COLLATE "C" PRIMARY KEY,
        id text COLLATE "C" NOT NULL,
        actor text NOT NULL,
        -- Actors are of any length, index rows are not.
        actor_hash bigint NOT NULL,
        fingerprint text NOT NULL,
        run text,
        turn text,
        call_id text NOT NULL,
        name text NOT NULL,
        tool text,
        is_read boolean NOT NULL,
        is_repeatable boolean NOT NULL,
        created_at_ms double precision NOT NULL,
        updated_at_ms double precision NOT NULL,
        status text NOT NULL,
        attempt integer NOT NULL,
        attempts integer NOT NULL,
        -- The replica that runs the call; null at its end.
        owner bigint,
        is_cancel_requested boolean NOT NULL DEFAULT false,
        -- Null while the call runs, and when its result is no longer kept.
        outcome text,
        -- What the record is kept as: read, write or tombstone; null while the call runs.
        shelf text,
        result_bytes integer NOT NULL DEFAULT 0,
        CHECK ((owner IS NULL) = (shelf IS NOT NULL))
      ) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);

      CREATE UNIQUE INDEX calls_id ON callgate.calls (id);
      -- What the accounts of an actor need is in the index, so that they are drawn up without the table.
      CREATE INDEX calls_actor ON callgate.calls (actor_hash, id) INCLUDE (shelf, is_read, result_bytes);
      CREATE INDEX calls_owner ON callgate.calls (owner) WHERE owner IS NOT NULL;
      CREATE INDEX calls_shelf ON callgate.calls (shelf, updated_at_ms) WHERE shelf IS NOT NULL;

      -- Actors with as many records as they may have.
      CREATE TABLE callgate.full_actors (actor_hash bigint PRIMARY KEY);

      -- When a replica last began to look for what is past its time or over a bound.
      CREATE TABLE callgate.retention (began_at timestamptz NOT NULL);
      INSERT INTO callgate.retention VALUES ('-infinity');
    `,
  },
  {
    name: 'tool lists',
    sql: `
      -- The last good tool list of each server, as JSON, under the settings that it was read with.
      CREATE TABLE callgate.tool_lists (
        alias text COLLATE "C" PRIMARY KEY,
        source text NOT NULL,
        -- Epoch milliseconds.
        read_at double precision NOT NULL,
        list text NOT NULL
      );
    `,
  },
];

/** The version of the schema that this code works with. */
export const schemaVersion = migrations.length;

const statements = migrations.map(({ sql }) => sql);

/** The two halves of the advisory lock under which the schema is changed: "call" and "gate" in ASCII. */
const lockKeys = '1667329132, 1734440037';

/** The version that a database has; 0 where there is no ledger in it. */
export async function readSchemaVersion(client: ClientBase): Promise<number> {
  const there = await client.query<{ there: boolean }>(
    `SELECT to_regclass('callgate.migrations') IS NOT NULL AS there`,
  );
  if (there.rows[0]?.there !== true) return 0;
  const { rows } = await client.query<{ version: number }>(
    'SELECT coalesce(max(version), 0) AS version FROM callgate.migrations',
  );
  return rows[0]?.version ?? 0;
}

/** @throws LedgerRefused when a newer version of callgate has changed the schema */
export function checkSchemaVersion(version: number): void {
  missingMigrations(statements, version, 'in this database');
}

/** Brings the schema to this code's version. Several replicas may do that at once: one does it, the others wait. */
export async function migrate(client: ClientBase, steps: readonly Migration[] = migrations): Promise<void> {
  await client.query('BEGIN');
  try {
    await client.query(`SELECT pg_advisory_xact_lock(${lockKeys})`);
    const version = await readSchemaVersion(client);
    checkSchemaVersion(version);
    if (version === 0) {
      // Not IF NOT EXISTS: that asks for the right to create even where an operator has made the schema beforehand.
      const there = await client.query<{ there: boolean }>(
        `SELECT to_regnamespace('callgate') IS NOT NULL AS there`,
      );
      if (there.rows[0]?.there !== true) await client.query('CREATE SCHEMA callgate');
      await client.query(`
        CREATE TABLE callgate.migrations (
          version integer PRIMARY KEY,
          name text NOT NULL,
          applied_at timestamptz NOT NULL DEFAULT now()
        )`);
    }
    for (const [index, { name, sql }] of steps.entries()) {
      if (index < version) continue;
      await client.query(sql);
      await client.query('INSERT INTO callgate.migrations (version, name) VALUES ($1, $2)', [
        index + 1,
        name,
      ]);
    }
    await client.query('COMMIT');
  } catch (error) {
    // A connection that fails here as well has ended the transaction by itself.
    await client.query('ROLLBACK').catch(() => {});
    throw error;
  }
}
