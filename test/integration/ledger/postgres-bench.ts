import { Client } from 'pg';
import { onTestFinished } from 'vitest';
import { openPostgres, type PostgresLedger } from '../../../src/ledger/postgres.ts';
import { defaultTimings, type PostgresTimings } from '../../../src/ledger/postgres-replica.ts';
import type { LedgerDeps } from '../../../src/ledger/settings.ts';
import type { TestServer } from '../../support/postgres.ts';
import { TcpProxy } from '../../support/tcp-proxy.ts';
import { Workbench, wideBounds } from './bench.ts';

/** A replica notices and recovers quickly, and takes nothing for dead that is only slow on this machine. */
const quick: PostgresTimings = { ...defaultTimings, heartbeatMs: 200, sweepMs: 100, retentionMs: 600_000 };

/** A process on the database, and what it was told. */
export interface Replica {
  readonly ledger: PostgresLedger;
  readonly proxy: TcpProxy;
  readonly events: string[];
  readonly cancelRequests: string[];
  readonly lost: Set<string>;
}

/** One database with replicas on it, each behind a proxy of its own. */
export class Bench {
  readonly calls = new Workbench({
    open: () => Promise.reject(new Error('replicas are opened by the bench')),
    crash: async () => {},
    maintain: async () => {},
    remove: async () => {},
  });
  readonly url: string;
  readonly #admin: Client;

  private constructor(url: string, admin: Client) {
    this.url = url;
    this.#admin = admin;
  }

  static async open(server: TestServer): Promise<Bench> {
    const database = await server.createDatabase();
    const admin = new Client({ connectionString: database.url });
    admin.on('error', () => {});
    await admin.connect();
    onTestFinished(async () => {
      await admin.end();
      await database.drop();
    });
    return new Bench(database.url, admin);
  }

  async sql(text: string, values: readonly unknown[] = []): Promise<Record<string, unknown>[]> {
    const { rows } = await this.#admin.query<Record<string, unknown>>(text, [...values]);
    return rows;
  }

  proxy(): Promise<TcpProxy> {
    const { hostname: host, port } = new URL(this.url);
    return TcpProxy.open({ host, port: Number(port) });
  }

  async replica(timings: Partial<PostgresTimings> = {}, proxy?: TcpProxy): Promise<Replica> {
    const through = proxy ?? (await this.proxy());
    const events: string[] = [];
    const cancelRequests: string[] = [];
    const lost = new Set<string>();
    const log = (event: string): void => void events.push(event);
    const deps: LedgerDeps = {
      nowMs: Date.now,
      log: { info: log, warn: log, error: log },
      isHeld: (id) => !lost.has(id),
      onCancelRequested: (id) => void cancelRequests.push(id),
    };
    const url = through.through(this.url);
    const settings = { ...wideBounds, store: { kind: 'postgres', url } as const };
    const ledger = await openPostgres(url, settings, deps, { ...quick, ...timings });
    onTestFinished(async () => {
      await ledger.close();
      await through.close();
    });
    return { ledger, proxy: through, events, cancelRequests, lost };
  }

  /** Ends the connections of all replicas, as a restart of the server does. */
  terminateAll(): Promise<unknown> {
    return this.sql(
      'SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()',
    );
  }

  /** Keeps a lock on the table of calls, or on a row of it, until the function that it gives back is called. */
  async lock(what: 'table' | 'row', key = ''): Promise<() => Promise<void>> {
    const client = new Client({ connectionString: this.url });
    // A test that fails earlier leaves it to the end of the database.
    client.on('error', () => {});
    await client.connect();
    await client.query('BEGIN');
    if (what === 'table') await client.query('LOCK TABLE callgate.calls IN ACCESS EXCLUSIVE MODE');
    else await client.query('SELECT FROM callgate.calls WHERE key = $1 FOR UPDATE', [key]);
    return () => client.end();
  }

  /** Puts finished calls of one actor into the ledger, the oldest of them with another `call_id`. */
  async fill(actor: string, records: number): Promise<void> {
    await this.sql(
      `INSERT INTO callgate.calls (key, id, actor, actor_hash, fingerprint, call_id, name, is_read, is_repeatable,
         created_at_ms, updated_at_ms, status, attempt, attempts, outcome, shelf)
       SELECT 'key-' || n, '01a00000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'), $1, hashtextextended($1, 0), 'f',
         CASE n WHEN 1 THEN '"oldest"' ELSE '"call"' END, '"tool"', true, true, n, n, 'succeeded', 1, 1,
         '{"status":"succeeded"}', 'read'
       FROM generate_series(1, $2::integer) AS n`,
      [actor, records],
    );
  }

  /** Every statement of this kind on a call takes so long, or fails with this SQLSTATE. */
  async spoil(event: 'INSERT' | 'UPDATE', how: { readonly sleepS: number } | { readonly code: string }) {
    const body =
      'code' in how
        ? `RAISE EXCEPTION 'spoiled' USING ERRCODE = '${how.code}';`
        : `PERFORM pg_sleep(${how.sleepS});`;
    await this.sql(`
      CREATE OR REPLACE FUNCTION spoil() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN ${body} RETURN NULL; END $$;
      CREATE OR REPLACE TRIGGER spoil AFTER ${event} ON callgate.calls FOR EACH STATEMENT EXECUTE FUNCTION spoil()`);
  }

  async mend(): Promise<void> {
    await this.sql('DROP TRIGGER spoil ON callgate.calls');
  }
}

/** Whether anything may be asked of a ledger now. */
export const isUsable = (ledger: PostgresLedger) => () => ledger.fault() === undefined;
