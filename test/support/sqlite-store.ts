import { execFileSync } from 'node:child_process';
import { mkdtempSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll } from 'vitest';
import { openSqlite, type SqliteLedger, type SqliteOptions } from '../../src/ledger/sqlite.ts';
import type { LedgerStore } from '../integration/ledger/bench.ts';

/** The built file of the thread that writes: Node 20 cannot load its source. */
export const workerUrl = new URL('../../dist/ledger/sqlite-worker.js', import.meta.url);

/** The folder that SQLite stores of a test file are made in. */
const folder = realpathSync(mkdtempSync(join(tmpdir(), 'callgate-ledger-')));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** A new empty folder, which goes when the test file is done. */
export const newFolder = (): string => mkdtempSync(join(folder, 'store-'));

/** An upkeep that happens only when a test asks for it, and at once. */
export const byHand: SqliteOptions = { workerUrl, upkeepMs: 3_600_000, graceMs: 0 };

/** The SQLite store of one test. */
export async function newSqliteStore(): Promise<LedgerStore> {
  let file = join(newFolder(), 'ledger.db');
  return {
    open: (bounds, deps) => openSqlite(file, { store: { kind: 'sqlite', file }, ...bounds }, deps, byHand),
    crash: async (ledger) => {
      // What a killed process leaves is the files as they are at that moment. They are copied by another process,
      // since closing a file in this one would take away the locks that SQLite has on it.
      const left = newFolder();
      for (const suffix of ['', '-wal'])
        execFileSync('cp', [`${file}${suffix}`, join(left, `ledger.db${suffix}`)]);
      file = join(left, 'ledger.db');
      await ledger.close();
    },
    maintain: (ledger) => (ledger as SqliteLedger).maintain(),
    remove: async () => {},
  };
}

/** The path of a script of the support folder. */
export const support = (name: string): string => fileURLToPath(new URL(name, import.meta.url));
