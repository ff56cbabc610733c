import { Client } from 'pg';
import { openPostgres, type PostgresLedger } from '../../../src/ledger/postgres.ts';
import { defaultTimings } from '../../../src/ledger/postgres-replica.ts';
import { describeWithPostgres, type TestServer } from '../../support/postgres.ts';
import { TcpProxy } from '../../support/tcp-proxy.ts';
import { until } from '../../support/until.ts';
import type { LedgerStore } from './bench.ts';
import { testLedger } from './suite.ts';

/** Nothing in the background that a test has not asked for. */
const timings = { ...defaultTimings, sweepMs: 600_000, retentionMs: 600_000 };

async function newStore(server: TestServer): Promise<LedgerStore> {
  const database = await server.createDatabase();
  const { hostname, port } = new URL(database.url);
  const opened = new Map<object, { readonly proxy: TcpProxy; readonly number: string }>();
  const sql = async (text: string): Promise<readonly { readonly number: string }[]> => {
    const client = new Client({ connectionString: database.url });
    // Its database may be dropped, with all connections to it, while it still takes its leave.
    client.on('error', () => {});
    await client.connect();
    const { rows } = await client.query<{ number: string }>(text);
    await client.end();
    return rows;
  };
  return {
    open: async (bounds, deps) => {
      const proxy = await TcpProxy.open({ host: hostname, port: Number(port) });
      const url = proxy.through(database.url);
      const ledger = await openPostgres(url, { ...bounds, store: { kind: 'postgres', url } }, deps, timings);
      const [newest] = await sql('SELECT max(number) AS number FROM callgate.replicas');
      opened.set(ledger, { proxy, number: newest?.number ?? '' });
      return ledger;
    },
    // To the database a process that is cut off is as good as dead. Its lease is ended instead of waited for.
    crash: async (ledger) => {
      const { proxy, number } = opened.get(ledger) as { proxy: TcpProxy; number: string };
      proxy.refuse();
      await ledger.close();
      await sql(`UPDATE callgate.replicas SET lease_until = now() WHERE number = ${number} RETURNING number`);
    },
    maintain: async (ledger) => {
      const postgres = ledger as PostgresLedger;
      await until(() => postgres.maintain());
      // What this process has lost is only ended at the second look.
      await until(() => postgres.maintain());
    },
    remove: async () => {
      for (const { proxy } of opened.values()) await proxy.close();
      await database.drop();
    },
  };
}

describeWithPostgres('PostgreSQL', (server) => {
  testLedger('the ledger on PostgreSQL', () => newStore(server), { isShared: true });
});
