import { closeSync, mkdirSync, openSync, realpathSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import { LedgerRefused, type LedgerSettings } from './settings.ts';
import { type Database, type OpenDatabase, sqliteCodes, sqliteFault } from './sqlite-driver.ts';
import { SqliteStore } from './sqlite-store.ts';

/**
 * Opens a ledger file, making it where it is not there.
 * @throws LedgerRefused where it cannot be used, with what to do about it
 */
export function openStore(
  openDatabase: OpenDatabase,
  file: string,
  settings: LedgerSettings,
  nowMs: number,
): SqliteStore {
  return orRefusal(file, () => {
    const database = openDatabase(file);
    try {
      return new SqliteStore(database, file, settings, nowMs);
    } catch (error) {
      database.close();
      throw error;
    }
  });
}

/**
 * Makes the file of a new ledger, which nobody but this user may read, and its directory. Gives back where it really
 * is: by two names it must not be held twice.
 * @throws LedgerRefused
 */
export function makeFile(file: string): string {
  return orRefusal(file, () => {
    mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
    // One that is there already may be open: closing it here would take away the locks that SQLite has on it.
    if (!isThere(file)) closeSync(openSync(file, 'a', 0o600));
    return realpathSync(file);
  });
}

/** @throws LedgerRefused where something is there that must not be opened as a ledger */
function isThere(file: string): boolean {
  const found = statSync(file, { throwIfNoEntry: false });
  if (found === undefined) return false;
  if (!found.isFile()) {
    const kind = found.isDirectory() ? 'a directory' : 'no plain file';
    throw new LedgerRefused(
      `the ledger ${file} cannot be used: it is ${kind}; name a file, which is made if it is not there`,
    );
  }
  // SQLite keeps the write-ahead log under the name that it was given, and so does the lock.
  if (found.nlink > 1) {
    throw new LedgerRefused(
      `the ledger ${file} cannot be used: the file has ${found.nlink} names (hard links), and under another one it can be written at the same time; leave it one name, or make a copy`,
    );
  }
  return true;
}

/** Opens a ledger file that must be there. @throws LedgerRefused */
export const openExisting = (openDatabase: OpenDatabase, file: string): Database =>
  orRefusal(file, () => {
    if (!isThere(file))
      throw new LedgerRefused(
        `there is no ledger ${file}: start callgate with this configuration once, or name the configuration of the service (--config); that of \`callgate dev\` is in the folder it was started in`,
      );
    return openDatabase(file);
  });

/** Runs what opens a ledger, and puts what stands in its way into words for an operator. @throws LedgerRefused */
export function orRefusal<T>(file: string, open: () => T): T {
  try {
    return open();
  } catch (error) {
    if (error instanceof LedgerRefused) throw error;
    throw new LedgerRefused(`the ledger ${file} cannot be used: ${faultText(error)}`);
  }
}

/** What a fault of the store means for an operator. */
export function faultText(error: unknown): string {
  const { code, message } = sqliteFault(error);
  switch (code) {
    case sqliteCodes.full:
      return `the disk is full (${message})`;
    case sqliteCodes.ioError:
      return `the disk does not take or give what it should, or a limit on the size of files is reached (${message})`;
    case sqliteCodes.corrupt:
    case sqliteCodes.notADatabase:
      return `it is damaged, or no ledger at all (${message}); put back a copy of it, or move it away to begin with an empty one`;
    case sqliteCodes.readOnly:
    case sqliteCodes.cannotOpen:
      return `its file or its directory cannot be written (${message}); callgate needs to write both`;
    case sqliteCodes.busy:
      return `another process is writing it and does not come to an end (${message})`;
    default:
      return message;
  }
}
