import type { RecordQuery } from '../dispatch/ports.ts';
import { isFinal, type RecordedCall } from '../dispatch/record.ts';
import {
  callOf,
  interrupted,
  isLight,
  leavesTombstone,
  mayBeTakenOver,
  recordOf,
  type StoredRow,
  statusNumber,
  statusOf,
} from './row.ts';
import type { LedgerSettings } from './settings.ts';
import type { Database, SqlRow, SqlValue, Statement } from './sqlite-driver.ts';
import { migrate } from './sqlite-migrations.ts';
import { type Answer, type Answers, type Cell, kinds, type Rows } from './sqlite-operations.ts';

/** What retention does next with a row when it is due. */
export const lanes = {
  /** Nothing: the call is on its way. */
  open: 0,
  /** Drops the outcome of a call that only read, or was rejected. */
  light: 1,
  /** Drops the outcome of a call that may have changed something. */
  heavy: 2,
  /** Deletes what is left of a light one. */
  lightTombstone: 3,
  /** Deletes what is left of a heavy one. */
  heavyTombstone: 4,
} as const;

/** How many actors share a part of the index by id, see the migrations. */
export const bucketsMask = 15;

/** Rows that are looked at in one go by retention and by lists. */
const stepRows = 50;
const listStepRows = 200;

/** A call on its way, as the sweep looks at it. */
export interface OpenRow {
  readonly row: number;
  readonly id: string;
  readonly attempt: number;
}

/** Tags and rows in turn. */
export type KeyList = ArrayLike<number>;

interface Counters {
  records: number;
  /** Records that go first when the actor has too many. */
  lights: number;
  /** Bytes of outcomes. */
  bytes: number;
  lightBytes: number;
}

interface Actor extends Counters {
  readonly number: number;
  readonly name: string;
  /** How far the search for results to drop, and for records to delete, has come; all before has been dealt with. */
  readonly trimmedTo: { bytes: string; records: string };
}

/** A row as it is needed to decide about it. */
interface FullRow extends StoredRow {
  readonly row: number;
  readonly lane: number;
  readonly size: number;
}

const columns = 'row, lane, actor, id, key, status, attempt, attempts, updated, size, call, outcome' as const;

/**
 * The SQLite ledger as one thread sees it: operations in batches, each batch one durable transaction; retention in
 * small steps. It knows neither time nor threads.
 */
export class SqliteStore {
  readonly #database: Database;
  readonly #settings: LedgerSettings;
  readonly #actors = new Map<string, Actor>();
  readonly #actorsByNumber = new Map<number, Actor>();
  /** Actors that the open transaction touches, with what they had before it. */
  readonly #changed = new Map<Actor, Counters>();
  /** Actors that were over one of their bounds when last written. */
  readonly #overfull = new Set<Actor>();
  #actorNumber = 0;
  #bytes = 0;
  #isWriting = false;
  #removed: number[] = [];
  #writtenChars = 0;
  readonly #statements: ReturnType<typeof prepare>;

  /** @throws LedgerRefused, or whatever the driver says about a file that it cannot use */
  constructor(database: Database, file: string, settings: LedgerSettings, nowMs: number) {
    this.#database = database;
    this.#settings = settings;
    database.exec(`PRAGMA busy_timeout = 2000; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
      PRAGMA cache_size = -32768; PRAGMA journal_size_limit = 67108864; PRAGMA wal_autocheckpoint = 8000;`);
    migrate(database, file, nowMs);
    this.#statements = prepare(database);
    this.#loadActors();
  }

