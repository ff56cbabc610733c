import type { RecordQuery } from '../dispatch/ports.ts';
import { type CallRecord, isOpenRead, type RecordedCall, recordStatuses } from '../dispatch/record.ts';
import {
  callOf,
  interrupted,
  listedBytesMax,
  mayBeTakenOver,
  recordOf,
  type StoredRow,
  statusNumber,
  statusOf,
} from './row.ts';
import { LedgerRefused, type LedgerSettings } from './settings.ts';
import { Accounts, bucketsMask } from './sqlite-accounts.ts';
import { type Database, damage, type SqlRow, type SqlValue, type Statement } from './sqlite-driver.ts';
import { migrate } from './sqlite-migrations.ts';
import { type Answer, type Answers, type Cell, kinds, type Rows } from './sqlite-operations.ts';
import { outcomeDue, SqliteRetention } from './sqlite-retention.ts';
import { storedRow } from './sqlite-rows.ts';
import { shelfOf, shelves } from './sqlite-shelves.ts';
import { SqliteToolLists } from './sqlite-tool-lists.ts';
import { Transaction } from './sqlite-transaction.ts';

/** Rows that are looked at in one go. */
const stepRows = 200;
/** Entries of the index that a list passes in its first step, and in its longest. */
const listStepMin = 32;
const listStepMax = 512;
/** Rows of the actor that one list looks at; then it says where it goes on. */
const listRowsMax = 10_000;

/** A call on its way, as the sweep looks at it. */
export interface OpenRow {
  readonly row: number;
  readonly id: string;
  readonly attempt: number;
}

/** A row as it is needed to decide about it. */
interface FullRow extends StoredRow {
  readonly row: number;
  readonly shelf: number;
  readonly size: number;
}

const columns =
  'row, shelf, actor, id, key, status, attempt, attempts, updated, size, call, outcome' as const;

/** Some keys of the store: their tags and their rows, each as numbers with commas between them. */
export interface KeyPart {
  readonly tags: string;
  readonly rows: string;
}

/** What a search has found, and where it goes on if it is not over. */
export interface Listed {
  readonly rows: readonly StoredRow[];
  readonly resumeBefore: string | undefined;
}

/**
 * The SQLite ledger as one thread sees it: operations in batches, each batch one durable transaction. It knows neither
 * time nor threads.
 */
export class SqliteStore {
  readonly transaction: Transaction;
  readonly retention: SqliteRetention;
  readonly toolLists: SqliteToolLists;
  readonly #database: Database;
  readonly #settings: LedgerSettings;
  readonly #accounts: Accounts;
  readonly #statements: ReturnType<typeof prepare>;

