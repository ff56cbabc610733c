import type { LedgerArchive, LedgerDeps, LedgerSettings, OpenLedger } from './settings.ts';
import type { SqliteOptions } from './sqlite.ts';

/**
 * Opens the ledger that the settings name; only the adapter that is needed is loaded.
 * @throws LedgerRefused where it must not be used as it is
 */
export async function openLedger(
  settings: LedgerSettings,
  deps: LedgerDeps,
  options?: Pick<SqliteOptions, 'workerUrl'>,
): Promise<OpenLedger> {
  const { store } = settings;
  switch (store.kind) {
    case 'sqlite': {
      const { openSqlite } = await import('./sqlite.ts');
      return openSqlite(store.file, settings, deps, options);
    }
    case 'postgres': {
      const { openPostgres } = await import('./postgres.ts');
      return openPostgres(store.url, settings, deps);
    }
    default:
      return store satisfies never;
  }
}

/** Opens the records for operators, beside a service that may be running. @throws LedgerRefused */
export async function openArchive({ store }: Pick<LedgerSettings, 'store'>): Promise<LedgerArchive> {
  switch (store.kind) {
    case 'sqlite': {
      const { openSqliteArchive } = await import('./sqlite-archive.ts');
      return openSqliteArchive(store.file);
    }
    case 'postgres': {
      const { openPostgresArchive } = await import('./postgres.ts');
      return openPostgresArchive(store.url);
    }
    default:
      return store satisfies never;
  }
}
