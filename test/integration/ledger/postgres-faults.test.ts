import { readFileSync } from 'node:fs';
import { expect, onTestFinished, test } from 'vitest';
import { LedgerUnavailable } from '../../../src/dispatch/ports.ts';
import type { RecordedCall } from '../../../src/dispatch/record.ts';
import { openPostgres, openPostgresArchive, type PostgresLedger } from '../../../src/ledger/postgres.ts';
import { schemaVersion } from '../../../src/ledger/postgres-schema.ts';
import { type LedgerDeps, LedgerRefused } from '../../../src/ledger/settings.ts';
import { describeWithPostgres } from '../../support/postgres.ts';
import { until } from '../../support/until.ts';
import { answered, claimed, found, outcomes, readTool, wideBounds } from './bench.ts';
import { Bench, isUsable } from './postgres-bench.ts';
import { toolList } from './suite.ts';

/** The bound that the ledger promises, and room for a busy machine. */
const promptMs = 6_000;

/** Every operation once. */
function everything(bench: Bench, ledger: PostgresLedger, call: RecordedCall): Promise<unknown>[] {
  const end = bench.calls.ended(outcomes.succeeded);
  return [
    ledger.find(bench.calls.call().key),
    ledger.claim(bench.calls.call(), 'started'),
    ledger.start({ call, attempt: 1 }),
    ledger.settle({ call: bench.calls.call(), attempt: 1 }, end),
    ledger.record(bench.calls.call({ tool: readTool }), end),
    ledger.get('actor-1', call.id),
    ledger.list({ actor: 'actor-1', limit: 10 }),
    ledger.loadToolLists(),
    ledger.saveToolList(toolList(1)),
    ledger.saveToolList(toolList(2)),
    ledger.requestCancel({
      ...call,
      status: 'started',
      attempt: 1,
      attempts: 0,
      updatedAtMs: 0,
      outcome: undefined,
      isExpired: false,
    }),
  ];
}

async function allUnavailable(operations: readonly Promise<unknown>[]): Promise<void> {
  for (const settled of await Promise.allSettled(operations)) {
    expect(settled.status).toBe('rejected');
    expect(settled.status === 'rejected' && settled.reason).toBeInstanceOf(LedgerUnavailable);
  }
}

