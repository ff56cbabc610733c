import { expect, onTestFinished, test } from 'vitest';
import { LedgerUnavailable } from '../../../src/dispatch/ports.ts';
import { Connections, type PoolOptions } from '../../../src/ledger/postgres-connections.ts';
import { DatabaseSilent } from '../../../src/ledger/postgres-errors.ts';
import { describeWithPostgres } from '../../support/postgres.ts';
import { until } from '../../support/until.ts';
import { claimed, found } from './bench.ts';
import { Bench, isUsable } from './postgres-bench.ts';

/** Far below what a batch may take, and room for a busy machine. */
const listMaxMs = 3_500;

describeWithPostgres('what one actor asks of PostgreSQL', (server) => {
  test('may take too long, and fails alone', async () => {
    const bench = await Bench.open(server);
    const { ledger, events } = await bench.replica();
    const call = bench.calls.call();
    await claimed(ledger, call);
    const record = await found(ledger, call);
    const unlock = await bench.lock('row', call.key);
    await expect(ledger.requestCancel(record)).rejects.toThrow('the database took too long');
    await claimed(ledger, bench.calls.call({ actor: 'actor-2' }));
    await unlock();
    await ledger.requestCancel(record);
    expect(events).not.toContain('ledger.unavailable');
  });

  test('is bounded in time where it is a list, long before a batch is', async () => {
    const bench = await Bench.open(server);
    const { ledger, events } = await bench.replica({ sweepMs: 600_000 });
    const unlock = await bench.lock('table');
    const claiming = claimed(ledger, bench.calls.call({ actor: 'actor-2' }));
    const sinceMs = performance.now();
    await expect(ledger.list({ actor: 'actor-1', limit: 10 })).rejects.toBeInstanceOf(LedgerUnavailable);
    expect(performance.now() - sinceMs).toBeLessThan(listMaxMs);
    await unlock();
    await claiming;
    expect(events).not.toContain('ledger.unavailable');
  });

  test('may be many lists: a few run at once, a few wait, the others are refused', async () => {
    const bench = await Bench.open(server);
    const { ledger } = await bench.replica({ sweepMs: 600_000 });
    const call = bench.calls.call();
    await claimed(ledger, call);
    const record = await found(ledger, call);
    const list = () => ledger.list({ actor: 'actor-1', callId: 'x', limit: 10 });
    await Promise.all([list(), list(), ledger.requestCancel(record)]);
    const unlock = await bench.lock('table');
    const lists = Promise.allSettled(Array.from({ length: 260 }, list));
    const claiming = claimed(ledger, bench.calls.call({ actor: 'actor-2' }));
    const cancelling = ledger.requestCancel(record);
    // All of them are at the database while the lists are.
    await until(async () => {
      const [row] = await bench.sql(blocked);
      return row?.claims === 1 && row.cancels === 1 && row.lists === 2;
    });
    await unlock();
    await Promise.all([claiming, cancelling]);
    const refused = (await lists).filter(({ status }) => status === 'rejected');
    expect(refused).toHaveLength(242);
    for (const each of refused) {
      expect(each).toMatchObject({
        reason: new LedgerUnavailable('too many lists at once'),
      });
    }
    expect(isUsable(ledger)()).toBe(true);
  });

  test('may be a list with a rare match: each looks at so many records and no more', async () => {
    const bench = await Bench.open(server);
    const { ledger } = await bench.replica();
    await bench.fill('actor-1', 22_000);
    const query = { actor: 'actor-1', callId: 'oldest', limit: 10 };
    const pages = [await ledger.list(query)];
    for (let before = pages[0]?.resumeBefore; before !== undefined; before = pages.at(-1)?.resumeBefore) {
      pages.push(await ledger.list({ ...query, before }));
    }
    expect(pages.map((page) => page.map(({ callId }) => callId))).toEqual([[], [], ['oldest']]);
    expect((await ledger.list({ actor: 'actor-1', limit: 10 })).resumeBefore).toBeUndefined();
    expect((await ledger.list({ ...query, callId: 'call' })).resumeBefore).toBeUndefined();
  });
});

/** Statements that wait for a lock. */
const blocked = `
  SELECT count(*) FILTER (WHERE query LIKE '%INSERT INTO callgate.calls%')::integer AS claims,
    count(*) FILTER (WHERE query LIKE '%pg_notify%')::integer AS cancels,
    count(*) FILTER (WHERE query LIKE '%ORDER BY c.actor_hash DESC%')::integer AS lists
  FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`;

const options: PoolOptions = {
  connectionsMax: 2,
  waitingMax: 1,
  refusal: 'too many',
  statementMaxMs: 4_000,
  givesUp: 'one',
};

describeWithPostgres('connections to PostgreSQL', (server) => {
  test.for([
    ['one', 'fulfilled'],
    ['all', 'rejected'],
  ] as const)('give up %s of their pool when one is silent, and go on', async ([givesUp, fate]) => {
    const bench = await Bench.open(server);
    const connections = new Connections(bench.url);
    onTestFinished(() => connections.close(1_000));
    const pool = connections.pool({ ...options, givesUp });
    const neighbour = pool.withClient((client) => client.query('SELECT pg_sleep(1.5)'));
    await until(async () => (await bench.sql(sleeping)).length === 1);
    const silent = pool.withClient((client) => client.query('SELECT pg_sleep(3)'), 500);
    await expect(silent).rejects.toBeInstanceOf(DatabaseSilent);
    const [result] = await Promise.allSettled([neighbour]);
    expect(result?.status).toBe(fate);
    await Promise.all([1, 2].map(() => pool.withClient((client) => client.query('SELECT 1'))));
  });
});

/** Statements that sleep in this database. */
const sleeping = "SELECT FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND datname = current_database()";
