import { execFileSync } from 'node:child_process';
import {
  copyFileSync,
  existsSync,
  linkSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { describe, expect, onTestFinished, test } from 'vitest';
import { LedgerUnavailable } from '../../../src/dispatch/ports.ts';
import { isFinal } from '../../../src/dispatch/record.ts';
import { openArchive, openLedger } from '../../../src/ledger/open.ts';
import { type LedgerDeps, LedgerRefused, type OpenLedger } from '../../../src/ledger/settings.ts';
import { openSqlite, type SqliteLedger, type SqliteOptions } from '../../../src/ledger/sqlite.ts';
import { openSqliteArchive } from '../../../src/ledger/sqlite-archive.ts';
import { sqliteDriver } from '../../../src/ledger/sqlite-driver.ts';
import { sqliteSchema } from '../../../src/ledger/sqlite-migrations.ts';
import { openStore } from '../../../src/ledger/sqlite-open.ts';
import { LedgerProcess } from '../../support/ledger-process.ts';
import { byHand, newFolder, newSqliteStore, support, workerUrl } from '../../support/sqlite-store.ts';
import { until } from '../../support/until.ts';
import { type Bounds, claimed, found, outcomes, readTool, Workbench, wideBounds } from './bench.ts';
import { testLedger, toolList } from './suite.ts';

testLedger('SQLite ledger', newSqliteStore, { isShared: false });

/** Calls and their ends; the ledgers of this file are opened without it. */
const bench = new Workbench(await newSqliteStore());

const newFile = (): string => join(newFolder(), 'ledger.db');

const silent: LedgerDeps = {
  nowMs: () => bench.nowMs,
  log: { info: () => {}, warn: () => {}, error: () => {} },
  isHeld: () => true,
  onCancelRequested: () => {},
};

async function open(
  file: string,
  options: SqliteOptions = {},
  bounds: Partial<Bounds> = {},
): Promise<SqliteLedger> {
  const settings = { store: { kind: 'sqlite', file }, ...wideBounds, ...bounds } as const;
  const ledger = await openSqlite(file, settings, silent, { ...byHand, ...options });
  onTestFinished(() => ledger.close());
  return ledger;
}

const refusal = async (opening: Promise<unknown>): Promise<string> => {
  const error = await opening.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  expect(error).toBeInstanceOf(LedgerRefused);
  return (error as LedgerRefused).message;
};

/** Whether a call that writes is taken. */
async function takes(ledger: OpenLedger, facts: Parameters<Workbench['call']>[0] = {}): Promise<boolean> {
  try {
    return (await ledger.claim(bench.call(facts), 'started')).kind === 'claimed';
  } catch (error) {
    expect(error).toBeInstanceOf(LedgerUnavailable);
    return false;
  }
}

/** Runs SQL on a database file that no ledger is open on. */
async function onFile<T>(
  file: string,
  work: (database: ReturnType<Awaited<ReturnType<typeof sqliteDriver>>>) => T,
): Promise<T> {
  const openDatabase = await sqliteDriver();
  const database = openDatabase(file);
  try {
    return work(database);
  } finally {
    database.close();
  }
}

describe('a SQLite ledger is held', () => {
  test('by one process: the next one is told by whom, and what to do', async () => {
    const file = newFile();
    const holder = new LedgerProcess(file);
    expect(await holder.says()).toEqual({ opened: true });
    const message = await refusal(open(file));
    expect(message).toContain(file);
    expect(message).toContain(`process ${String(holder.child.pid)} on `);
    expect(message).toMatch(/since \d{4}-\d\d-\d\dT.*: stop that process first, or .*PostgreSQL/);
  });

  test('against another process too, and not against one that comes after', async () => {
    const file = newFile();
    const ledger = await open(file);
    expect(await new LedgerProcess(file).says()).toEqual({
      refused: 'LedgerRefused',
      message: expect.stringContaining(`process ${process.pid} on `),
    });
    await ledger.close();
    expect(await new LedgerProcess(file).says()).toEqual({ opened: true });
  });

  test('by no process that was killed, whatever it has left behind', async () => {
    const file = newFile();
    const holder = new LedgerProcess(file);
    await holder.says();
    const call = bench.call();
    expect(await holder.ask('claim', call)).toMatchObject({ kind: 'claimed' });
    await holder.kill();
    expect(existsSync(`${file}.holder`)).toBe(true);
    const ledger = await open(file);
    expect(await found(ledger, call)).toMatchObject({ status: 'unknown' });
  });

  test('also when the note about its holder is gone or is nonsense', async () => {
    const file = newFile();
    await open(file);
    for (const note of ['', '{"pid"', '[]']) {
      writeFileSync(`${file}.holder`, note);
      expect(await refusal(open(file))).toContain('is held by');
    }
    rmSync(`${file}.holder`);
    expect(await refusal(open(file))).toContain('is held by another process');
  });

  test('under whatever name it is opened', async () => {
    const file = newFile();
    await open(file);
    const other = newFile();
    symlinkSync(file, other);
    expect(await refusal(open(other))).toContain('is held by');
  });

  test('under one name only: a second one would have a lock of its own', async () => {
    const file = newFile();
    await (await open(file)).close();
    const other = join(file, '..', 'other.db');
    linkSync(file, other);
    for (const name of [file, other]) {
      const message = `the ledger ${name} cannot be used: the file has 2 names (hard links)`;
      expect(await refusal(open(name))).toContain(message);
      expect(await refusal(openSqliteArchive(name))).toContain(message);
    }
    rmSync(other);
    expect(await takes(await open(file))).toBe(true);
  });

  test('until its lock file is removed, from when on nothing that writes is taken', async () => {
    const file = newFile();
    const ledger = await open(file);
    rmSync(`${file}.lock`);
    expect(await takes(ledger)).toBe(false);
    expect(ledger.fault()).toContain(`${file}.lock was removed or replaced`);
  });

  test('in files that only its user can read', async () => {
    const file = join(newFolder(), 'deep', 'er', 'ledger.db');
    await open(file);
    const folder = join(file, '..');
    const names = readdirSync(folder);
    const suffixes = ['', '-wal', '-shm', '.holder', '.lock'];
    expect(names).toEqual(expect.arrayContaining(suffixes.map((suffix) => `ledger.db${suffix}`)));
    for (const name of ['.', ...names])
      expect([name, statSync(join(folder, name)).mode & 0o077]).toEqual([name, 0]);
  });
});

describe('the archive', () => {
  test('reads and settles beside the running service', async () => {
    const file = newFile();
    const ledger = await open(file);
    const calls = ['actor-1', 'actor-2', 'actor-3'].map((actor) => bench.call({ actor }));
    for (const call of calls) {
      await ledger.settle(await claimed(ledger, call), bench.ended(outcomes.unknown));
    }
    const running = bench.call();
    await claimed(ledger, running);
    const archive = await openArchive({ store: { kind: 'sqlite', file } });
    onTestFinished(() => archive.close());
    const unknown = await archive.list({ status: 'unknown', limit: 10 });
    expect(unknown.map(({ id }) => id)).toEqual(calls.map(({ id }) => id).reverse());
    const [newest] = await archive.list({ limit: 1 });
    expect(newest).toEqual(await found(ledger, running));
    expect((await archive.list({ before: unknown[0]?.id, limit: 1 }))[0]?.id).toBe(calls[1]?.id);

    const [call] = calls as [(typeof calls)[number]];
    expect(await archive.get(call.id)).toEqual(await found(ledger, call));
    expect(await archive.get('no such id')).toBeUndefined();
    expect(await archive.settle(call.id, 'succeeded', 'the bank has it', 'maria')).toBe(true);
    expect(await archive.settle(call.id, 'failed', 'once only', 'paul')).toBe(false);
    expect(await archive.settle(running.id, 'failed', 'not while it runs', 'paul')).toBe(false);
    const record = await found(ledger, call);
    expect(record).toMatchObject({ status: 'succeeded', outcome: { status: 'succeeded' } });
    expect(JSON.stringify(record.outcome?.result)).toContain('the bank has it');
    const settledBy = { user: 'maria', note: 'the bank has it', atMs: record.updatedAtMs };
    expect(record.outcome?.settledBy).toEqual(settledBy);
    expect(await ledger.settle({ call, attempt: 1 }, bench.ended(outcomes.failed))).toBe(false);
    expect(await takes(ledger)).toBe(true);
  });

  test('needs a ledger that is there, and of its own schema', async () => {
    const file = newFile();
    expect(await refusal(openSqliteArchive(file))).toBe(
      `there is no ledger ${file}: start callgate with this configuration once, or name the configuration of the service (--config); that of \`callgate dev\` is in the folder it was started in`,
    );
    expect(existsSync(file)).toBe(false);
    await (await open(file)).close();
    await onFile(file, (database) => database.exec(`INSERT INTO migrations VALUES (${sqliteSchema + 1}, 0)`));
    expect(await refusal(openSqliteArchive(file))).toContain(`has schema ${sqliteSchema + 1}`);
    const old = newFile();
    copyFileSync(support('../fixtures/ledger-schema-1.db'), old);
    expect(await refusal(openSqliteArchive(old))).toMatch(
      /has schema 1, .* start the service of this version on it once$/,
    );
  });
});

describe('a search of many records', () => {
  /** Records of one actor, the oldest of them the only one of its run. */
  const recordsOf = async (ledger: SqliteLedger, actor: string, count: number): Promise<void> => {
    const runs = Array.from({ length: count }, (_, index) => (index === 0 ? 'first' : 'other'));
    await Promise.all(
      runs.map((run) => ledger.record(bench.call({ actor, run }), bench.ended(outcomes.succeeded))),
    );
  };

  test('ends after ten thousand of them, and says where it goes on', async () => {
    const ledger = await open(newFile());
    await recordsOf(ledger, 'actor-0', 11_000);
    // The sixteenth actor after it shares its part of the index.
    for (let index = 1; index <= 16; index += 1) await recordsOf(ledger, `actor-${index}`, 1);
    const query = { actor: 'actor-0', run: 'first', limit: 1 };
    const first = await ledger.list(query);
    expect(first).toHaveLength(0);
    expect(first.resumeBefore).toMatch(/^[\da-f-]{36}$/);
    const second = await ledger.list({ ...query, before: first.resumeBefore });
    expect(second.map(({ run }) => run)).toEqual(['first']);
    expect(second.resumeBefore).toBeUndefined();
    // What others have in the same part is no reason to end.
    await recordsOf(ledger, 'actor-0', 11_000);
    expect(await ledger.list({ actor: 'actor-16', limit: 1 })).toHaveLength(1);
  });

  test('stops when nobody waits for it any more, and harms no other', async () => {
    const file = newFile();
    const before = await open(file);
    await recordsOf(before, 'actor-1', 5_000);
    await before.close();
    const ledger = await open(file, { answerMs: 1_000 });
    const query = { actor: 'actor-1', status: 'unknown', limit: 1 } as const;
    const lists = Array.from({ length: 2_000 }, () => ledger.list(query));
    const ends = await Promise.allSettled(lists);
    const reasons = ends.flatMap((end) => (end.status === 'rejected' ? [String(end.reason.message)] : []));
    expect(new Set(reasons)).toEqual(new Set(['the search of the ledger took longer than it may']));
    expect(ledger.fault()).toBeUndefined();
    expect(await ledger.list({ actor: 'actor-1', limit: 1 })).toHaveLength(1);
  });
});

describe('the schema', () => {
  // Made by openSqlite of the release that had this schema: five actors, each with a succeeded write, a read and a
  // call on its way, and from schema 2 on a tool list; then copied with its write-ahead log moved in. The test tells
  // what is in it.
  test.for([1, 2])('%i of an earlier release is brought up to date, with all its records', async (number) => {
    const file = newFile();
    copyFileSync(support(`../fixtures/ledger-schema-${number}.db`), file);
    const ledger = await open(file, {}, { outputRetentionMs: 2 ** 45, readOutputRetentionMs: 2 ** 45 });
    for (const actor of ['actor-1', 'actor-2', 'actor-3', 'actor-4', 'actor-5']) {
      const records = await ledger.list({ actor, limit: 10 });
      expect(records.map(({ status }) => status)).toEqual(['unknown', 'succeeded', 'succeeded']);
      expect(records.map(({ tool }) => tool?.target.class)).toEqual(['write', 'read', 'write']);
      for (const record of records) {
        expect(record.callId).toMatch(/^call \ud800\0\d+$/);
        expect(await found(ledger, record)).toEqual(record);
      }
    }
    expect(await takes(ledger)).toBe(true);
    expect(await ledger.loadToolLists()).toEqual(number < 2 ? [] : [toolList(1_800_000_000_000)]);
    await ledger.saveToolList(toolList(1_900_000_000_000));
    expect(await ledger.loadToolLists()).toEqual([toolList(1_900_000_000_000)]);
  });

  test('of a later version is refused, and left as it is', async () => {
    const file = newFile();
    await (await open(file)).close();
    await onFile(file, (database) => database.exec('INSERT INTO migrations VALUES (7, 0)'));
    const before = readFileSync(file);
    expect(await refusal(open(file))).toBe(
      `the ledger ${file} has schema 7, and this version of callgate knows schemas up to ${sqliteSchema}: start the version that made it or a later one, or use another ledger`,
    );
    expect(readFileSync(file).equals(before)).toBe(true);
  });
});

describe('a SQLite ledger in trouble', () => {
  test('refuses what writes while the disk is full, and takes it again when there is room', async () => {
    const file = newFile();
    const service = new LedgerProcess(file);
    await service.says();
    const first = (await service.ask('claim', bench.call())) as { claim: unknown };
    service.limitFiles(statSync(`${file}-wal`).size + 4096);
    const end = bench.ended({
      status: 'succeeded',
      result: { content: [{ type: 'text', text: 'x'.repeat(200_000) }], isError: false },
    });
    const failed = {
      failed: 'LedgerUnavailable',
      message: expect.stringContaining('a limit on the size of files is reached'),
    };
    expect(await service.ask('settle', first.claim, end)).toEqual(failed);
    expect(await service.ask('fault')).toEqual({ fault: failed.message });
    const refused = bench.call();
    service.limitFiles(statSync(`${file}-wal`).size);
    expect(await service.ask('claim', refused)).toEqual(failed);
    service.limitFiles(undefined);
    // Nobody has to try: it finds out by itself.
    await until(async () => ((await service.ask('fault')) as { fault: unknown }).fault === null);
    expect(await service.ask('settle', first.claim, end)).toBe(true);
    expect(await service.ask('claim', refused)).toMatchObject({ kind: 'claimed', claim: { attempt: 1 } });
  });

  test('without room for a tool list takes calls all the same', async () => {
    const service = new LedgerProcess(newFile());
    await service.says();
    expect(await service.ask('save_tool_list', toolList(1))).toEqual({ saved: true });
    service.limitFiles(1_000_000);
    const tools = [{ name: 'find', description: 'x'.repeat(2_000_000), inputSchema: {} }];
    expect(await service.ask('save_tool_list', toolList(2, { tools }))).toEqual({
      failed: 'LedgerUnavailable',
      message: expect.stringContaining('a limit on the size of files is reached'),
    });
    expect(await service.ask('claim', bench.call())).toMatchObject({ kind: 'claimed' });
    expect(await service.ask('fault')).toEqual({ fault: null });
    expect(await service.ask('save_tool_list', toolList(3))).toEqual({ saved: true });
  });

  test('gives the tool lists that can be read, and logs the others', async () => {
    const file = newFile();
    const before = await open(file);
    const aliases = ['good', 'torn', 'other', 'tool', 'schema', 'withheld', 'time'];
    for (const alias of aliases) await before.saveToolList(toolList(1, { alias }));
    await before.close();
    const texts = {
      torn: '{"tools":[{"name":"secret',
      other: '"secret"',
      tool: '{"tools":["secret"],"refused":[]}',
      schema: '{"tools":[{"name":"secret"}],"refused":[]}',
      withheld: '{"tools":[],"refused":["secret"]}',
    };
    await onFile(file, (database) => {
      const damage = database.prepare('UPDATE tool_lists SET list = ? WHERE alias = ?');
      for (const [alias, text] of Object.entries(texts)) damage.run([text, alias]);
      database.exec("UPDATE tool_lists SET read_at = 'secret' WHERE alias = 'time'");
    });
    const leftOut: unknown[] = [];
    const log = {
      ...silent.log,
      warn: (event: string, fields: unknown) => void leftOut.push([event, fields]),
    };
    const settings = { store: { kind: 'sqlite', file }, ...wideBounds } as const;
    const ledger = await openSqlite(file, settings, { ...silent, log }, byHand);
    onTestFinished(() => ledger.close());
    expect(await ledger.loadToolLists()).toEqual([toolList(1, { alias: 'good' })]);
    expect(leftOut).toHaveLength(6);
    const reason = 'the text of the list cannot be read';
    for (const server of aliases.slice(1))
      expect(leftOut).toContainEqual(['ledger.tool_list_left_out', { server, reason }]);
    // The next list of such a server takes its place.
    await ledger.saveToolList(toolList(1, { alias: 'torn' }));
    expect((await ledger.loadToolLists()).map(({ alias }) => alias).sort()).toEqual(['good', 'torn']);
  });

  test('fails to save a tool list, and to load them, in bounded time', async () => {
    const file = newFile();
    const ledger = await open(file, {
      workerUrl: new URL('../../support/troubled-writer.mjs', import.meta.url),
      answerMs: 400,
    });
    for (const alias of ['stops', 'dies']) {
      const sinceMs = performance.now();
      const lists = [toolList(1, { alias }), toolList(1), toolList(2)];
      const ends: Promise<unknown>[] = lists.map((list) => ledger.saveToolList(list));
      await setImmediate();
      ends.push(ledger.loadToolLists());
      for (const end of await Promise.allSettled(ends))
        expect(end).toEqual({ status: 'rejected', reason: expect.any(LedgerUnavailable) });
      expect(performance.now() - sinceMs).toBeLessThan(1_400);
      await until(() =>
        ledger.saveToolList(toolList(3)).then(
          () => true,
          (error) => busy(error),
        ),
      );
    }
    expect(await ledger.loadToolLists()).toContainEqual(toolList(3));
  });

  test.for(['', '-wal'])('takes nothing that writes once its file%s is gone or another', async (suffix) => {
    for (const trouble of [rmSync, (path: string) => copyOver(path)]) {
      const file = newFile();
      const ledger = await open(file);
      const call = bench.call();
      const claim = await claimed(ledger, call);
      trouble(`${file}${suffix}`);
      await expect(ledger.settle(claim, bench.ended(outcomes.succeeded))).rejects.toThrow(
        `${file}${suffix} was removed or replaced while callgate was using it`,
      );
      expect(await takes(ledger)).toBe(false);
      await expect(
        ledger.record(bench.call({ tool: readTool }), bench.ended(outcomes.succeeded)),
      ).rejects.toBeInstanceOf(LedgerUnavailable);
      expect(ledger.fault()).toContain('restart callgate');
      expect(ledger.find(bench.call().key)).toBeUndefined();
      await ledger.close();
    }
  });

  test('whose directory cannot be made or written does not open, and says which', async () => {
    const folder = newFolder();
    const blocked = join(folder, 'file');
    writeFileSync(blocked, '');
    expect(await refusal(open(join(blocked, 'ledger.db')))).toContain(join(blocked, 'ledger.db'));
    const closed = join(newFolder(), 'closed');
    mkdirSync(closed, { mode: 0o555 });
    // The rights of a directory are nothing to root: another user has to try.
    const asOther = process.getuid?.() === 0 ? { uid: 65_534, gid: 65_534 } : {};
    execFileSync('chmod', ['755', join(closed, '..'), join(closed, '..', '..')]);
    expect(await new LedgerProcess(join(closed, 'ledger.db'), asOther).says()).toEqual({
      refused: 'LedgerRefused',
      message: expect.stringMatching(/closed\/ledger\.db cannot be used: EACCES/),
    });
  });

  test('that cannot have a write-ahead log does not open, and says why', async () => {
    const openDatabase = await sqliteDriver();
    const settings = { store: { kind: 'sqlite', file: ':memory:' }, ...wideBounds } as const;
    // A database in memory has none, like one on some network file systems.
    expect(() => openStore(openDatabase, ':memory:', settings, bench.nowMs)).toThrow(
      /^the ledger :memory: cannot be used: SQLite cannot have a write-ahead log there/,
    );
  });

  test('that is no database, or a damaged one, does not open and says what to do', async () => {
    const nonsense = newFile();
    writeFileSync(nonsense, 'no database at all\n'.repeat(1_000));
    expect(await refusal(open(nonsense))).toMatch(/cannot be used: it is damaged, or no ledger at all/);
    const damaged = newFile();
    const ledger = await open(damaged);
    for (let index = 0; index < 300; index += 1) await claimed(ledger, bench.call());
    await ledger.close();
    const bytes = readFileSync(damaged);
    bytes.fill(0x5a, 4_096, bytes.length);
    writeFileSync(damaged, bytes);
    expect(await refusal(open(damaged))).toMatch(/damaged/);
  });

  test.for([
    'DELETE FROM actors',
    "UPDATE calls SET call = 'x'",
    'DELETE FROM calls; UPDATE actors SET records = 9',
  ])('that does not fit together (%s) does not open and says what to do', async (sql) => {
    const file = newFile();
    const ledger = await open(file);
    await claimed(ledger, bench.call());
    await ledger.close();
    await onFile(file, (database) => database.exec(sql));
    expect(await refusal(open(file))).toMatch(/is damaged.*put back a copy of it, or move it away/);
  });

  test('whose texts are damaged shows nothing of them, and goes on with the others', async () => {
    const file = newFile();
    const before = await open(file);
    const calls = [bench.call(), bench.call(), bench.call()] as const;
    for (const call of calls) {
      await before.settle(await claimed(before, call), bench.ended(outcomes.succeeded));
    }
    await before.close();
    await onFile(file, (database) =>
      database.exec(
        `UPDATE calls SET call = 'secret' WHERE row = 1; UPDATE calls SET outcome = 'secret' WHERE row = 2`,
      ),
    );
    const ledger = await open(file);
    await expect(ledger.find(calls[0].key)).rejects.toThrow(/^a record of the ledger is damaged/);
    const query = { actor: 'actor-1', limit: 10 };
    await expect(ledger.list(query)).rejects.toThrow(
      'it is damaged, or no ledger at all (the text of a record cannot be read)',
    );
    const { status, outcome } = await found(ledger, calls[1]);
    expect([status, outcome?.error?.code]).toEqual(['succeeded', 'ledger_unavailable']);
    expect((await found(ledger, calls[2])).outcome).toEqual(outcomes.succeeded);
    const archive = await openSqliteArchive(file);
    onTestFinished(() => archive.close());
    await expect(archive.get(calls[0].id)).rejects.toBeInstanceOf(LedgerUnavailable);
    await expect(archive.list(query)).rejects.toThrow('the text of a record cannot be read');
  });

  test('that is no plain file does not open and says so', async () => {
    const folder = newFolder();
    for (const opening of [open, openSqliteArchive]) {
      expect(await refusal(opening(folder))).toBe(
        `the ledger ${folder} cannot be used: it is a directory; name a file, which is made if it is not there`,
      );
    }
    expect(await refusal(open('/dev/null'))).toContain('/dev/null cannot be used: it is no plain file');
    const file = newFile();
    mkdirSync(`${file}.lock`);
    expect(await refusal(open(file))).toMatch(
      /its file or its directory cannot be written .*needs to write both/,
    );
  });

  test('that lacks a record that it counts does not open: a lost call would run again', async () => {
    const file = newFile();
    const ledger = await open(file);
    await claimed(ledger, bench.call());
    await claimed(ledger, bench.call());
    await ledger.close();
    await onFile(file, (database) => database.exec('DELETE FROM calls WHERE row = 1'));
    expect(await refusal(open(file))).toContain('counts 2 records, and there are 1');
  });

  test('whose thread dies says so, and goes on with another one', async () => {
    const file = newFile();
    const ledger = await open(file, {
      workerUrl: new URL('../../support/troubled-writer.mjs', import.meta.url),
    });
    const before = bench.call();
    const claim = await claimed(ledger, before);
    expect(await takes(ledger, { actor: 'dies' })).toBe(false);
    expect(ledger.fault()).toContain('the thread of the ledger has ended');
    expect(await takes(ledger)).toBe(false);
    await until(() => ledger.fault() === undefined);
    // What this process was working on is still its own.
    expect(await found(ledger, before)).toMatchObject({ status: 'started' });
    expect(await ledger.settle(claim, bench.ended(outcomes.succeeded))).toBe(true);
    expect(await takes(ledger)).toBe(true);
  });

  test('whose thread dies does not begin anew where its file is gone', async () => {
    const file = newFile();
    const ledger = await open(file, {
      workerUrl: new URL('../../support/troubled-writer.mjs', import.meta.url),
    });
    await claimed(ledger, bench.call());
    renameSync(file, `${file}.away`);
    expect(await takes(ledger, { actor: 'dies' })).toBe(false);
    await until(() => ledger.fault()?.includes('was removed or replaced') === true);
    expect(existsSync(file)).toBe(false);
  });

  test('on a disk that does not answer refuses in bounded time, and ends later what it had promised nobody', async () => {
    const file = newFile();
    let isHeld = true;
    const settings = { store: { kind: 'sqlite', file }, ...wideBounds } as const;
    const deps = { ...silent, isHeld: () => isHeld };
    const ledger = await openSqlite(file, settings, deps, {
      ...byHand,
      workerUrl: new URL('../../support/troubled-writer.mjs', import.meta.url),
      answerMs: 400,
    });
    onTestFinished(() => ledger.close());
    const call = bench.call({ actor: 'stops' });
    const sinceMs = performance.now();
    await expect(ledger.claim(call, 'started')).rejects.toBeInstanceOf(LedgerUnavailable);
    expect(performance.now() - sinceMs).toBeLessThan(1_400);
    expect(await takes(ledger)).toBe(false);
    await until(() => ledger.fault() === undefined);
    // The batch came through after all. Nobody works on the call, so it ends.
    const status = async () => (await ledger.find(call.key))?.status;
    await until(() => status().then((one) => one === 'started', busy));
    isHeld = false;
    await until(() => ledger.maintain().then(() => true, busy));
    await until(() => status().then((one) => one === 'unknown', busy));
  });
});

describe('upkeep', () => {
  test('leaves a call alone that has only just been lost, since its claim may be on its way', async () => {
    const file = newFile();
    const settings = { store: { kind: 'sqlite', file }, ...wideBounds } as const;
    const deps = { ...silent, isHeld: () => false };
    const ledger = await openSqlite(file, settings, deps, { ...byHand, graceMs: 150 });
    onTestFinished(() => ledger.close());
    const call = bench.call();
    await claimed(ledger, call);
    await ledger.maintain();
    expect(await found(ledger, call)).toMatchObject({ status: 'started' });
    await until(async () => {
      await ledger.maintain();
      return isFinal((await found(ledger, call)).status);
    });
  });

  test('happens by itself', async () => {
    const file = newFile();
    const settings = { store: { kind: 'sqlite', file }, ...wideBounds } as const;
    const deps = { ...silent, isHeld: () => false };
    const ledger = await openSqlite(file, settings, deps, { workerUrl, upkeepMs: 10, graceMs: 0 });
    onTestFinished(() => ledger.close());
    const call = bench.call();
    await claimed(ledger, call);
    await until(async () => (await found(ledger, call)).status === 'unknown');
  });

  test('keeps the counts of every actor right', async () => {
    const file = newFile();
    const bounds = { actorBytesMax: 3_000, bytesMax: 20_000, actorRecordsMax: 30 };
    const ledger = await open(file, {}, bounds);
    const ends = Object.values(outcomes);
    for (let round = 0; round < 400; round += 1) {
      const actor = `actor-${round % 40}`;
      const call = bench.call({
        actor,
        callId: `call_${round % 97}`,
        ...(round % 3 === 0 ? { tool: readTool } : {}),
      });
      const end = bench.ended(ends[round % ends.length] as (typeof ends)[number]);
      if (round % 5 === 0) await ledger.record(call, end);
      else {
        const claim = await ledger.claim(call, 'started');
        if (claim.kind === 'claimed' && round % 7 !== 0) await ledger.settle(claim.claim, end);
      }
      if (round % 50 === 49) {
        bench.later(round * 600_000);
        await ledger.maintain();
      }
    }
    await ledger.close();
    const counted = await onFile(file, (database) =>
      database
        .prepare('SELECT number, records, reads, bytes, read_bytes FROM actors ORDER BY number')
        .all([]),
    );
    const real = await onFile(file, (database) =>
      database
        .prepare(
          `SELECT actor AS number, count(*) AS records, sum(shelf IN (1, 3)) AS reads, sum(size) AS bytes,
             sum(CASE WHEN shelf IN (1, 3) THEN size ELSE 0 END) AS read_bytes
           FROM calls GROUP BY actor ORDER BY actor`,
        )
        .all([]),
    );
    const plain = (rows: readonly object[]) => rows.map((row) => ({ ...row, _metadata: undefined }));
    expect(counted.length).toBeGreaterThan(5);
    expect(plain(counted)).toEqual(plain(real));
  });
});

test('settings with a SQLite store open a SQLite ledger', async () => {
  const file = newFile();
  const settings = { store: { kind: 'sqlite', file }, ...wideBounds } as const;
  const ledger = await openLedger(settings, silent, { workerUrl });
  onTestFinished(() => ledger.close());
  expect((await ledger.claim(bench.call(), 'started')).kind).toBe('claimed');
});

/** What a ledger gives that had to wait longer than it may; on a machine with other work that happens. */
const busy = (error: unknown): boolean => {
  expect(error).toBeInstanceOf(LedgerUnavailable);
  return false;
};

/** Puts another file with the same contents in the place of a file. */
function copyOver(path: string): void {
  // By another process: closing the file in this one would take away the locks that SQLite has on it.
  execFileSync('cp', [path, `${path}.copy`]);
  renameSync(`${path}.copy`, path);
}
