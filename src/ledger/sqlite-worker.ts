import { parentPort, workerData } from 'node:worker_threads';
import { LedgerRefused } from './settings.ts';
import { type OpenDatabase, sqliteDriver } from './sqlite-driver.ts';
import { FileWatch, inodeOf, lostFile } from './sqlite-hold.ts';
import type { Report, Request, WorkerStart } from './sqlite-messages.ts';
import { faultText, openStore, orRefusal } from './sqlite-open.ts';
import type { Listed, SqliteStore } from './sqlite-store.ts';
import type { ToolListRow } from './tool-lists.ts';

/** The thread that writes the ledger: it takes batches one after another, and looks after retention in between. */

/** Characters written until the write-ahead log is moved into the database: about 4 MB of pages. */
const checkpointChars = 4_194_304;
/** How long one step of retention, or of a list, may keep a batch waiting. */
const tendStepMs = 3;
const listStepMs = 1;

const port = parentPort;
if (port === null) throw new Error('this file is made to run in a worker thread');
const start = workerData as WorkerStart;
const report = (message: Report): void => port.postMessage(message);

const isOver = (stepMs: number): (() => boolean) => {
  const endMs = performance.now() + stepMs;
  return () => performance.now() > endMs;
};

function serve(openDatabase: OpenDatabase): void {
  const { file, inode } = start;
  // A file that is not there any more must not come back as an empty one: its calls would run a second time.
  if (inode !== undefined && inodeOf(file) !== inode) throw new LedgerRefused(lostFile(file));
  const store = openStore(openDatabase, file, start.settings, start.nowMs);
  if (start.isFirst) {
    while (store.interruptSome(start.nowMs) > 0);
    const { size } = store;
    // As text, so that this thread finds the next ones while the main thread reads these.
    for (const part of store.keys()) report({ kind: 'keys', part, size });
  }
  // After the first write there is a write-ahead log to watch.
  store.transaction.probe();
  const watch = new FileWatch([file, `${file}-wal`, `${file}-shm`, start.lockFile]);
  report({ kind: 'ready', size: store.size, inode: inodeOf(file) ?? 0 });
  new Service(store, watch);
}

/** A search that is under way. */
interface List {
  readonly id: number;
  readonly steps: Generator<void, Listed>;
}

class Service {
  readonly #store: SqliteStore;
  readonly #watch: FileWatch;
  /** Set once the files are not the ones any more that were opened. */
  #broken: string | undefined;
  #tendingAtMs: number | undefined;
  #lists: readonly List[] = [];
  #listTurn: NodeJS.Immediate | undefined;

  constructor(store: SqliteStore, watch: FileWatch) {
    this.#store = store;
    this.#watch = watch;
    port?.on('message', (request: Request) => this.#serve(request));
  }

  #serve(request: Request): void {
    switch (request.kind) {
      case 'batch':
        this.#apply(request.batch);
        return;
      case 'list':
        this.#lists = [...this.#lists, { id: request.id, steps: this.#store.list(request.query) }];
        this.#scheduleLists();
        return;
      case 'unlist':
        this.#lists = this.#lists.filter(({ id }) => id !== request.id);
        return;
      case 'load_tool_lists':
        this.#loadToolLists(request.id, this.#store.toolLists.load());
        return;
      case 'save_tool_list':
        this.#saveToolList(request.id, request.row);
        return;
      case 'open_rows':
        report({ kind: 'open_rows', rows: this.#store.openRows() });
        return;
      case 'probe':
        this.#probe();
        return;
      case 'tend': {
        const isIdle = this.#tendingAtMs === undefined;
        this.#tendingAtMs = request.nowMs;
        if (isIdle) this.#tend();
        return;
      }
      case 'close':
        this.#store.close();
        port?.close();
        return;
      default:
        request satisfies never;
    }
  }

  #apply(batch: Parameters<SqliteStore['apply']>[0]): void {
    try {
      const { answers, hasWritten } = this.#store.apply(batch);
      if (hasWritten) this.#check();
      report({ kind: 'applied', answers, hasWritten });
    } catch (error) {
      report({ kind: 'failed', reason: faultText(error), isLasting: this.#broken !== undefined });
    }
    this.#checkpoint();
  }

  #saveToolList(id: number, row: ToolListRow): void {
    try {
      this.#store.toolLists.save(row);
      this.#check();
      report({ kind: 'tool_lists_done', id, reason: undefined });
    } catch (error) {
      report({ kind: 'tool_lists_done', id, reason: faultText(error) });
    }
    this.#checkpoint();
  }

  // One list at a time, so that batches come in between.
  #loadToolLists(id: number, steps: ReturnType<SqliteStore['toolLists']['load']>): void {
    try {
      const step = steps.next();
      if (step.done === true) {
        report({ kind: 'tool_lists_done', id, reason: undefined });
        return;
      }
      report({ kind: 'tool_list', id, found: step.value });
      setImmediate(() => this.#loadToolLists(id, steps));
    } catch (error) {
      report({ kind: 'tool_lists_done', id, reason: faultText(error) });
    }
  }

  #checkpoint(): void {
    const { transaction } = this.#store;
    if (transaction.writtenChars > checkpointChars) this.#quietly(() => transaction.checkpoint());
  }

  // After the commit: what was written into a file that is no longer there must not count as written.
  #check(): void {
    if (this.#broken === undefined) {
      const missing = this.#watch.missing();
      if (missing === undefined) return;
      this.#broken = lostFile(missing);
    }
    throw new Error(this.#broken);
  }

  #probe(): void {
    try {
      this.#store.transaction.probe();
      this.#check();
      report({ kind: 'probed', reason: undefined });
    } catch (error) {
      report({ kind: 'probed', reason: faultText(error) });
    }
  }

  #tend(): void {
    this.#quietly(() => {
      const { isDone, removed } = this.#store.retention.tend(this.#tendingAtMs ?? 0, isOver(tendStepMs));
      if (removed.length > 0) report({ kind: 'removed', keys: removed });
      if (isDone) {
        this.#tendingAtMs = undefined;
        report({ kind: 'tended' });
      } else setImmediate(() => this.#tend());
    });
  }

  #scheduleLists(): void {
    if (this.#lists.length === 0) return;
    this.#listTurn ??= setImmediate(() => {
      this.#listTurn = undefined;
      this.#listOn();
    });
  }

  // One of the lists at a time, and in turn, so that all of them together keep a batch waiting no longer than one.
  #listOn(): void {
    const [list, ...others] = this.#lists;
    if (list === undefined) return;
    this.#lists = this.#isListed(list) ? others : [...others, list];
    this.#scheduleLists();
  }

  #isListed({ id, steps }: List): boolean {
    try {
      for (const isTimeOver = isOver(listStepMs); !isTimeOver(); ) {
        const step = steps.next();
        if (step.done !== true) continue;
        report({ kind: 'listed', id, list: step.value });
        return true;
      }
      return false;
    } catch (error) {
      report({ kind: 'not_listed', id, reason: faultText(error) });
      return true;
    }
  }

  /** Work that nobody waits for: what fails is told, and tried again at its next time. */
  #quietly(work: () => void): void {
    try {
      work();
    } catch (error) {
      this.#tendingAtMs = undefined;
      report({ kind: 'upkeep_failed', reason: faultText(error) });
      report({ kind: 'tended' });
    }
  }
}

try {
  const openDatabase = await sqliteDriver();
  orRefusal(start.file, () => serve(openDatabase));
} catch (error) {
  report({
    kind: 'refused',
    isRefusal: error instanceof LedgerRefused,
    reason: faultText(error),
  });
  port.close();
}
