import { leavesTombstone, statusOf } from './row.ts';
import type { LedgerSettings } from './settings.ts';
import { type Account, type Accounts, bucketsMask } from './sqlite-accounts.ts';
import type { Database, SqlRow } from './sqlite-driver.ts';
import { shelves } from './sqlite-shelves.ts';
import type { Transaction } from './sqlite-transaction.ts';

/** Tags and rows in turn. */
export type KeyList = ArrayLike<number>;

/** Rows that are looked at in one go. */
const stepRows = 50;

/** When the outcome of a call that ended at this time is dropped. */
export const outcomeDue = (shelf: number, endedAtMs: number, settings: LedgerSettings): number =>
  endedAtMs + (shelf === shelves.read ? settings.readOutputRetentionMs : settings.outputRetentionMs);

/** Drops what is past its time or over a bound, in steps. */
export class SqliteRetention {
  readonly #database: Database;
  readonly #settings: LedgerSettings;
  readonly #accounts: Accounts;
  readonly #transaction: Transaction;
  readonly #statements: ReturnType<typeof prepare>;
  #removed: number[] = [];

  constructor(database: Database, settings: LedgerSettings, accounts: Accounts, transaction: Transaction) {
    this.#database = database;
    this.#settings = settings;
    this.#accounts = accounts;
    this.#transaction = transaction;
    this.#statements = prepare(database);
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
      this.#transaction.commit();
      return { isDone, removed: this.#removed };
    } catch (error) {
      this.#transaction.rollback();
      throw error;
    } finally {
      this.#database.exec('PRAGMA synchronous = FULL');
    }
  }

  #tendUntil(nowMs: number, isOver: () => boolean): boolean {
    for (const shelf of [shelves.read, shelves.write, shelves.readTombstone, shelves.writeTombstone]) {
      for (;;) {
        const rows = this.#statements.due.all([shelf, nowMs, stepRows]);
        for (const row of rows) this.#expire(row);
        if (rows.length < stepRows) break;
        if (isOver()) return false;
      }
    }
    const { bytesMax } = this.#settings;
    for (const shelf of [shelves.read, shelves.write]) {
      while (this.#accounts.bytes > bytesMax) {
        const rows = this.#statements.due.all([shelf, Number.MAX_SAFE_INTEGER, stepRows]);
        for (const row of rows) if (this.#accounts.bytes > bytesMax) this.#expire(row);
        if (rows.length === 0) break;
        if (isOver()) return false;
      }
    }
    for (const account of this.#accounts.overfull) {
      if (!this.#trim(account, isOver)) return false;
      this.#accounts.trimmed(account);
    }
    return true;
  }

  /** Brings one actor back inside its bounds; false when there was no time for all of it. */
  #trim(account: Account, isOver: () => boolean): boolean {
    const { actorBytesMax, actorRecordsMax } = this.#settings;
    const steps = [
      {
        mark: 'bytes',
        shelves: [shelves.read],
        isNeeded: () => account.bytes > actorBytesMax && account.readBytes > 0,
      },
      { mark: 'bytes', shelves: [shelves.write], isNeeded: () => account.bytes > actorBytesMax },
      {
        mark: 'records',
        shelves: [shelves.read, shelves.readTombstone],
        isNeeded: () => account.records > actorRecordsMax && account.reads > 0,
      },
    ] as const;
    for (const { mark, shelves: wanted, isNeeded } of steps) {
      while (isNeeded()) {
        const rows = this.#statements.ofActor.all([
          account.number & bucketsMask,
          account.trimmedTo[mark],
          account.number,
          stepRows,
        ]);
        for (const row of rows) {
          if (!isNeeded()) break;
          account.trimmedTo[mark] = row.id as string;
          if (!(wanted as readonly number[]).includes(row.shelf as number)) continue;
          if (mark === 'bytes') this.#expire(row);
          else this.#delete(row);
        }
        if (rows.length < stepRows) break;
        if (isOver()) return false;
      }
      // The next search begins at the oldest again: what was on its way then may have ended since.
      account.trimmedTo[mark] = '';
    }
    return true;
  }

  #expire(row: SqlRow): void {
    const shelf = row.shelf as number;
    const isTombstone = shelf === shelves.readTombstone || shelf === shelves.writeTombstone;
    if (isTombstone || !leavesTombstone(statusOf(row.status as number))) {
      this.#delete(row);
      return;
    }
    const next = shelf === shelves.read ? shelves.readTombstone : shelves.writeTombstone;
    const account = this.#accounts.numbered(row.actor as number);
    this.#transaction.write();
    const due = (row.updated as number) + this.#settings.tombstoneRetentionMs;
    this.#statements.entomb.run([next, due, row.row as number]);
    this.#accounts.count(account, -1, shelf, row.size as number);
    this.#accounts.count(account, 1, next, 0);
  }

  #delete(row: SqlRow): void {
    this.#transaction.write();
    this.#statements.delete.run([row.row as number]);
    const account = this.#accounts.numbered(row.actor as number);
    this.#accounts.count(account, -1, row.shelf as number, row.size as number);
    this.#removed.push(row.tag as number, row.row as number);
  }
}

const prepare = (database: Database) => ({
  entomb: database.prepare('UPDATE calls SET shelf = ?, due = ?, size = 0, outcome = NULL WHERE row = ?'),
  delete: database.prepare('DELETE FROM calls WHERE row = ?'),
  due: database.prepare(
    `SELECT row, tag, shelf, actor, status, updated, size FROM calls WHERE shelf = ? AND due <= ?
     ORDER BY due, row LIMIT ?`,
  ),
  ofActor: database.prepare(
    `SELECT row, tag, shelf, actor, status, updated, size, id FROM calls
     WHERE actor & 15 = ? AND id > ? AND actor = ? ORDER BY id LIMIT ?`,
  ),
});