  /** @throws LedgerRefused, or whatever the driver says about a file that it cannot use */
  constructor(database: Database, file: string, settings: LedgerSettings, nowMs: number) {
    this.#database = database;
    this.#settings = settings;
    database.exec('PRAGMA busy_timeout = 2000');
    requireWal(database, file);
    database.exec(`PRAGMA synchronous = FULL; PRAGMA cache_size = -32768;
      PRAGMA journal_size_limit = 67108864; PRAGMA wal_autocheckpoint = 8000;`);
    migrate(database, file, nowMs);
    this.#statements = prepare(database);
    this.#accounts = new Accounts(database, settings);
    this.transaction = new Transaction(database, this.#accounts);
    this.retention = new SqliteRetention(database, settings, this.#accounts, this.transaction);
    this.toolLists = new SqliteToolLists(database, this.transaction);
  }

  /**
   * Carries out the operations of a batch, in order and in one transaction.
   * @throws what the driver throws; nothing of the batch has been done then
   */
  apply(batch: readonly Cell[]): { readonly answers: Answers; readonly hasWritten: boolean } {
    const answers: [number, Answer][] = [];
    try {
      for (let at = 0, place = 0; at < batch.length; place += 1) {
        const length = lengths[batch[at] as number] as number;
        const answer = this.#one(batch, at);
        if (answer !== undefined) answers.push([place, answer]);
        at += length;
      }
      const hasWritten = this.transaction.isOpen;
      this.transaction.commit();
      return { answers, hasWritten };
    } catch (error) {
      this.transaction.rollback();
      throw error;
    }
  }

  #one(batch: readonly Cell[], at: number): Answer | undefined {
    const number = (index: number): number => batch[at + index] as number;
    const text = (index: number): string => batch[at + index] as string;
    const rows = (index: number): Rows => batch[at + index] as Rows;
    switch (batch[at]) {
      case kinds.claim:
        return this.#claim(
          number(1),
          rows(2),
          number(3),
          text(4),
          text(5),
          text(6),
          number(7),
          number(8),
          text(9),
        );
      case kinds.record:
        return this.#record(number(1), rows(2), number(3), text(4), text(5), text(6), text(11), {
          status: number(7),
          attempts: number(8),
          atMs: number(9),
          shelf: number(10),
          outcome: text(12),
        });
      case kinds.start:
        return this.#start(rows(1), text(2), number(3));
      case kinds.settle:
        return this.#settle(rows(1), text(2), text(3), number(4), number(9), {
          status: number(5),
          attempts: number(6),
          atMs: number(7),
          shelf: number(8),
          outcome: text(10),
        });
      case kinds.find:
        return rowAnswer(this.#find(rows(1), text(2)));
      case kinds.get:
        return rowAnswer(this.#get(text(1), text(2)));
      case kinds.interrupt:
        return this.#interrupt(number(1), number(2), number(3));
      default:
        throw new Error(`there is no operation ${String(batch[at])}`);
    }
  }

  #claim(
    row: number,
    rows: Rows,
    tag: number,
    key: string,
    id: string,
    actorName: string,
    status: number,
    createdAtMs: number,
    call: string,
  ): Answer | undefined {
    const old = this.#find(rows, key);
    if (old === undefined) {
      const account = this.#accounts.of(actorName);
      if (account.records - account.reads >= this.#settings.actorRecordsMax) return { kind: 'full' };
      this.transaction.write(call.length + rowChars);
      this.#statements.insertOpen.run([row, tag, createdAtMs, account.number, id, key, status, call]);
      this.#accounts.count(account, 1, shelves.open, 0);
      return undefined;
    }
    const before = recordOf(old);
    const now = callOf(call, old);
    if (!mayBeTakenOver(before, now)) return { kind: 'row', row: stored(old) };
    const account = this.#accounts.of(actorName);
    this.transaction.write();
    this.#statements.takeOver.run([
      shelves.open,
      createdAtMs,
      status,
      createdAtMs,
      keptText(call, before),
      old.row,
    ]);
    this.#accounts.count(account, -1, old.shelf, old.size);
    this.#accounts.count(account, 1, shelves.open, 0);
    return { kind: 'taken_over', id: old.id, createdAtMs: before.createdAtMs, attempt: old.attempt + 1 };
  }

  #record(
    row: number,
    rows: Rows,
    tag: number,
    key: string,
    id: string,
    actorName: string,
    call: string,
    end: End,
  ): Answer | undefined {
    const old = this.#find(rows, key);
    const { shelf, status, attempts, atMs, outcome } = end;
    const due = outcomeDue(shelf, atMs, this.#settings);
    if (old === undefined) {
      const account = this.#accounts.of(actorName);
      const size = sizeOf(call, outcome);
      this.transaction.write(size + rowChars);
      this.#statements.insert.run([
        row,
        tag,
        shelf,
        due,
        account.number,
        id,
        key,
        status,
        attempts,
        atMs,
        size,
        call,
        outcome,
      ]);
      this.#accounts.count(account, 1, shelf, size);
      return undefined;
    }
    const before = recordOf(old);
    const own = callOf(call, old);
    const isOpen = old.id === id && isOpenRead(before, own);
    if (!isOpen && !mayBeTakenOver(before, own)) return { kind: 'nothing' };
    const attempt = isOpen ? old.attempt : old.attempt + 1;
    const account = this.#accounts.of(actorName);
    this.transaction.write();
    const text = keptText(call, before);
    const size = sizeOf(text, outcome);
    this.#statements.replace.run([shelf, due, status, attempt, attempts, atMs, size, text, outcome, old.row]);
    this.#accounts.count(account, -1, old.shelf, old.size);
    this.#accounts.count(account, 1, shelf, size);
    return { kind: 'nothing' };
  }

  #start(rows: Rows, key: string, attempt: number): Answer | undefined {
    this.transaction.write();
    for (const row of each(rows)) {
      if (this.#statements.start.run([row, key, attempt]) === 1) return undefined;
    }
    return { kind: 'nothing' };
  }

  #settle(
    rows: Rows,
    key: string,
    actorName: string,
    attempt: number,
    callSize: number,
    end: End,
  ): Answer | undefined {
    const { shelf, status, attempts, atMs, outcome } = end;
    const size = callSize + Buffer.byteLength(outcome);
    const due = outcomeDue(shelf, atMs, this.#settings);
    this.transaction.write();
    for (const row of each(rows)) {
      const values = [shelf, due, status, attempts, atMs, size, outcome, row, key, attempt];
      if (this.#statements.settle.run(values) === 0) continue;
      const account = this.#accounts.of(actorName);
      this.#accounts.count(account, -1, shelves.open, 0);
      this.#accounts.count(account, 1, shelf, size);
      return undefined;
    }
    // Not on its way any more: only an end that nobody knew gives way, once, to an answer of the same attempt.
    const old = this.#find(rows, key);
    const answer = statusOf(status);
    const isLate =
      old !== undefined &&
      old.attempt === attempt &&
      statusOf(old.status) === 'unknown' &&
      old.outcome !== null &&
      (answer === 'succeeded' || answer === 'failed');
    if (!isLate) return { kind: 'nothing' };
    const account = this.#accounts.of(actorName);
    this.#statements.end.run([shelf, due, status, attempts, atMs, size, outcome, old.row]);
    this.#accounts.count(account, -1, old.shelf, old.size);
    this.#accounts.count(account, 1, shelf, size);
    return undefined;
  }

  #find(rows: Rows, key: string): FullRow | undefined {
    if (rows === null) return undefined;
    for (const row of each(rows)) {
      const found = this.#statements.find.get([row, key]);
      if (found !== undefined) return this.#full(found);
    }
    return undefined;
  }

  #get(actorName: string, id: string): FullRow | undefined {
    const account = this.#accounts.find(actorName);
    if (account === undefined) return undefined;
    const found = this.#statements.get.get([account.number & bucketsMask, id, account.number]);
    return found === undefined ? undefined : this.#full(found);
  }

  #interrupt(row: number, attempt: number, atMs: number): Answer | undefined {
    const found = this.#statements.byRow.get([row]);
    if (found === undefined) return { kind: 'nothing' };
    const old = this.#full(found);
    if (old.shelf !== shelves.open || old.attempt !== attempt) return { kind: 'nothing' };
    this.#endInterrupted(old, atMs);
    return undefined;
  }

  /** Ends calls on their way that nobody works on any more, as their process would have left them; how many. */
  interruptSome(atMs: number): number {
    try {
      const found = this.#statements.open.all([shelves.open, stepRows]);
      for (const { row } of found) {
        const old = this.#statements.byRow.get([row as number]);
        if (old?.shelf !== shelves.open) throw damage('an index and its table tell different things');
        this.#endInterrupted(this.#full(old), atMs);
      }
      this.transaction.commit();
      return found.length;
    } catch (error) {
      this.transaction.rollback();
      throw error;
    }
  }

  #endInterrupted(old: FullRow, atMs: number): void {
    const outcome = interrupted(statusOf(old.status));
    const call = callOf(old.call, old);
    const shelf = shelfOf(call, outcome.status);
    const text = JSON.stringify(outcome);
    const size = sizeOf(old.call, text);
    const account = this.#accounts.of(old.actor);
    this.transaction.write();
    this.#statements.end.run([
      shelf,
      outcomeDue(shelf, atMs, this.#settings),
      statusNumber(outcome.status),
      0,
      atMs,
      size,
      text,
      old.row,
    ]);
    this.#accounts.count(account, -1, shelves.open, 0);
    this.#accounts.count(account, 1, shelf, size);
  }

  /** All calls on their way. */
  openRows(): readonly OpenRow[] {
    return this.#statements.openIds.all([shelves.open]).map(({ row, id, attempt }) => ({
      row: row as number,
      id: id as string,
      attempt: attempt as number,
    }));
  }

  /** The records that a query asks for, found in steps that are short each. */
  *list(query: RecordQuery): Generator<void, Listed> {
    const rows: StoredRow[] = [];
    let bytes = 0;
    const account = this.#accounts.find(query.actor);
    if (account === undefined) return { rows, resumeBefore: undefined };
    const { number } = account;
    const bucket = number & bucketsMask;
    const conditions = conditionsOf(query);
    let before = query.before ?? afterEveryId;
    let looked = 0;
    for (let step = listStepMin; ; step = Math.min(step * 2, listStepMax)) {
      const matches = this.#statements.matches.all([bucket, before, step, number, ...conditions]);
      // Before anybody writes: what comes anew in between must not be passed over.
      const passed = this.#statements.passed.get([number, bucket, before, step]) as SqlRow;
      for (const { row, size } of matches) {
        if (bytes + (size as number) > listedBytesMax && rows.length > 0) {
          return { rows, resumeBefore: rows.at(-1)?.id };
        }
        const found = this.#statements.byRow.get([row as number]);
        const full = found === undefined ? undefined : this.#full(found);
        // It may have ended, or gone, since.
        if (full === undefined || !fits(recordOf(full), query)) continue;
        rows.push(stored(full));
        bytes += full.size;
        if (rows.length === query.limit) return { rows, resumeBefore: undefined };
        yield;
      }
      if ((passed.entries as number) < step) return { rows, resumeBefore: undefined };
      before = passed.last as string;
      looked += passed.own as number;
      if (looked >= listRowsMax) return { rows, resumeBefore: before };
      yield;
    }
  }

  /** All tags and rows, in parts. */
  *keys(): Generator<KeyPart, void> {
    let place: readonly SqlValue[] = [0, -1, 0, 0];
    for (;;) {
      // One row of the result for many of the table: a row costs more on its way out of SQLite than inside it.
      const { tags, rows } = this.#statements.keys.get([...place, keysStepRows]) as Record<
        string,
        string | null
      >;
      if (tags == null || rows == null) return;
      const row = Number(rows.slice(rows.lastIndexOf(',') + 1));
      const last = this.#statements.keyPlace.get([row]);
      if (last === undefined) throw damage('an index and its table tell different things');
      place = [last.shelf as number, last.due as number, last.tag as number, row];
      yield { tags, rows };
    }
  }

  /** How many records there are. */
  get size(): number {
    return this.#accounts.records;
  }

  close(): void {
    this.#database.close();
  }

  #full(row: SqlRow): FullRow {
    const { name } = this.#accounts.numbered(row.actor as number);
    return fullRow(row, name);
  }
}