  /** Characters given to the database since the last `checkpoint`. */
  get writtenChars(): number {
    return this.#writtenChars;
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
      const hasWritten = this.#isWriting;
      this.#commit();
      return { answers, hasWritten };
    } catch (error) {
      this.#rollback();
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
          isLight: number(10) === 1,
          outcome: text(12),
        });
      case kinds.start:
        return this.#start(rows(1), text(2), number(3));
      case kinds.settle:
        return this.#settle(rows(1), text(2), text(3), number(4), {
          status: number(5),
          attempts: number(6),
          atMs: number(7),
          isLight: number(8) === 1,
          outcome: text(9),
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
      const actor = this.#actor(actorName);
      if (actor.records - actor.lights >= this.#settings.actorRecordsMax) return { kind: 'full' };
      this.#write();
      this.#statements.insertOpen.run([row, tag, createdAtMs, actor.number, id, key, status, call]);
      this.#writtenChars += call.length + rowChars;
      this.#count(actor, 1, lanes.open, 0);
      return undefined;
    }
    const before = recordOf(old);
    const now = callOf(call, old);
    if (!mayBeTakenOver(before, now)) return { kind: 'row', row: stored(old) };
    const actor = this.#actor(actorName);
    this.#write();
    this.#statements.takeOver.run([
      lanes.open,
      createdAtMs,
      status,
      createdAtMs,
      keptText(call, before),
      old.row,
    ]);
    this.#count(actor, -1, old.lane, old.size);
    this.#count(actor, 1, lanes.open, 0);
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
    const lane = end.isLight ? lanes.light : lanes.heavy;
    const size = Buffer.byteLength(end.outcome);
    const due = this.#due(lane, end.atMs);
    if (old === undefined) {
      const actor = this.#actor(actorName);
      this.#write();
      this.#statements.insert.run([
        row,
        tag,
        lane,
        due,
        actor.number,
        id,
        key,
        end.status,
        end.attempts,
        end.atMs,
        size,
        call,
        end.outcome,
      ]);
      this.#writtenChars += call.length + size + rowChars;
      this.#count(actor, 1, lane, size);
      return undefined;
    }
    const before = recordOf(old);
    const isOpen = !isFinal(before.status) && old.id === id;
    if (!isOpen && !mayBeTakenOver(before, callOf(call, old))) return { kind: 'nothing' };
    const attempt = isOpen ? old.attempt : old.attempt + 1;
    const actor = this.#actor(actorName);
    this.#write();
    const { status, attempts, atMs, outcome } = end;
    const text = keptText(call, before);
    this.#statements.replace.run([lane, due, status, attempt, attempts, atMs, size, text, outcome, old.row]);
    this.#count(actor, -1, old.lane, old.size);
    this.#count(actor, 1, lane, size);
    return { kind: 'nothing' };
  }

  #start(rows: Rows, key: string, attempt: number): Answer | undefined {
    this.#write();
    for (const row of each(rows)) {
      if (this.#statements.start.run([row, key, attempt]) === 1) return undefined;
    }
    return { kind: 'nothing' };
  }

  #settle(rows: Rows, key: string, actorName: string, attempt: number, end: End): Answer | undefined {
    const lane = end.isLight ? lanes.light : lanes.heavy;
    const size = Buffer.byteLength(end.outcome);
    const due = this.#due(lane, end.atMs);
    const { status, attempts, atMs, outcome } = end;
    this.#write();
    for (const row of each(rows)) {
      const values = [lane, due, status, attempts, atMs, size, outcome, row, key, attempt];
      if (this.#statements.settle.run(values) === 0) continue;
      const actor = this.#actor(actorName);
      this.#count(actor, -1, lanes.open, 0);
      this.#count(actor, 1, lane, size);
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
    const actor = this.#actor(actorName);
    this.#statements.end.run([lane, due, status, attempts, atMs, size, outcome, old.row]);
    this.#count(actor, -1, old.lane, old.size);
    this.#count(actor, 1, lane, size);
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
    const actor = this.#actors.get(actorName);
    if (actor === undefined) return undefined;
    const found = this.#statements.get.get([actor.number & bucketsMask, id, actor.number]);
    return found === undefined ? undefined : this.#full(found);
  }

  #interrupt(row: number, attempt: number, atMs: number): Answer | undefined {
    const found = this.#statements.byRow.get([row]);
    if (found === undefined) return { kind: 'nothing' };
    const old = this.#full(found);
    if (old.lane !== lanes.open || old.attempt !== attempt) return { kind: 'nothing' };
    this.#endInterrupted(old, atMs);
    return undefined;
  }

  /** Ends calls on their way that nobody works on any more, as their process would have left them; how many. */
  interruptSome(atMs: number): number {
    try {
      const found = this.#statements.open.all([lanes.open, -1, 0, listStepRows]);
      for (const { row } of found) {
        const old = this.#statements.byRow.get([row as number]);
        if (old !== undefined) this.#endInterrupted(this.#full(old), atMs);
      }
      this.#commit();
      return found.length;
    } catch (error) {
      this.#rollback();
      throw error;
    }
  }

  #endInterrupted(old: FullRow, atMs: number): void {
    const outcome = interrupted(statusOf(old.status));
    const call = callOf(old.call, old);
    const lane = isLight(call, outcome.status) ? lanes.light : lanes.heavy;
    const text = JSON.stringify(outcome);
    const size = Buffer.byteLength(text);
    const actor = this.#actor(old.actor);
    this.#write();
    this.#statements.end.run([
      lane,
      this.#due(lane, atMs),
      statusNumber(outcome.status),
      0,
      atMs,
      size,
      text,
      old.row,
    ]);
    this.#count(actor, -1, lanes.open, 0);
    this.#count(actor, 1, lane, size);
  }

  /** All calls on their way. */
  openRows(): readonly OpenRow[] {
    return this.#statements.openIds.all([lanes.open]).map(({ row, id, attempt }) => ({
      row: row as number,
      id: id as string,
      attempt: attempt as number,
    }));
  }

  /** The records that a query asks for, found in steps that are short each. */
  *list(query: RecordQuery): Generator<void, readonly StoredRow[]> {
    const found: StoredRow[] = [];
    const actor = this.#actors.get(query.actor);
    if (actor === undefined) return found;
    const wanted = query.status === undefined ? undefined : statusNumber(query.status);
    let before = query.before ?? afterEveryId;
    for (;;) {
      const rows = this.#statements.list.all([
        actor.number & bucketsMask,
        before,
        actor.number,
        listStepRows,
      ]);
      for (const { row, id, status, call } of rows) {
        before = id as string;
        if (wanted !== undefined && status !== wanted) continue;
        if (!fits(callOf(call as string, { id: before, key: '', actor: query.actor }), query)) continue;
        const full = this.#statements.byRow.get([row as number]);
        if (full !== undefined) found.push(stored(this.#full(full)));
        if (found.length === query.limit) return found;
      }
      if (rows.length < listStepRows) return found;
      yield;
    }
  }

  /** All tags and rows, in parts. */
  *keys(): Generator<readonly number[], void> {
    let place: readonly SqlValue[] = [0, -1, 0, 0];
    for (;;) {
      // One row of the result for many of the table: a row costs more on its way out of SQLite than inside it.
      const part = this.#statements.keys.get([...place, keysStepRows]);
      const numbers = JSON.parse(`[${String(part?.list ?? '')}]`) as number[];
      const [tag, row] = numbers.slice(-2) as [number?, number?];
      if (tag === undefined || row === undefined) return;
      const last = this.#statements.keyPlace.get([row]) as SqlRow;
      place = [last.lane as number, last.due as number, tag, row];
      yield numbers;
    }
  }

  /** How many records there are. */
  get size(): number {
    let size = 0;
    for (const { records } of this.#actors.values()) size += records;
    return size;
  }

  /**
   * Does some of what retention and bounds ask for, until `isOver`; what was deleted is in `removed`. Its commits are
   * not forced to the disk: what a power cut takes back is done again.
   */
  tend(nowMs: number, isOver: () => boolean): { readonly isDone: boolean; readonly removed: KeyList } {
    this.#removed = [];
    this.#database.exec('PRAGMA synchronous = NORMAL');
    try {
      const isDone = this.#tendUntil(nowMs, isOver);
      this.#commit();
      return { isDone, removed: this.#removed };
    } catch (error) {
      this.#rollback();
      throw error;
    } finally {
      this.#database.exec('PRAGMA synchronous = FULL');
    }
  }

  #tendUntil(nowMs: number, isOver: () => boolean): boolean {
    for (const lane of [lanes.light, lanes.heavy, lanes.lightTombstone, lanes.heavyTombstone]) {
      for (;;) {
        const rows = this.#statements.due.all([lane, nowMs, stepRows]);
        for (const row of rows) this.#expire(row);
        if (rows.length < stepRows) break;
        if (isOver()) return false;
      }
    }
    for (const lane of [lanes.light, lanes.heavy]) {
      while (this.#bytes > this.#settings.bytesMax) {
        const rows = this.#statements.due.all([lane, Number.MAX_SAFE_INTEGER, stepRows]);
        for (const row of rows) if (this.#bytes > this.#settings.bytesMax) this.#expire(row);
        if (rows.length === 0) break;
        if (isOver()) return false;
      }
    }
    for (const actor of this.#overfull) {
      if (!this.#trim(actor, isOver)) return false;
      this.#overfull.delete(actor);
    }
    return true;
  }

  /** Brings one actor back inside its bounds; false when there was no time for all of it. */
  #trim(actor: Actor, isOver: () => boolean): boolean {
    const { actorBytesMax, actorRecordsMax } = this.#settings;
    const steps = [
      {
        mark: 'bytes',
        lanes: [lanes.light],
        isNeeded: () => actor.bytes > actorBytesMax && actor.lightBytes > 0,
      },
      { mark: 'bytes', lanes: [lanes.heavy], isNeeded: () => actor.bytes > actorBytesMax },
      {
        mark: 'records',
        lanes: [lanes.light, lanes.lightTombstone],
        isNeeded: () => actor.records > actorRecordsMax && actor.lights > 0,
      },
    ] as const;
    for (const { mark, lanes: wanted, isNeeded } of steps) {
      while (isNeeded()) {
        const rows = this.#statements.ofActor.all([
          actor.number & bucketsMask,
          actor.trimmedTo[mark],
          actor.number,
          stepRows,
        ]);
        for (const row of rows) {
          if (!isNeeded()) break;
          actor.trimmedTo[mark] = row.id as string;
          if (!(wanted as readonly number[]).includes(row.lane as number)) continue;
          if (mark === 'bytes') this.#expire(row);
          else this.#delete(row);
        }
        if (rows.length < stepRows) break;
        if (isOver()) return false;
      }
      // The next search begins at the oldest again: what was on its way then may have ended since.
      actor.trimmedTo[mark] = '';
    }
    return true;
  }

  #expire(row: SqlRow): void {
    const lane = row.lane as number;
    const isTombstone = lane === lanes.lightTombstone || lane === lanes.heavyTombstone;
    if (isTombstone || !leavesTombstone(statusOf(row.status as number))) {
      this.#delete(row);
      return;
    }
    const next = lane === lanes.light ? lanes.lightTombstone : lanes.heavyTombstone;
    const actor = this.#actorsByNumber.get(row.actor as number) as Actor;
    this.#write();
    const due = (row.updated as number) + this.#settings.tombstoneRetentionMs;
    this.#statements.entomb.run([next, due, row.row as number]);
    this.#count(actor, -1, lane, row.size as number);
    this.#count(actor, 1, next, 0);
  }

  #delete(row: SqlRow): void {
    const actor = this.#actorsByNumber.get(row.actor as number) as Actor;
    this.#write();
    this.#statements.delete.run([row.row as number]);
    this.#count(actor, -1, row.lane as number, row.size as number);
    this.#removed.push(row.tag as number, row.row as number);
  }

  /** Shows that the store can be written, or throws. */
  probe(): void {
    this.#database.exec('BEGIN IMMEDIATE');
    try {
      // Longer than a page, so that a disk without room for one is found out.
      this.#database.exec(
        'CREATE TABLE probe (text TEXT); INSERT INTO probe VALUES (hex(zeroblob(8192))); DROP TABLE probe',
      );
      this.#database.exec('COMMIT');
    } catch (error) {
      this.#rollbackOnly();
      throw error;
    }
  }

  /** Moves what the write-ahead log holds into the database. Done between commits, so that none waits for it. */
  checkpoint(): void {
    this.#writtenChars = 0;
    this.#database.exec('PRAGMA wal_checkpoint(PASSIVE)');
  }

  close(): void {
    this.#database.close();
  }

  #write(): void {
    if (this.#isWriting) return;
    this.#statements.begin.run([]);
    this.#isWriting = true;
    this.#writtenChars += 4 * 4096;
  }

  #commit(): void {
    if (!this.#isWriting) return;
    for (const actor of this.#changed.keys()) {
      const { number, records, lights, bytes, lightBytes } = actor;
      if (records === 0) this.#statements.removeActor.run([number]);
      else this.#statements.saveActor.run([number, actor.name, records, lights, bytes, lightBytes]);
    }
    this.#statements.commit.run([]);
    this.#isWriting = false;
    for (const actor of this.#changed.keys()) this.#settleActor(actor);
    this.#changed.clear();
  }

  #settleActor(actor: Actor): void {
    const { actorBytesMax, actorRecordsMax } = this.#settings;
    if (actor.records === 0) {
      this.#actors.delete(actor.name);
      this.#actorsByNumber.delete(actor.number);
      this.#overfull.delete(actor);
    } else if (actor.bytes > actorBytesMax || (actor.records > actorRecordsMax && actor.lights > 0)) {
      this.#overfull.add(actor);
    }
  }

  #rollback(): void {
    if (!this.#isWriting) return;
    this.#isWriting = false;
    this.#rollbackOnly();
    for (const [actor, before] of this.#changed) {
      this.#bytes += before.bytes - actor.bytes;
      Object.assign(actor, before);
      this.#settleActor(actor);
    }
    this.#changed.clear();
  }

  #rollbackOnly(): void {
    try {
      this.#database.exec('ROLLBACK');
    } catch (error) {
      // After some faults, a full disk among them, SQLite has rolled back by itself.
      if (!/no transaction is active/.test((error as Error).message)) throw error;
    }
  }

  #loadActors(): void {
    for (const row of this.#statements.actors.all([])) {
      const actor = this.#newActor(row.number as number, row.name as string, {
        records: row.records as number,
        lights: row.lights as number,
        bytes: row.bytes as number,
        lightBytes: row.light_bytes as number,
      });
      this.#bytes += actor.bytes;
      this.#settleActor(actor);
    }
  }

  #actor(name: string): Actor {
    return (
      this.#actors.get(name) ??
      this.#newActor(this.#actorNumber + 1, name, { records: 0, lights: 0, bytes: 0, lightBytes: 0 })
    );
  }

  #newActor(number: number, name: string, counters: Counters): Actor {
    const actor: Actor = { number, name, ...counters, trimmedTo: { bytes: '', records: '' } };
    this.#actors.set(name, actor);
    this.#actorsByNumber.set(number, actor);
    this.#actorNumber = Math.max(this.#actorNumber, number);
    return actor;
  }

  #count(actor: Actor, sign: 1 | -1, lane: number, size: number): void {
    if (!this.#changed.has(actor)) {
      const { records, lights, bytes, lightBytes } = actor;
      this.#changed.set(actor, { records, lights, bytes, lightBytes });
    }
    actor.records += sign;
    if (lane === lanes.light || lane === lanes.lightTombstone) {
      actor.lights += sign;
      actor.lightBytes += sign * size;
    }
    actor.bytes += sign * size;
    this.#bytes += sign * size;
  }

  #due(lane: number, endedAtMs: number): number {
    const { readOutputRetentionMs, outputRetentionMs } = this.#settings;
    return endedAtMs + (lane === lanes.light ? readOutputRetentionMs : outputRetentionMs);
  }

  #full(row: SqlRow): FullRow {
    const { name } = this.#actorsByNumber.get(row.actor as number) as Actor;
    return fullRow(row, name);
  }
}

