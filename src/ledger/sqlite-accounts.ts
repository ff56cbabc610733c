import type { LedgerSettings } from './settings.ts';
import { type Database, damage } from './sqlite-driver.ts';
import { isOfRead } from './sqlite-shelves.ts';

interface Counters {
  records: number;
  /** Records that go first when the actor has too many. */
  reads: number;
  /** Bytes of records that have their outcome, with what they say of the call. */
  bytes: number;
  readBytes: number;
}

/** What one actor has in the ledger. */
export interface Account extends Counters {
  readonly number: number;
  readonly name: string;
  /** How far the search for results to drop, and for records to delete, has come; all before has been dealt with. */
  readonly trimmedTo: { bytes: string; records: string };
}

/** How many actors share a part of the index by id, see the migrations. */
export const bucketsMask = 15;

/** The accounts of all actors: in memory, and in the store as of the last commit. */
export class Accounts {
  readonly #settings: LedgerSettings;
  readonly #statements: ReturnType<typeof prepare>;
  readonly #byName = new Map<string, Account>();
  readonly #byNumber = new Map<number, Account>();
  /** Those that the open transaction touches, with what they had before it. */
  readonly #changed = new Map<Account, Counters>();
  /** Those that were over one of their bounds at the last commit. */
  readonly #overfull = new Set<Account>();
  #numberMax = 0;
  #bytes = 0;

  constructor(database: Database, settings: LedgerSettings) {
    this.#settings = settings;
    this.#statements = prepare(database);
    for (const row of this.#statements.all.all([])) {
      const account = this.#open(row.number as number, row.name as string, {
        records: row.records as number,
        reads: row.reads as number,
        bytes: row.bytes as number,
        readBytes: row.read_bytes as number,
      });
      this.#bytes += account.bytes;
      this.#review(account);
    }
  }

  /** Those of all actors. */
  get bytes(): number {
    return this.#bytes;
  }

  get records(): number {
    let records = 0;
    for (const account of this.#byName.values()) records += account.records;
    return records;
  }

  get overfull(): Iterable<Account> {
    return this.#overfull;
  }

  find(name: string): Account | undefined {
    return this.#byName.get(name);
  }

  /** The account of an actor, a new one where there is none. */
  of(name: string): Account {
    return (
      this.#byName.get(name) ??
      this.#open(this.#numberMax + 1, name, { records: 0, reads: 0, bytes: 0, readBytes: 0 })
    );
  }

  /** The account that a row of the store names. */
  numbered(number: number): Account {
    const account = this.#byNumber.get(number);
    if (account === undefined) throw damage('a record is of an actor that is not there');
    return account;
  }

  /** Counts a row that comes to a shelf, or leaves it. */
  count(account: Account, sign: 1 | -1, shelf: number, size: number): void {
    if (!this.#changed.has(account)) {
      const { records, reads, bytes, readBytes } = account;
      this.#changed.set(account, { records, reads, bytes, readBytes });
    }
    account.records += sign;
    if (isOfRead(shelf)) {
      account.reads += sign;
      account.readBytes += sign * size;
    }
    account.bytes += sign * size;
    this.#bytes += sign * size;
  }

  /** Writes what has changed into the open transaction. */
  save(): void {
    for (const { number, name, records, reads, bytes, readBytes } of this.#changed.keys()) {
      if (records === 0) this.#statements.remove.run([number]);
      else this.#statements.save.run([number, name, records, reads, bytes, readBytes]);
    }
  }

  committed(): void {
    for (const account of this.#changed.keys()) this.#review(account);
    this.#changed.clear();
  }

  rolledBack(): void {
    for (const [account, before] of this.#changed) {
      this.#bytes += before.bytes - account.bytes;
      Object.assign(account, before);
      this.#review(account);
    }
    this.#changed.clear();
  }

  /** The account is inside its bounds again. */
  trimmed(account: Account): void {
    this.#overfull.delete(account);
  }

  #review(account: Account): void {
    const { actorBytesMax, actorRecordsMax } = this.#settings;
    if (account.records === 0) {
      this.#byName.delete(account.name);
      this.#byNumber.delete(account.number);
      this.#overfull.delete(account);
    } else if (account.bytes > actorBytesMax || (account.records > actorRecordsMax && account.reads > 0)) {
      this.#overfull.add(account);
    }
  }

  #open(number: number, name: string, counters: Counters): Account {
    const account: Account = { number, name, ...counters, trimmedTo: { bytes: '', records: '' } };
    this.#byName.set(name, account);
    this.#byNumber.set(number, account);
    this.#numberMax = Math.max(this.#numberMax, number);
    return account;
  }
}

const prepare = (database: Database) => ({
  all: database.prepare('SELECT number, name, records, reads, bytes, read_bytes FROM actors'),
  save: database.prepare('INSERT OR REPLACE INTO actors VALUES (?, ?, ?, ?, ?, ?)'),
  remove: database.prepare('DELETE FROM actors WHERE number = ?'),
});
