import type { RecordQuery } from '../dispatch/ports.ts';
import type { StoredRow } from './row.ts';
import type { LedgerSettings } from './settings.ts';
import type { Answers, Batch } from './sqlite-operations.ts';
import type { KeyList, OpenRow } from './sqlite-store.ts';

/** What the thread that writes the ledger starts with. */
export interface WorkerStart {
  readonly file: string;
  readonly lockFile: string;
  readonly settings: LedgerSettings;
  readonly nowMs: number;
  /** Whether the process begins with it: then all calls on their way are nobody's, and the keys are not known yet. */
  readonly isFirst: boolean;
  /** The file as it was when the process opened it first; undefined then. */
  readonly inode: number | undefined;
}

/** What the main thread asks for. */
export type Request =
  | { readonly kind: 'batch'; readonly batch: Batch }
  | { readonly kind: 'list'; readonly id: number; readonly query: RecordQuery }
  | { readonly kind: 'open_rows' }
  | { readonly kind: 'probe' }
  | { readonly kind: 'tend'; readonly nowMs: number }
  | { readonly kind: 'close' };

/** What the thread that writes tells. */
export type Report =
  | { readonly kind: 'keys'; readonly keys: KeyList }
  | { readonly kind: 'ready'; readonly size: number; readonly inode: number }
  | { readonly kind: 'refused'; readonly isRefusal: boolean; readonly reason: string }
  | { readonly kind: 'applied'; readonly answers: Answers; readonly hasWritten: boolean }
  | { readonly kind: 'failed'; readonly reason: string; readonly isLasting: boolean }
  | { readonly kind: 'listed'; readonly id: number; readonly rows: readonly StoredRow[] }
  | { readonly kind: 'not_listed'; readonly id: number; readonly reason: string }
  | { readonly kind: 'open_rows'; readonly rows: readonly OpenRow[] }
  | { readonly kind: 'probed'; readonly reason: string | undefined }
  | { readonly kind: 'removed'; readonly keys: KeyList }
  | { readonly kind: 'tended' }
  | { readonly kind: 'upkeep_failed'; readonly reason: string };
