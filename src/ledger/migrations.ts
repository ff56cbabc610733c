import { LedgerRefused } from './settings.ts';

/**
 * The migrations that a store still needs, by their numbers from 1 on.
 * @param applied the highest number that the store has; 0 for a new one
 * @throws LedgerRefused where a newer version has been at work
 */
export function missingMigrations(
  migrations: readonly string[],
  applied: number,
  store: string,
): readonly { readonly number: number; readonly sql: string }[] {
  if (applied > migrations.length) {
    throw new LedgerRefused(
      `the ledger ${store} has schema ${applied}, and this version of callgate knows schemas up to ${migrations.length}: start the version that made it or a later one, or use another ledger`,
    );
  }
  return migrations.map((sql, index) => ({ number: index + 1, sql })).slice(applied);
}