interface End {
  readonly status: number;
  readonly attempts: number;
  readonly atMs: number;
  readonly isLight: boolean;
  readonly outcome: string;
}

/** Fields of each kind of operation, the kind among them. */
const lengths: Readonly<Record<number, number>> = {
  [kinds.claim]: 10,
  [kinds.record]: 13,
  [kinds.start]: 4,
  [kinds.settle]: 10,
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
    begin: statement('BEGIN IMMEDIATE'),
    commit: statement('COMMIT'),
    insert: statement('INSERT INTO calls VALUES (?, ?, ?, ?, ?, ?, ?, ?, 1, ?, ?, ?, ?, ?)'),
    // A parameter costs as much as a column: what is always the same is in the text.
    insertOpen: statement('INSERT INTO calls VALUES (?1, ?2, 0, ?3, ?4, ?5, ?6, ?7, 1, 0, ?3, 0, ?8, NULL)'),
    find: statement(`SELECT ${columns} FROM calls WHERE row = ? AND key = ?`),
    byRow: statement(`SELECT ${columns} FROM calls WHERE row = ?`),
    get: statement(`SELECT ${columns} FROM calls WHERE actor & 15 = ? AND id = ? AND actor = ?`),
    start: statement('UPDATE calls SET status = 1 WHERE row = ? AND key = ? AND attempt = ? AND status = 0'),
    settle: statement(
      `UPDATE calls SET lane = ?, due = ?, status = ?, attempts = attempts + ?, updated = ?, size = ?, outcome = ?
       WHERE row = ? AND key = ? AND attempt = ? AND lane = 0`,
    ),
    end: statement(
      `UPDATE calls SET lane = ?, due = ?, status = ?, attempts = attempts + ?, updated = ?, size = ?, outcome = ?
       WHERE row = ?`,
    ),
    takeOver: statement(
      `UPDATE calls SET lane = ?, due = ?, status = ?, attempt = attempt + 1, updated = ?, size = 0, call = ?,
       outcome = NULL WHERE row = ?`,
    ),
    replace: statement(
      `UPDATE calls SET lane = ?, due = ?, status = ?, attempt = ?, attempts = attempts + ?, updated = ?, size = ?,
       call = ?, outcome = ? WHERE row = ?`,
    ),
    entomb: statement('UPDATE calls SET lane = ?, due = ?, size = 0, outcome = NULL WHERE row = ?'),
    delete: statement('DELETE FROM calls WHERE row = ?'),
    open: statement('SELECT row FROM calls WHERE lane = ? AND (due, row) > (?, ?) ORDER BY due, row LIMIT ?'),
    openIds: statement('SELECT row, id, attempt FROM calls WHERE lane = ?'),
    due: statement(
      `SELECT row, tag, lane, actor, status, updated, size FROM calls WHERE lane = ? AND due <= ?
       ORDER BY due, row LIMIT ?`,
    ),
    ofActor: statement(
      `SELECT row, tag, lane, actor, status, updated, size, id FROM calls
       WHERE actor & 15 = ? AND id > ? AND actor = ? ORDER BY id LIMIT ?`,
    ),
    list: statement(
      `SELECT row, id, status, call FROM calls WHERE actor & 15 = ? AND id < ? AND actor = ?
       ORDER BY id DESC LIMIT ?`,
    ),
    keys: statement(
      `SELECT group_concat(tag || ',' || row) AS list FROM (
         SELECT tag, row FROM calls WHERE (lane, due, tag, row) > (?, ?, ?, ?)
         ORDER BY lane, due, tag, row LIMIT ?)`,
    ),
    keyPlace: statement('SELECT lane, due FROM calls WHERE row = ?'),
    actors: statement('SELECT number, name, records, lights, bytes, light_bytes FROM actors'),
    saveActor: statement('INSERT OR REPLACE INTO actors VALUES (?, ?, ?, ?, ?, ?)'),
    removeActor: statement('DELETE FROM actors WHERE number = ?'),
  };
}