interface End {
  readonly status: number;
  readonly attempts: number;
  readonly atMs: number;
  readonly shelf: number;
  readonly outcome: string;
}

/** Fields of each kind of operation, the kind among them. */
const lengths: Readonly<Record<number, number>> = {
  [kinds.claim]: 10,
  [kinds.record]: 13,
  [kinds.start]: 4,
  [kinds.settle]: 11,
  [kinds.find]: 3,
  [kinds.get]: 3,
  [kinds.interrupt]: 4,
};

const afterEveryId = '~';
/** What a row takes beside its texts, in the table and in both indexes. */
const rowChars = 400;
const keysStepRows = 50_000;

function prepare(database: Database) {
  const statement = (sql: string): Statement => database.prepare(sql);
  return {
    insert: statement('INSERT INTO calls VALUES (?, ?, ?, ?, ?, ?, ?, ?, 1, ?, ?, ?, ?, ?)'),
    // A parameter costs as much as a column: what is always the same is in the text.
    insertOpen: statement('INSERT INTO calls VALUES (?1, ?2, 0, ?3, ?4, ?5, ?6, ?7, 1, 0, ?3, 0, ?8, NULL)'),
    find: statement(`SELECT ${columns} FROM calls WHERE row = ? AND key = ?`),
    byRow: statement(`SELECT ${columns} FROM calls WHERE row = ?`),
    get: statement(`SELECT ${columns} FROM calls WHERE actor & 15 = ? AND id = ? AND actor = ?`),
    start: statement('UPDATE calls SET status = 1 WHERE row = ? AND key = ? AND attempt = ? AND status = 0'),
    settle: statement(
      `UPDATE calls SET shelf = ?, due = ?, status = ?, attempts = attempts + ?, updated = ?, size = ?, outcome = ?
       WHERE row = ? AND key = ? AND attempt = ? AND shelf = 0`,
    ),
    end: statement(
      `UPDATE calls SET shelf = ?, due = ?, status = ?, attempts = attempts + ?, updated = ?, size = ?, outcome = ?
       WHERE row = ?`,
    ),
    takeOver: statement(
      `UPDATE calls SET shelf = ?, due = ?, status = ?, attempt = attempt + 1, updated = ?, size = 0, call = ?,
       outcome = NULL WHERE row = ?`,
    ),
    replace: statement(
      `UPDATE calls SET shelf = ?, due = ?, status = ?, attempt = ?, attempts = attempts + ?, updated = ?, size = ?,
       call = ?, outcome = ? WHERE row = ?`,
    ),
    open: statement('SELECT row FROM calls WHERE shelf = ? ORDER BY due LIMIT ?'),
    openIds: statement('SELECT row, id, attempt FROM calls WHERE shelf = ?'),
    // A part of an index holds the ids of several actors: those of others are passed over inside it.
    matches: statement(
      `SELECT calls.row, calls.size FROM (
         SELECT row, id, actor FROM calls WHERE actor & 15 = ? AND id < ? ORDER BY id DESC LIMIT ?
       ) AS passed JOIN calls ON calls.row = passed.row
       WHERE passed.actor = ? AND calls.status BETWEEN ? AND ?
         AND instr(calls.call, ?) AND instr(calls.call, ?) AND instr(calls.call, ?)
       ORDER BY passed.id DESC`,
    ),
    passed: statement(
      `SELECT count(*) AS entries, min(id) AS last, sum(actor = ?) AS own FROM (
         SELECT id, actor FROM calls WHERE actor & 15 = ? AND id < ? ORDER BY id DESC LIMIT ?)`,
    ),
    keys: statement(
      `SELECT group_concat(tag) AS tags, group_concat(row) AS rows FROM (
         SELECT tag, row FROM calls WHERE (shelf, due, tag, row) > (?, ?, ?, ?)
         ORDER BY shelf, due, tag, row LIMIT ?)`,
    ),
    keyPlace: statement('SELECT shelf, due, tag FROM calls WHERE row = ?'),
  };
}

