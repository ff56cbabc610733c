import type { EventLog } from '../core/events.ts';
import type { Ledger, ToolListStore } from '../dispatch/ports.ts';
import type { CallRecord, RecordStatus } from '../dispatch/record.ts';

/** Where records are kept, and how long. Every default is applied. */
export interface LedgerSettings {
  readonly store:
    | { readonly kind: 'sqlite' /** Absolute. */; readonly file: string }
    | { readonly kind: 'postgres'; readonly url: string };
  /** From the end of a call that may change something until its result is dropped. */
  readonly outputRetentionMs: number;
  /** The same for calls that only read, and for rejected ones. */
  readonly readOutputRetentionMs: number;
  /** From the end of a call until nothing of it is left. */
  readonly tombstoneRetentionMs: number;
  /**
   * Bytes of all stored calls and results; over it the oldest results go first, those of reads before those of writes.
   * What is left of a call without its result does not count: it goes by its time, and by `actorRecordsMax`.
   */
  readonly bytesMax: number;
  /** The same for the calls of one actor, so that one cannot push out the others'. */
  readonly actorBytesMax: number;
  /** Records of one actor. Over it, records of reads go first; if writes alone are as many, new ones are refused. */
  readonly actorRecordsMax: number;
}

/** What a caller with too many records is told to wait: until then retention may have made room. */
export const quotaRetryMs = 60_000;

/** What a ledger needs from the process that opens it. */
export interface LedgerDeps {
  readonly nowMs: () => number;
  readonly log: EventLog;
  /** Whether this process still works on the call with this id; what it does not, it has lost. */
  readonly isHeld: (id: string) => boolean;
  /** Somebody, perhaps at another replica, wants the call with this id cancelled. */
  readonly onCancelRequested: (id: string) => void;
}

/** A ledger in use. */
export interface OpenLedger extends Ledger, ToolListStore {
  /** Writes what still waits, gives up what this process holds, and closes the store. */
  close(): Promise<void>;
}

/** The store must not be used as it is: held by another process, or made by a newer version. The message says what to do. */
export class LedgerRefused extends Error {}

/** Records of all actors, for operators (`callgate ledger`). May be open beside a running service. */
export interface LedgerArchive {
  /** Newest first. */
  list(query: {
    readonly status?: RecordStatus | undefined;
    readonly before?: string | undefined;
    readonly limit: number;
  }): Promise<readonly CallRecord[]>;
  get(id: string): Promise<CallRecord | undefined>;
  /**
   * An operator's word on an unknown call, kept with the name of the operator; false when it is not, or no longer,
   * unknown.
   */
  settle(id: string, status: 'succeeded' | 'failed', note: string, user?: string): Promise<boolean>;
  close(): Promise<void>;
}