const each = (rows: Rows): readonly number[] =>
  rows === null ? [] : typeof rows === 'number' ? [rows] : rows;

/** A row with all its columns, and with the name of its actor. */
const fullRow = (row: SqlRow, actor: string): FullRow => ({
  row: row.row as number,
  lane: row.lane as number,
  size: row.size as number,
  id: row.id as string,
  key: row.key as string,
  actor,
  status: row.status as number,
  attempt: row.attempt as number,
  attempts: row.attempts as number,
  updatedAtMs: row.updated as number,
  call: row.call as string,
  outcome: row.outcome as string | null,
});

const stored = ({ row: _row, lane: _lane, size: _size, ...rest }: FullRow): StoredRow => rest;

const rowAnswer = (row: FullRow | undefined): Answer | undefined =>
  row === undefined ? undefined : { kind: 'row', row: stored(row) };

/** The text of a later post of a call, with the time of the first one. */
function keptText(call: string, { createdAtMs }: Pick<RecordedCall, 'createdAtMs'>): string {
  const parts = JSON.parse(call) as unknown[];
  parts[parts.length - 1] = createdAtMs;
  return JSON.stringify(parts);
}

const fits = (call: RecordedCall, { callId, run, turn }: RecordQuery): boolean =>
  (callId === undefined || call.callId === callId) &&
  (run === undefined || call.run === run) &&
  (turn === undefined || call.turn === turn);
