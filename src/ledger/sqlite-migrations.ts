import { missingMigrations } from './migrations.ts';
import { type Database, rollback } from './sqlite-driver.ts';

/**
 * The schema of the SQLite ledger, step by step. A step that has been released is never changed.
 *
 * calls: one row per record, in the order in which the rows were made, so that concurrent calls share their pages.
 *   tag: `tagOf` of the key. shelf: what retention does next with it, see `shelves`; due: when (epoch milliseconds).
 *   status: `statusNumber`. call: `callText`. outcome: JSON, null while there is none; size: bytes of both,
 *   0 where there is no outcome.
 * calls_by_due serves retention, finds the calls on their way (shelf 0), and holds all tags beside each other for the
 *   start. calls_by_id serves the list of an actor; its first column keeps the new entries of many actors on few pages.
 * actors: who has records, and how much of what.
 * tool_lists: the last good tool list of each server. source: whose it is; read_at: epoch milliseconds; list: JSON.
 */
const migrations: readonly string[] = [
  `CREATE TABLE actors (
     number INTEGER PRIMARY KEY,
     name TEXT NOT NULL,
     records INTEGER NOT NULL,
     reads INTEGER NOT NULL,
     bytes INTEGER NOT NULL,
     read_bytes INTEGER NOT NULL
   );
   CREATE TABLE calls (
     row INTEGER PRIMARY KEY,
     tag INTEGER NOT NULL,
     shelf INTEGER NOT NULL,
     due INTEGER NOT NULL,
     actor INTEGER NOT NULL,
     id TEXT NOT NULL,
     key TEXT NOT NULL,
     status INTEGER NOT NULL,
     attempt INTEGER NOT NULL,
     attempts INTEGER NOT NULL,
     updated INTEGER NOT NULL,
     size INTEGER NOT NULL,
     call TEXT NOT NULL,
     outcome TEXT
   );
   CREATE INDEX calls_by_due ON calls (shelf, due, tag);
   CREATE INDEX calls_by_id ON calls (actor & 15, id, actor);`,
  `CREATE TABLE tool_lists (
     alias TEXT NOT NULL PRIMARY KEY,
     source TEXT NOT NULL,
     read_at INTEGER NOT NULL,
     list TEXT NOT NULL
   );`,
];

/** The highest schema number that this version knows. */
export const sqliteSchema = migrations.length;

/** The number of the schema that a database has; 0 for an empty one. */
export function appliedSchema(database: Database): number {
  const hasTable =
    database
      .prepare("SELECT 1 AS found FROM sqlite_schema WHERE type = 'table' AND name = 'migrations'")
      .get([]) !== undefined;
  if (!hasTable) return 0;
  return Number(database.prepare('SELECT max(number) AS number FROM migrations').get([])?.number ?? 0);
}

/**
 * Brings the schema of a database up to date, each step in a transaction of its own.
 * @throws LedgerRefused where a newer version has been at work
 */
export function migrate(database: Database, file: string, nowMs: number): void {
  for (const { number, sql } of missingMigrations(migrations, appliedSchema(database), file)) {
    database.exec('BEGIN IMMEDIATE');
    try {
      database.exec(
        'CREATE TABLE IF NOT EXISTS migrations (number INTEGER PRIMARY KEY, applied_at INTEGER NOT NULL)',
      );
      database.exec(sql);
      database.prepare('INSERT INTO migrations VALUES (?, ?)').run([number, nowMs]);
      database.exec('COMMIT');
    } catch (error) {
      rollback(database);
      throw error;
    }
  }
}
