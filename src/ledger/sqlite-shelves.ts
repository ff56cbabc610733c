import type { RecordedCall, RecordStatus } from '../dispatch/record.ts';
import { isKeptAsRead } from './row.ts';

/** On which shelf a row stands, which says what retention does with it when it is due. The numbers are in the store. */
export const shelves = {
  /** The call is on its way: nothing. */
  open: 0,
  /** Drops the outcome of a call that only read, or was rejected. */
  read: 1,
  /** Drops the outcome of a call that may have changed something. */
  write: 2,
  /** Deletes what is left of a read. */
  readTombstone: 3,
  /** Deletes what is left of a write. */
  writeTombstone: 4,
} as const;

/** Whether a row goes first when its actor has too many. */
export const isOfRead = (shelf: number): boolean => shelf === shelves.read || shelf === shelves.readTombstone;

/** The shelf of a call with this end. */
export const shelfOf = (call: RecordedCall, status: RecordStatus): number =>
  isKeptAsRead(call, status) ? shelves.read : shelves.write;
