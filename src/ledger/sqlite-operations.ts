import type { CallEnd, Claim, RecordedCall } from '../dispatch/record.ts';
import { callBytes, callText, type StoredRow, statusNumber } from './row.ts';
import { shelfOf } from './sqlite-shelves.ts';

/** The rows that a key may have; null where it certainly has none. */
export type Rows = number | readonly number[] | null;

/** One field of an operation. */
export type Cell = number | string | Rows;

/**
 * What the main thread asks of the store, many at a time, in one flat list: the kind of an operation, then its fields
 * in the order in which `operations` writes and `SqliteStore.apply` reads them. Flat, since each object that crosses
 * to another thread costs as much as ten fields.
 */
export type Batch = Cell[];

/** The kinds of operations. */
export const kinds = { claim: 0, record: 1, start: 2, settle: 3, find: 4, get: 5, interrupt: 6 } as const;

/** Writes operations into a batch; each gives back how many characters of contents it takes. */
export const operations = {
  claim(
    batch: Batch,
    row: number,
    rows: Rows,
    tag: number,
    call: RecordedCall,
    status: 'received' | 'started',
  ): number {
    const text = callText(call);
    batch.push(kinds.claim, row, rows, tag, call.key, call.id, call.actor);
    batch.push(statusNumber(status), call.createdAtMs, text);
    return text.length;
  },
  record(batch: Batch, row: number, rows: Rows, tag: number, call: RecordedCall, end: CallEnd): number {
    const { status } = end.outcome;
    const text = callText(call);
    const outcome = JSON.stringify(end.outcome);
    batch.push(kinds.record, row, rows, tag, call.key, call.id, call.actor);
    batch.push(statusNumber(status), end.attempts, end.atMs, shelfOf(call, status));
    batch.push(text, outcome);
    return text.length + outcome.length;
  },
  start(batch: Batch, rows: Rows, { call, attempt }: Claim): number {
    batch.push(kinds.start, rows, call.key, attempt);
    return 0;
  },
  settle(batch: Batch, rows: Rows, { call, attempt }: Claim, end: CallEnd): number {
    const { status } = end.outcome;
    const outcome = JSON.stringify(end.outcome);
    batch.push(kinds.settle, rows, call.key, call.actor, attempt);
    batch.push(statusNumber(status), end.attempts, end.atMs, shelfOf(call, status));
    batch.push(callBytes(call), outcome);
    return outcome.length;
  },
  find(batch: Batch, rows: Rows, key: string): number {
    batch.push(kinds.find, rows, key);
    return 0;
  },
  get(batch: Batch, actor: string, id: string): number {
    batch.push(kinds.get, actor, id);
    return 0;
  },
  interrupt(batch: Batch, row: number, attempt: number, atMs: number): number {
    batch.push(kinds.interrupt, row, attempt, atMs);
    return 0;
  },
};

/** What became of an operation, where it is not what it usually is. */
export type Answer =
  /** Claim: the call was run before, and may be tried anew under its old id. */
  | {
      readonly kind: 'taken_over';
      readonly id: string;
      readonly createdAtMs: number;
      readonly attempt: number;
    }
  /** Claim, find, get: the record that is there. */
  | { readonly kind: 'row'; readonly row: StoredRow }
  /** Claim: the actor has too many records. */
  | { readonly kind: 'full' }
  /** Record: the row that was meant for it is not used. Start and settle: nothing was changed. */
  | { readonly kind: 'nothing' };

/** The answers to a batch, by the place of their operation; what is missing went as usual. */
export type Answers = readonly (readonly [place: number, answer: Answer])[];
