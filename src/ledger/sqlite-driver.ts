import { DamagedText } from './row.ts';

/** A value in a column or a parameter. */
export type SqlValue = string | number | null;

/** One row, by the names of its columns. */
export type SqlRow = Readonly<Record<string, SqlValue>>;

/** A prepared statement. */
export interface Statement {
  /** How many rows it changed. */
  run(parameters: readonly SqlValue[]): number;
  get(parameters: readonly SqlValue[]): SqlRow | undefined;
  all(parameters: readonly SqlValue[]): readonly SqlRow[];
}

/** An open database, whichever driver it came from. */
export interface Database {
  exec(sql: string): void;
  prepare(sql: string): Statement;
  close(): void;
}

/** Opens a database file, making it where it is not there. */
export type OpenDatabase = (file: string) => Database;

/** The part of node:sqlite that is used; the types of Node 20 do not have it. */
interface NodeSqlite {
  readonly DatabaseSync: new (
    file: string,
  ) => {
    exec(sql: string): void;
    prepare(sql: string): {
      run(...parameters: SqlValue[]): { readonly changes: number | bigint };
      get(...parameters: SqlValue[]): SqlRow | undefined;
      all(...parameters: SqlValue[]): SqlRow[];
    };
    close(): void;
  };
}

/** The driver of this runtime: its own where it has one, else libsql, which has the same SQLite under it. */
export async function sqliteDriver(): Promise<OpenDatabase> {
  const own = ownSqlite();
  return own === undefined ? libsqlDriver() : nodeDriver(own);
}

function ownSqlite(): NodeSqlite | undefined {
  const { emitWarning } = process;
  // Node 22 and 24 say on first use that the module may still change. That is for us to know, not for the operator.
  process.emitWarning = () => {};
  try {
    return process.getBuiltinModule('node:sqlite') as NodeSqlite | undefined;
  } finally {
    process.emitWarning = emitWarning;
  }
}

const nodeDriver =
  ({ DatabaseSync }: NodeSqlite): OpenDatabase =>
  (file) => {
    const database = new DatabaseSync(file);
    return {
      exec: (sql) => database.exec(sql),
      close: () => database.close(),
      prepare: (sql) => {
        const statement = database.prepare(sql);
        return {
          run: (parameters) => Number(statement.run(...parameters).changes),
          get: (parameters) => statement.get(...parameters),
          all: (parameters) => statement.all(...parameters),
        };
      },
    };
  };

async function libsqlDriver(): Promise<OpenDatabase> {
  const { default: Libsql } = await import('libsql');
  return (file) => {
    const database = new Libsql(file);
    return {
      exec: (sql) => void database.exec(sql),
      close: () => void database.close(),
      prepare: (sql) => {
        // An array as the only argument is taken as the list of parameters, and saves copying it.
        const statement = database.prepare<[readonly SqlValue[]]>(sql);
        return {
          run: (parameters) => statement.run(parameters).changes,
          get: (parameters) => statement.get(parameters) as SqlRow | undefined,
          all: (parameters) => statement.all(parameters) as SqlRow[],
        };
      },
    };
  };
}

/** What went wrong, by SQLite's result code: where its message would not help an operator, in better words. */
export function sqliteFault(error: unknown): { readonly code: number; readonly message: string } {
  const { rawCode, errcode, message } = error as {
    readonly rawCode?: number;
    readonly errcode?: number;
    readonly message?: string;
  };
  const own = error instanceof DamagedText ? sqliteCodes.corrupt : 0;
  // The extended codes carry the primary one in their low byte.
  const code = (rawCode ?? errcode ?? codeInText(message) ?? own) & 0xff;
  return { code, message: message ?? String(error) };
}

/** What libsql says of a file that it cannot open has the code at its end alone. */
function codeInText(message: string | undefined): number | undefined {
  const [, code] = /Unable to open connection to local database .*: (\d+)/s.exec(message ?? '') ?? [];
  return code === undefined ? undefined : Number(code);
}

/** What is thrown where the store does not fit together, although SQLite itself finds no fault with it. */
export const damage = (what: string): Error =>
  Object.assign(new Error(what), { errcode: sqliteCodes.corrupt });

/** Gives up the open transaction, if there still is one. */
export function rollback(database: Database): void {
  try {
    database.exec('ROLLBACK');
  } catch (error) {
    // After some faults, a full disk among them, SQLite has rolled back by itself.
    if (!/no transaction is active/.test((error as Error).message)) throw error;
  }
}

/** The result codes that callgate tells apart (sqlite.org/rescode.html). */
export const sqliteCodes = {
  busy: 5,
  readOnly: 8,
  ioError: 10,
  corrupt: 11,
  full: 13,
  cannotOpen: 14,
  notADatabase: 26,
} as const;
