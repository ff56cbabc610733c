import { DatabaseError } from 'pg';
import { LedgerUnavailable } from '../dispatch/ports.ts';

/** The SQLSTATE codes that mean something to the ledger. */
export const sqlStates = {
  /** The server, or one of its connections, is being ended by its operator. */
  adminShutdown: '57P01',
  /** Another process of the server has crashed, and all connections end with it. */
  crashShutdown: '57P02',
  /** The server is starting up or recovering. */
  cannotConnectNow: '57P03',
  /** Our own statement time-out, or an operator's cancel. */
  queryCanceled: '57014',
  tooManyConnections: '53300',
  diskFull: '53100',
  readOnlyTransaction: '25006',
  deadlockDetected: '40P01',
  serializationFailure: '40001',
  invalidAuthorization: '28000',
  invalidPassword: '28P01',
  unknownDatabase: '3D000',
  insufficientPrivilege: '42501',
} as const;

/** The first two characters of codes that blame a value, and so one row of a batch. */
const valueClasses: ReadonlySet<string> = new Set(['22', '23', '54']);

const meanings: ReadonlyMap<string, string> = new Map([
  [sqlStates.adminShutdown, 'the database is shutting down'],
  [sqlStates.crashShutdown, 'the database has crashed and starts again'],
  [sqlStates.cannotConnectNow, 'the database is starting up'],
  [sqlStates.queryCanceled, 'the database took too long'],
  [sqlStates.tooManyConnections, 'the database has no connection left'],
  [sqlStates.diskFull, 'the disk of the database is full'],
  [sqlStates.readOnlyTransaction, 'the database is read-only'],
]);

const endingConnections: ReadonlySet<string> = new Set([
  sqlStates.adminShutdown,
  sqlStates.crashShutdown,
  sqlStates.cannotConnectNow,
]);

const refusing: ReadonlySet<string> = new Set([
  sqlStates.invalidAuthorization,
  sqlStates.invalidPassword,
  sqlStates.unknownDatabase,
  sqlStates.insufficientPrivilege,
]);

/** Nothing came back in time. */
export class DatabaseSilent extends Error {}

/** The `code` of an error of the driver or of Node. */
const codeOf = (error: unknown): string | undefined =>
  error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined;

/** Whether waiting does not help: somebody has to change the URL, or a right in the database. */
export const isRefusal = (error: unknown): boolean => refusing.has(codeOf(error) ?? '');

/** Whether the same statement may well succeed when it is sent again. */
export const isConflict = (error: unknown): boolean => {
  const code = codeOf(error);
  return code === sqlStates.deadlockDetected || code === sqlStates.serializationFailure;
};

/** Whether a connection is lost, or was never made; what ran on it may have been done. */
export const isConnectionFailure = (error: unknown): boolean => {
  const code = codeOf(error);
  // Errors of the driver itself have no code; those of Node have one that is no SQLSTATE.
  return (
    !(error instanceof DatabaseSilent || error instanceof LedgerUnavailable) &&
    (!(error instanceof DatabaseError) || endingConnections.has(code ?? ''))
  );
};

/** Whether the statement may have been done all the same. */
export const isInDoubt = (error: unknown): boolean =>
  error instanceof DatabaseSilent || isConnectionFailure(error);

/** Whether a value in one row is to blame, and not the database. */
export const isValueFault = (error: unknown): boolean => valueClasses.has(codeOf(error)?.slice(0, 2) ?? '');

/** What an operator needs to know about a failure. */
export function describeFailure(error: unknown): string {
  const meaning = meanings.get(codeOf(error) ?? '');
  if (meaning !== undefined) return meaning;
  // A name with several addresses fails with one error for each of them, and no words of its own.
  const first = error instanceof AggregateError ? error.errors[0] : error;
  const text = first instanceof Error ? first.message : String(first);
  return `the database cannot be used: ${text}`;
}

/** The one error that leaves the adapter. */
export const unavailable = (error: unknown): LedgerUnavailable =>
  error instanceof LedgerUnavailable
    ? error
    : new LedgerUnavailable(describeFailure(error), { cause: error });
