import type { Accounts } from './sqlite-accounts.ts';
import { type Database, rollback, type Statement } from './sqlite-driver.ts';

/** What a commit takes beside the texts in it: some pages of the write-ahead log. */
const commitChars = 4 * 4_096;

/** The transaction of the ledger that is open, if one is; the accounts of the actors go with it. */
export class Transaction {
  readonly #database: Database;
  readonly #accounts: Accounts;
  readonly #begin: Statement;
  readonly #commit: Statement;
  #isOpen = false;
  #writtenChars = 0;

  constructor(database: Database, accounts: Accounts) {
    this.#database = database;
    this.#accounts = accounts;
    this.#begin = database.prepare('BEGIN IMMEDIATE');
    this.#commit = database.prepare('COMMIT');
  }

  /** Whether something is written in it. */
  get isOpen(): boolean {
    return this.#isOpen;
  }

  /** Characters given to the database since the last checkpoint. */
  get writtenChars(): number {
    return this.#writtenChars;
  }

  /** To be called before anything is written: begins a transaction where none is open. */
  write(chars = 0): void {
    this.#writtenChars += chars;
    if (this.#isOpen) return;
    this.#begin.run([]);
    this.#isOpen = true;
    this.#writtenChars += commitChars;
  }

  commit(): void {
    if (!this.#isOpen) return;
    this.#accounts.save();
    this.#commit.run([]);
    this.#isOpen = false;
    this.#accounts.committed();
  }

  rollback(): void {
    if (!this.#isOpen) return;
    this.#isOpen = false;
    rollback(this.#database);
    this.#accounts.rolledBack();
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
      rollback(this.#database);
      throw error;
    }
  }

  /** Moves what the write-ahead log holds into the database. Done between commits, so that none waits for it. */
  checkpoint(): void {
    this.#writtenChars = 0;
    this.#database.exec('PRAGMA wal_checkpoint(PASSIVE)');
  }
}
