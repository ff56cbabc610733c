import { closeSync, openSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { LedgerRefused } from './settings.ts';
import { type Database, type OpenDatabase, sqliteCodes, sqliteFault } from './sqlite-driver.ts';

/** What a process says of itself beside the ledger that it holds. */
interface Holder {
  readonly pid: number;
  readonly host: string;
  readonly since: string;
}

/** A ledger that no other process can open as its own. */
export interface Hold {
  /** The file whose lock it is, and the file as it was when the lock was taken. */
  readonly file: string;
  release(): void;
}

/**
 * Takes the ledger for this process until it ends. What holds it is SQLite's lock on a file beside it, which the
 * kernel takes away from a process that dies, however it dies; the file with the holder's name only serves the message.
 * The ledger itself stays free for SQLite's own short locks, so that `callgate ledger` can work beside the service.
 * @throws LedgerRefused naming the process that holds it
 */
export function takeHold(openDatabase: OpenDatabase, ledger: string, nowMs: number): Hold {
  const file = `${ledger}.lock`;
  const holderFile = `${ledger}.holder`;
  // SQLite would let everybody read it, and gives what it puts beside it the same mode.
  if (inodeOf(file) === undefined) closeSync(openSync(file, 'a', 0o600));
  const database = openDatabase(file);
  try {
    database.exec('PRAGMA busy_timeout = 0');
    database.exec('BEGIN EXCLUSIVE');
    const holder: Holder = { pid: process.pid, host: hostname(), since: new Date(nowMs).toISOString() };
    writeFileSync(holderFile, `${JSON.stringify(holder)}\n`, { mode: 0o600 });
  } catch (error) {
    database.close();
    if (sqliteFault(error).code !== sqliteCodes.busy) throw error;
    throw new LedgerRefused(
      `the ledger ${ledger} is held by ${holderText(holderFile)}: stop that process first, or give this one a ledger of its own; several processes can share a ledger on PostgreSQL only`,
    );
  }
  return { file, release: () => release(database, holderFile) };
}

function release(database: Database, holderFile: string): void {
  rmSync(holderFile, { force: true });
  database.exec('ROLLBACK');
  database.close();
}

function holderText(holderFile: string): string {
  try {
    const { pid, host, since } = JSON.parse(readFileSync(holderFile, 'utf8')) as Partial<Holder>;
    return `process ${String(pid)} on ${String(host)} since ${String(since)}`;
  } catch {
    // It has not been written yet, or somebody has removed it: the lock counts without it.
    return 'another process';
  }
}

/** What tells a file from another one under the same name; undefined where there is none. */
export const inodeOf = (file: string): number | undefined => statSync(file, { throwIfNoEntry: false })?.ino;

/** What is said of a file that `FileWatch` misses. */
export const lostFile = (file: string): string =>
  `${file} was removed or replaced while callgate was using it: put the ledger in order, then restart callgate`;

/** Files that must stay the same ones for as long as they are open. */
export class FileWatch {
  readonly #inodes = new Map<string, number>();

  constructor(files: readonly string[]) {
    for (const file of files) this.#inodes.set(file, inodeOf(file) ?? 0);
  }

  /** The first of the files that is gone, or is another one; undefined while all is well. */
  missing(): string | undefined {
    for (const [file, inode] of this.#inodes) {
      if (inodeOf(file) !== inode) return file;
    }
    return undefined;
  }
}