describeWithPostgres('the ledger on a PostgreSQL', (server) => {
  test.for(['stall', 'refuse'] as const)(
    'whose connections %s fails every operation in time, and works again by itself',
    async (fault) => {
      const bench = await Bench.open(server);
      const { ledger, proxy, events } = await bench.replica();
      const call = bench.calls.call();
      const claim = await claimed(ledger, call, 'received');
      proxy[fault]();
      const sinceMs = performance.now();
      await allUnavailable(everything(bench, ledger, call));
      expect(performance.now() - sinceMs).toBeLessThan(promptMs);
      expect(ledger.fault()).toMatch(/\w/);
      const fastSinceMs = performance.now();
      await allUnavailable(everything(bench, ledger, call));
      expect(performance.now() - fastSinceMs).toBeLessThan(100);
      proxy.resume();
      await until(isUsable(ledger));
      expect(events).toContain('ledger.available');
      expect(await ledger.settle(claim, bench.calls.ended(outcomes.succeeded))).toBe(true);
      await claimed(ledger, bench.calls.call());
    },
  );

  test('that restarts loses no more than what was on its way', async () => {
    const bench = await Bench.open(server);
    const { ledger } = await bench.replica();
    for (let round = 0; round < 5; round += 1) {
      const running = Array.from({ length: 64 }, async () => {
        const call = bench.calls.call();
        const result = await ledger.claim(call, 'started').catch((error: unknown) => error);
        if (result instanceof Error) expect(result).toBeInstanceOf(LedgerUnavailable);
      });
      await bench.terminateAll();
      await Promise.all(running);
      await until(isUsable(ledger));
      await until(() =>
        ledger.claim(bench.calls.call(), 'started').then(
          () => true,
          () => false,
        ),
      );
    }
  });

  test('that cannot be reached at first is waited for', async () => {
    const bench = await Bench.open(server);
    const proxy = await bench.proxy();
    proxy.refuse();
    const { ledger } = await bench.replica({}, proxy);
    expect(ledger.fault()).toMatch(/\w/);
    await allUnavailable(everything(bench, ledger, bench.calls.call()));
    proxy.resume();
    await until(isUsable(ledger));
    await claimed(ledger, bench.calls.call());
  });

  test('that is read-only says so, until it is not', async () => {
    const bench = await Bench.open(server);
    const { ledger } = await bench.replica();
    const name = new URL(bench.url).pathname.slice(1);
    await bench.sql(`ALTER DATABASE ${name} SET default_transaction_read_only = on`);
    await bench.terminateAll();
    await until(() => ledger.fault() === 'the database is read-only');
    await expect(ledger.claim(bench.calls.call(), 'started')).rejects.toThrow(/read-only/);
    await bench.sql(`ALTER DATABASE ${name} RESET default_transaction_read_only`);
    await bench.terminateAll();
    await until(isUsable(ledger));
    await claimed(ledger, bench.calls.call());
  });

  test('whose disk is full says so, until it is not', async () => {
    const bench = await Bench.open(server);
    const { ledger } = await bench.replica();
    await bench.spoil('INSERT', { code: '53100' });
    await expect(ledger.claim(bench.calls.call(), 'started')).rejects.toThrow(/disk of the database is full/);
    expect(ledger.fault()).toBe('the disk of the database is full');
    await bench.mend();
    await until(isUsable(ledger));
    await claimed(ledger, bench.calls.call());
  });

  test('fails one call of a batch, not its neighbours, for a value that cannot be stored', async () => {
    const bench = await Bench.open(server);
    const { ledger } = await bench.replica();
    const bad = { ...bench.calls.call(), key: 'a\0b' };
    const good = [bench.calls.call(), bench.calls.call()];
    const results = await Promise.allSettled(
      [good[0], bad, good[1]].map((call) => ledger.claim(call as RecordedCall, 'started')),
    );
    expect(results.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled']);
    expect(results[1]).toMatchObject({ reason: expect.any(LedgerUnavailable) });
    expect(ledger.fault()).toBeUndefined();
  });

  test('ends as not sent what was claimed by a statement whose answer was lost', async () => {
    const bench = await Bench.open(server);
    const { ledger, proxy } = await bench.replica();
    const call = bench.calls.call();
    await bench.spoil('INSERT', { sleepS: 0.3 });
    const claiming = ledger.claim(call, 'started');
    const failed = expect(claiming).rejects.toBeInstanceOf(LedgerUnavailable);
    await until(
      async () => (await bench.sql("SELECT FROM pg_stat_activity WHERE wait_event = 'PgSleep'")).length > 0,
    );
    proxy.cut();
    await failed;
    await bench.mend();
    await until(isUsable(ledger));
    await until(
      async () => (await bench.sql("SELECT FROM callgate.calls WHERE status = 'not_sent'")).length > 0,
    );
    expect(await claimed(ledger, bench.calls.call(call))).toMatchObject({
      attempt: 2,
      call: { id: call.id },
    });
  });

  test('ends as not sent what was claimed in a batch that failed later on', async () => {
    const bench = await Bench.open(server);
    const { ledger } = await bench.replica({ heartbeatMs: 600_000 });
    const call = bench.calls.call();
    const passedOver = bench.calls.call({ actor: 'actor-2' });
    // One of two claims is written, and with it the lease ends, so that the question why the other was not is refused.
    await bench.sql(`
      CREATE FUNCTION spoil() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        UPDATE callgate.replicas SET lease_until = now() - interval '1 second';
        RETURN CASE NEW.actor WHEN 'actor-2' THEN NULL ELSE NEW END; END $$;
      CREATE TRIGGER spoil BEFORE INSERT ON callgate.calls FOR EACH ROW EXECUTE FUNCTION spoil()`);
    const results = await Promise.allSettled([call, passedOver].map((each) => ledger.claim(each, 'started')));
    await bench.mend();
    expect(results.map(({ status }) => status)).toEqual(['rejected', 'rejected']);
    await until(
      async () => (await bench.sql("SELECT FROM callgate.calls WHERE status <> 'started'")).length > 0,
    );
    expect(await bench.sql('SELECT status FROM callgate.calls')).toEqual([{ status: 'not_sent' }]);
    await until(isUsable(ledger));
    expect(await claimed(ledger, bench.calls.call(call))).toMatchObject({ attempt: 2 });
  });

  test('leaves a call that runs alone when a later claim of it is lost on its way', async () => {
    const bench = await Bench.open(server);
    const { ledger, proxy } = await bench.replica();
    const call = bench.calls.call();
    const claim = await claimed(ledger, call);
    await bench.spoil('INSERT', { sleepS: 0.3 });
    const failed = expect(ledger.claim(bench.calls.call(call), 'started')).rejects.toBeInstanceOf(
      LedgerUnavailable,
    );
    await until(
      async () => (await bench.sql("SELECT FROM pg_stat_activity WHERE wait_event = 'PgSleep'")).length > 0,
    );
    proxy.cut();
    await failed;
    await bench.mend();
    await until(isUsable(ledger));
    await until(() => ledger.maintain());
    expect(await found(ledger, call)).toMatchObject({ status: 'started', attempt: 1 });
    expect(await ledger.settle(claim, bench.calls.ended(outcomes.succeeded))).toBe(true);
  });

  test('takes the second try of an end whose first answer was lost for the first', async () => {
    const bench = await Bench.open(server);
    const { ledger, proxy } = await bench.replica();
    const call = bench.calls.call();
    const claim = await claimed(ledger, call);
    const end = bench.calls.ended(answered('once'));
    await bench.spoil('UPDATE', { sleepS: 0.3 });
    const failed = expect(ledger.settle(claim, end)).rejects.toBeInstanceOf(LedgerUnavailable);
    await until(
      async () => (await bench.sql("SELECT FROM pg_stat_activity WHERE wait_event = 'PgSleep'")).length > 0,
    );
    proxy.cut();
    await failed;
    await bench.mend();
    await until(isUsable(ledger));
    await until(
      async () => (await bench.sql("SELECT FROM callgate.calls WHERE status = 'succeeded'")).length > 0,
    );
    expect(await ledger.settle(claim, end)).toBe(true);
    expect(await ledger.settle(claim, { ...end })).toBe(false);
    expect(await found(ledger, call)).toMatchObject({ status: 'succeeded', attempts: 1 });
  });

  test('sends a wish to cancel to the replica that runs the call, at once', async () => {
    const bench = await Bench.open(server);
    const [a, b, c] = [await bench.replica(), await bench.replica(), await bench.replica()];
    const call = bench.calls.call();
    await claimed(a.ledger, call);
    c.lost.add(call.id);
    b.lost.add(call.id);
    const sinceMs = performance.now();
    await b.ledger.requestCancel(await found(b.ledger, call));
    await until(() => a.cancelRequests.includes(call.id));
    expect(performance.now() - sinceMs).toBeLessThan(500);
    expect([b.cancelRequests, c.cancelRequests]).toEqual([[], []]);
  });

  test('tells a replica that was cut off of the wishes that it has missed', async () => {
    const bench = await Bench.open(server);
    const [a, b] = [await bench.replica(), await bench.replica()];
    const call = bench.calls.call();
    await claimed(a.ledger, call);
    a.proxy.refuse();
    await until(
      async () =>
        (await bench.sql("SELECT FROM pg_stat_activity WHERE query LIKE 'UPDATE callgate.replicas%'"))
          .length < 2,
    );
    await b.ledger.requestCancel(await found(b.ledger, call));
    a.proxy.resume();
    await until(() => a.cancelRequests.includes(call.id));
  });

  test('ends the calls of a replica that is paused beyond its lease; awake, it settles its own attempts only', async () => {
    const bench = await Bench.open(server);
    const paused = await bench.replica();
    const other = await bench.replica();
    const [received, started, untouched] = [bench.calls.call(), bench.calls.call(), bench.calls.call()];
    const first = await claimed(paused.ledger, received, 'received');
    const second = await claimed(paused.ledger, started, 'started');
    await claimed(other.ledger, untouched, 'started');
    paused.proxy.stall();
    await bench.sql(
      'UPDATE callgate.replicas SET lease_until = now() WHERE number = (SELECT min(number) FROM callgate.replicas)',
    );
    await until(async () => {
      const record = await found(other.ledger, started);
      return record.status === 'unknown';
    });
    expect(await found(other.ledger, started)).toMatchObject({ outcome: { error: { code: 'interrupted' } } });
    expect(await found(other.ledger, received)).toMatchObject({ status: 'not_sent' });
    expect(await found(other.ledger, untouched)).toMatchObject({ status: 'started' });
    const again = await claimed(other.ledger, bench.calls.call(received), 'received');
    await until(() => paused.ledger.fault() !== undefined);
    await expect(paused.ledger.claim(bench.calls.call(), 'started')).rejects.toBeInstanceOf(
      LedgerUnavailable,
    );

    paused.proxy.resume();
    await until(isUsable(paused.ledger));
    expect(await paused.ledger.start(first)).toBe(false);
    expect(await paused.ledger.settle(first, bench.calls.ended(outcomes.succeeded))).toBe(false);
    expect(await paused.ledger.settle(second, bench.calls.ended(outcomes.succeeded, 0))).toBe(true);
    expect(await other.ledger.settle(again, bench.calls.ended(outcomes.failed))).toBe(true);
    expect(await found(other.ledger, started)).toMatchObject({ status: 'succeeded' });
    expect(await found(paused.ledger, received)).toMatchObject({ status: 'failed', attempt: 2 });
    await claimed(paused.ledger, bench.calls.call());
    expect(await bench.sql('SELECT DISTINCT owner FROM callgate.calls WHERE owner IS NOT NULL')).toHaveLength(
      2,
    );
  });

  test('gives a new number to a replica that could not renew its lease in time, whatever the database says', async () => {
    const bench = await Bench.open(server);
    const { ledger, proxy } = await bench.replica({ leaseMs: 1_500 });
    proxy.refuse();
    await bench.sql("UPDATE callgate.replicas SET lease_until = now() + interval '1 hour'");
    // Nothing happens when a lease runs out, so there is nothing but time to wait for.
    await new Promise((resolve) => setTimeout(resolve, 1_500));
    proxy.resume();
    await until(isUsable(ledger));
    expect(await bench.sql('SELECT FROM callgate.replicas')).toHaveLength(2);
    await claimed(ledger, bench.calls.call());
    expect(await bench.sql('SELECT owner FROM callgate.calls')).toEqual(
      await bench.sql('SELECT max(number) AS owner FROM callgate.replicas'),
    );
  });

  test('leaves the running calls of a process that has lost its lease to that process, and others end them', async () => {
    const bench = await Bench.open(server);
    const { ledger, lost } = await bench.replica();
    const calls = [bench.calls.call(), bench.calls.call(), bench.calls.call()] as const;
    const claim = await claimed(ledger, calls[0]);
    await claimed(ledger, calls[1]);
    await claimed(ledger, calls[2]);
    await bench.sql("UPDATE callgate.replicas SET lease_until = now() - interval '1 second'");
    await until(
      async () => (await bench.sql('SELECT FROM callgate.replicas WHERE lease_until > now()')).length > 0,
    );
    lost.add(calls[1].id);
    await until(async () => (await found(ledger, calls[1])).status === 'unknown');
    expect(await found(ledger, calls[0])).toMatchObject({ status: 'started' });
    expect(await ledger.settle(claim, bench.calls.ended(outcomes.succeeded))).toBe(true);
    const other = await bench.replica();
    await until(async () => (await found(other.ledger, calls[2])).status === 'unknown');
  });

  test('refuses a claim whose replica has lost its lease, whatever that replica thinks', async () => {
    const bench = await Bench.open(server);
    const { ledger } = await bench.replica({ heartbeatMs: 600_000, leaseMs: 600_000, sweepMs: 600_000 });
    const claim = await claimed(ledger, bench.calls.call(), 'received');
    await bench.sql("UPDATE callgate.replicas SET lease_until = now() - interval '1 second'");
    await expect(ledger.claim(bench.calls.call(), 'started')).rejects.toThrow(/lease/);
    expect(await bench.sql("SELECT FROM callgate.calls WHERE status = 'started'")).toEqual([]);
    // It goes on under a new number, which the old call does not bear.
    await until(
      async () => (await bench.sql('SELECT FROM callgate.replicas WHERE lease_until > now()')).length > 0,
    );
    expect(await ledger.start(claim)).toBe(false);
    await claimed(ledger, bench.calls.call());
  });

  test('has one schema however many replicas start at once', async () => {
    const bench = await Bench.open(server);
    const replicas = await Promise.all(
      Array.from({ length: 20 }, () => bench.replica({ heartbeatMs: 3_000 })),
    );
    expect(replicas.map(({ ledger }) => ledger.fault())).toEqual(replicas.map(() => undefined));
    expect(await bench.sql('SELECT version, name FROM callgate.migrations ORDER BY version')).toMatchObject([
      { version: 1, name: 'calls, replicas and quotas' },
      { version: 2, name: 'tool lists' },
    ]);
    expect(await bench.sql('SELECT DISTINCT number FROM callgate.replicas')).toHaveLength(20);
    const call = bench.calls.call();
    const results = await Promise.all(
      replicas.map(({ ledger }) => ledger.claim(bench.calls.call(call), 'started')),
    );
    expect(results.filter(({ kind }) => kind === 'claimed')).toHaveLength(1);
  });

  test('of a newer schema is refused, and a running replica begins nothing more on it', async () => {
    const bench = await Bench.open(server);
    const { ledger } = await bench.replica({ heartbeatMs: 600_000, leaseMs: 600_000, sweepMs: 600_000 });
    const [waiting, running] = [bench.calls.call(), bench.calls.call()];
    const toStart = await claimed(ledger, waiting, 'received');
    const toSettle = await claimed(ledger, running, 'started');
    await bench.sql("INSERT INTO callgate.migrations (version, name) VALUES ($1, 'of tomorrow')", [
      schemaVersion + 1,
    ]);
    await expect(bench.replica()).rejects.toBeInstanceOf(LedgerRefused);
    await expect(openPostgresArchive(bench.url)).rejects.toThrow(/version/);
    await expect(ledger.claim(bench.calls.call(), 'started')).rejects.toThrow(/newer version/);
    await expect(ledger.start(toStart)).rejects.toBeInstanceOf(LedgerUnavailable);
    await until(() => ledger.fault()?.includes('version') === true);
    await bench.sql('DELETE FROM callgate.migrations WHERE version > $1', [schemaVersion]);
    await until(isUsable(ledger));
    expect(await ledger.start(toStart)).toBe(true);
    expect(await ledger.settle(toSettle, bench.calls.ended(outcomes.succeeded))).toBe(true);
  });

  test.for([1, 2])('of schema %i, as a release has left it, is taken over', async (number) => {
    const bench = await Bench.open(server);
    const dump = new URL(`../../fixtures/ledger-schema-${number}.postgres.sql`, import.meta.url);
    await bench.sql(readFileSync(dump, 'utf8'));
    if (number < schemaVersion)
      await expect(openPostgresArchive(bench.url)).rejects.toThrow(/of an older version: start this version/);
    const { ledger } = await bench.replica();
    expect(await ledger.loadToolLists()).toEqual(number < 2 ? [] : [toolList(1_800_000_000_000)]);
    await ledger.saveToolList(toolList(1_900_000_000_000));
    expect(await ledger.loadToolLists()).toEqual([toolList(1_900_000_000_000)]);
    for (const actor of ['actor-1', 'actor-2', 'actor-3', 'actor-4', 'actor-5']) {
      const list = () => ledger.list({ actor, limit: 10 });
      await until(async () => (await list())[0]?.status === 'unknown');
      const records = await list();
      expect(records.map(({ status }) => status)).toEqual(['unknown', 'succeeded', 'succeeded']);
      expect(records.map(({ tool }) => tool?.target.class)).toEqual(['write', 'read', 'write']);
      expect(records[1]?.outcome).toEqual(outcomes.succeeded);
      for (const record of records) {
        expect(record.callId).toMatch(/^call \ud800\0\d+$/);
        expect(await found(ledger, record)).toEqual(record);
      }
    }
    expect(await bench.sql('SELECT max(version) AS version FROM callgate.migrations')).toEqual([
      { version: schemaVersion },
    ]);
    await claimed(ledger, bench.calls.call({ actor: 'actor-1' }));
  });

  test('with damaged tool lists gives the others, and logs those', async () => {
    const bench = await Bench.open(server);
    const { ledger, events } = await bench.replica();
    for (const alias of ['good', 'torn', 'lost']) await ledger.saveToolList(toolList(1, { alias }));
    await bench.sql(`UPDATE callgate.tool_lists SET list = '{"tools":[' WHERE alias = 'torn'`);
    await bench.sql("UPDATE callgate.tool_lists SET list = 'null' WHERE alias = 'lost'");
    expect(await ledger.loadToolLists()).toEqual([toolList(1, { alias: 'good' })]);
    expect(events.filter((event) => event === 'ledger.tool_list_left_out')).toHaveLength(2);
    expect(ledger.fault()).toBeUndefined();
  });

  test('with a tool list that another holds fails to save it in time, and nothing else with it', async () => {
    const bench = await Bench.open(server);
    const { ledger } = await bench.replica();
    await ledger.saveToolList(toolList(1));
    await bench.sql('BEGIN');
    await bench.sql('SELECT FROM callgate.tool_lists FOR UPDATE');
    const sinceMs = performance.now();
    const saving = ledger.saveToolList(toolList(2));
    await claimed(ledger, bench.calls.call());
    await expect(saving).rejects.toThrow('the database took too long');
    expect(performance.now() - sinceMs).toBeLessThan(promptMs);
    await bench.sql('ROLLBACK');
    expect(ledger.fault()).toBeUndefined();
    await ledger.saveToolList(toolList(3));
    expect(await ledger.loadToolLists()).toEqual([toolList(3)]);
  });

  test('that cannot be used by this URL is refused', async () => {
    const bench = await Bench.open(server);
    const wrong = new URL(bench.url);
    wrong.pathname = '/callgate_nowhere';
    for (const url of [wrong.href, 'postgresql://user@host:port/database']) {
      const settings = { ...wideBounds, store: { kind: 'postgres', url } as const };
      const deps: LedgerDeps = {
        nowMs: Date.now,
        log: { info: () => {}, warn: () => {}, error: () => {} },
        isHeld: () => true,
        onCancelRequested: () => {},
      };
      await expect(openPostgres(url, settings, deps)).rejects.toBeInstanceOf(LedgerRefused);
      await expect(openPostgresArchive(url)).rejects.toBeInstanceOf(LedgerRefused);
    }
    await expect(openPostgresArchive(bench.url)).rejects.toThrow(/no ledger/);
  });

  test('can be read, and an unknown call settled, beside the replicas', async () => {
    const bench = await Bench.open(server);
    const { ledger } = await bench.replica();
    const calls = [bench.calls.call(), bench.calls.call({ actor: 'actor-2' }), bench.calls.call()] as const;
    for (const call of calls)
      await ledger.settle(await claimed(ledger, call), bench.calls.ended(outcomes.unknown));
    await ledger.record(bench.calls.call({ tool: readTool }), bench.calls.ended(outcomes.succeeded));
    const archive = await openPostgresArchive(bench.url);
    onTestFinished(() => archive.close());
    const listed = await archive.list({ status: 'unknown', limit: 2 });
    expect(listed.map(({ id }) => id)).toEqual([calls[2].id, calls[1].id]);
    expect(await archive.list({ status: 'unknown', before: calls[1].id, limit: 2 })).toEqual([
      await found(ledger, calls[0]),
    ]);
    expect(await archive.list({ limit: 10 })).toHaveLength(4);
    expect(await archive.get(calls[1].id)).toEqual(await found(ledger, calls[1]));
    for (const id of ['', 'x', '\0']) expect(await archive.get(id)).toBeUndefined();
    expect(await archive.settle(calls[0].id, 'succeeded', 'seen in the bank', 'root')).toBe(true);
    expect(await archive.settle(calls[0].id, 'failed', 'or not', 'root')).toBe(false);
    const record = await found(ledger, calls[0]);
    expect(record.status).toBe('succeeded');
    expect(JSON.stringify(record.outcome)).toContain('seen in the bank');
  });

  test('is left alone by a replica that has closed', async () => {
    const bench = await Bench.open(server);
    const { ledger, proxy } = await bench.replica();
    await Promise.all(Array.from({ length: 100 }, () => claimed(ledger, bench.calls.call())));
    await ledger.close();
    expect(await bench.sql('SELECT FROM callgate.replicas')).toEqual([]);
    expect(await bench.sql("SELECT FROM callgate.calls WHERE status <> 'unknown'")).toEqual([]);
    await until(() => proxy.connections === 0);
    await until(
      async () =>
        (
          await bench.sql(
            "SELECT FROM pg_stat_activity WHERE application_name = 'callgate' AND datname = current_database()",
          )
        ).length === 0,
    );
  });

  test('is tidied in slices, however much there is', async () => {
    const bench = await Bench.open(server);
    const { ledger } = await bench.replica();
    const long = Date.now() - 16 * 60_000;
    const ends = Array.from({ length: 1_300 }, (_, index) => {
      const call = bench.calls.call({ tool: readTool, actor: `actor-${index % 7}` });
      return ledger.record(call, {
        outcome: outcomes.succeeded,
        attempts: 1,
        atMs: index < 1_200 ? long : Date.now(),
      });
    });
    await Promise.all(ends);
    await until(() => ledger.maintain());
    expect(
      await bench.sql('SELECT shelf, count(*)::int FROM callgate.calls GROUP BY shelf ORDER BY shelf'),
    ).toEqual([
      { shelf: 'read', count: 100 },
      { shelf: 'tombstone', count: 1_200 },
    ]);
  });
});
