import type { EventLog } from '../core/events.ts';
import { LedgerUnavailable, type StoredToolList, type ToolListStore } from '../dispatch/ports.ts';
import type { Report, Request } from './sqlite-messages.ts';
import { LoadedToolLists, ToolListSaving } from './tool-lists.ts';

interface RequestOptions {
  readonly post: (request: Request) => void;
  /** Why nothing can be asked at present. */
  readonly refusal: () => string | undefined;
  readonly log: EventLog;
  /** How long the thread may take for one request. */
  readonly answerMs: number;
}

interface Waiting {
  readonly loaded: LoadedToolLists;
  resolve(): void;
  reject(error: LedgerUnavailable): void;
}

/** The tool lists of a SQLite ledger as the event loop sees them. They pass beside the batches, and fail alone. */
export class ToolListRequests implements ToolListStore {
  readonly #options: RequestOptions;
  readonly #saving: ToolListSaving;
  readonly #waiting = new Map<number, Waiting>();
  #count = 0;

  constructor(options: RequestOptions) {
    this.#options = options;
    this.#saving = new ToolListSaving(
      (row, leftMs) => this.#ask((id) => ({ kind: 'save_tool_list', id, row }), leftMs).then(() => {}),
      options.answerMs,
    );
  }

  async loadToolLists(): Promise<readonly StoredToolList[]> {
    this.#check();
    const { lists } = await this.#ask((id) => ({ kind: 'load_tool_lists', id }), this.#options.answerMs);
    return lists;
  }

  async saveToolList(list: StoredToolList): Promise<void> {
    this.#check();
    await this.#saving.save(list);
  }

  /** What the thread has to tell about a request. */
  take(report: Extract<Report, { readonly kind: 'tool_list' | 'tool_lists_done' }>): void {
    const waiting = this.#waiting.get(report.id);
    if (report.kind === 'tool_list') waiting?.loaded.add(report.found);
    else if (report.reason === undefined) waiting?.resolve();
    else waiting?.reject(new LedgerUnavailable(report.reason));
  }

  /** The thread will not answer. */
  abandon(error: LedgerUnavailable): void {
    for (const { reject } of this.#waiting.values()) reject(error);
  }

  #check(): void {
    const refusal = this.#options.refusal();
    if (refusal !== undefined) throw new LedgerUnavailable(refusal);
  }

  async #ask(request: (id: number) => Request, leftMs: number): Promise<LoadedToolLists> {
    this.#check();
    this.#count += 1;
    const id = this.#count;
    const loaded = new LoadedToolLists(this.#options.log);
    let timer: NodeJS.Timeout | undefined;
    try {
      await new Promise<void>((resolve, reject) => {
        this.#waiting.set(id, { loaded, resolve, reject });
        timer = setTimeout(() => reject(new LedgerUnavailable(late)), leftMs).unref();
        this.#options.post(request(id));
      });
      return loaded;
    } finally {
      clearTimeout(timer);
      this.#waiting.delete(id);
    }
  }
}

const late = 'the disk of the ledger does not answer';
