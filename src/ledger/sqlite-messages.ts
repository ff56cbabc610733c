import type { RecordQuery } from '../dispatch/ports.ts';
import type { LedgerSettings } from './settings.ts';
import type { Answers, Batch } from './sqlite-operations.ts';
import type { KeyList } from './sqlite-retention.ts';
import type { KeyPart, Listed, OpenRow } from './sqlite-store.ts';
import type { ToolListFound, ToolListRow } from './tool-lists.ts';

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
  /** Nobody waits for that list any more. */
  | { readonly kind: 'unlist'; readonly id: number }
  | { readonly kind: 'load_tool_lists'; readonly id: number }
  | { readonly kind: 'save_tool_list'; readonly id: number; readonly row: ToolListRow }
  | { readonly kind: 'open_rows' }
  | { readonly kind: 'probe' }
  | { readonly kind: 'tend'; readonly nowMs: number }
  | { readonly kind: 'close' };

/** What the thread that writes tells. */
export type Report =
  /** Some of all the keys, of which there should be so many. */
  | { readonly kind: 'keys'; readonly part: KeyPart; readonly size: number }
  | { readonly kind: 'ready'; readonly size: number; readonly inode: number }
  | { readonly kind: 'refused'; readonly isRefusal: boolean; readonly reason: string }
  | { readonly kind: 'applied'; readonly answers: Answers; readonly hasWritten: boolean }
  | { readonly kind: 'failed'; readonly reason: string; readonly isLasting: boolean }
  | { readonly kind: 'listed'; readonly id: number; readonly list: Listed }
  | { readonly kind: 'not_listed'; readonly id: number; readonly reason: string }
  /** One of the lists that were asked for. */
  | { readonly kind: 'tool_list'; readonly id: number; readonly found: ToolListFound }
  /** They have all been told, or the one list is saved, unless there is a reason why not. */
  | { readonly kind: 'tool_lists_done'; readonly id: number; readonly reason: string | undefined }
  | { readonly kind: 'open_rows'; readonly rows: readonly OpenRow[] }
  | { readonly kind: 'probed'; readonly reason: string | undefined }
  | { readonly kind: 'removed'; readonly keys: KeyList }
  | { readonly kind: 'tended' }
  | { readonly kind: 'upkeep_failed'; readonly reason: string };