const each = (rows: Rows): readonly number[] =>
  rows === null ? [] : typeof rows === 'number' ? [rows] : rows;

/** What a record takes that has come to its end, as bounds on bytes count it. */
const sizeOf = (call: string, outcome: string): number =>
  Buffer.byteLength(call) + Buffer.byteLength(outcome);

/** A row with all its columns, and with the name of its actor. */
const fullRow = (row: SqlRow, actor: string): FullRow => ({
  row: row.row as number,
  shelf: row.shelf as number,
  size: row.size as number,
  ...storedRow(row, actor),
});

const stored = ({ row: _row, shelf: _shelf, size: _size, ...rest }: FullRow): StoredRow => rest;

const rowAnswer = (row: FullRow | undefined): Answer | undefined =>
  row === undefined ? undefined : { kind: 'row', row: stored(row) };

/** The text of a later post of a call, with the time of the first one. */
function keptText(call: string, { createdAtMs }: Pick<RecordedCall, 'createdAtMs'>): string {
  const parts = JSON.parse(call) as unknown[];
  parts[parts.length - 1] = createdAtMs;
  return JSON.stringify(parts);
}

/** What a row must hold to be worth a closer look: a range of statuses, and pieces of the text of the call. */
function conditionsOf({ status, callId, run, turn }: RecordQuery): readonly SqlValue[] {
  const range =
    status === undefined ? [0, recordStatuses.length] : [statusNumber(status), statusNumber(status)];
  // An empty piece is in every text.
  const pieces = [callId, run, turn].map((name) => (name === undefined ? '' : JSON.stringify(name)));
  return [...range, ...pieces];
}

const fits = (record: CallRecord, { callId, run, turn, status }: RecordQuery): boolean =>
  (callId === undefined || record.callId === callId) &&
  (run === undefined || record.run === run) &&
  (turn === undefined || record.turn === turn) &&
  (status === undefined || record.status === status);

/** @throws LedgerRefused where SQLite falls back to another journal, which readers beside the service would block */
function requireWal(database: Database, file: string): void {
  const mode = database.prepare('PRAGMA journal_mode = WAL').get([])?.journal_mode;
  if (mode === 'wal') return;
  throw new LedgerRefused(
    `the ledger ${file} cannot be used: SQLite cannot have a write-ahead log there (its journal stays ${String(mode)}), as on some network file systems; put the ledger on a local disk, or use PostgreSQL`,
  );
}
