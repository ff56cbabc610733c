import { parentPort, workerData } from 'node:worker_threads';
import type { StoredRow } from './row.ts';
import { LedgerRefused } from './settings.ts';
import { type OpenDatabase, sqliteDriver } from './sqlite-driver.ts';
import { FileWatch, inodeOf, lostFile } from './sqlite-hold.ts';
import type { Report, Request, WorkerStart } from './sqlite-messages.ts';
import { faultText, openStore } from './sqlite-open.ts';
import type { SqliteStore } from './sqlite-store.ts';

/** The thread that writes the ledger: it takes batches one after another, and looks after retention in between. */

/** Characters written until the write-ahead log is moved into the database: about 4 MB of pages. */
const checkpointChars = 4_194_304;
/** How long one step of retention may keep a batch waiting. */
const stepMs = 3;

const port = parentPort;
if (port === null) throw new Error('this file is made to run in a worker thread');
const start = workerData as WorkerStart;
const report = (message: Report): void => port.postMessage(message);

const isOver = (): (() => boolean) => {
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
    for (const keys of store.keys()) report({ kind: 'keys', keys: Float64Array.from(keys) });
  }
  // After the first write there is a write-ahead log to watch.
  store.probe();
  const watch = new FileWatch([file, `${file}-wal`, `${file}-shm`, start.lockFile]);
  report({ kind: 'ready', size: store.size, inode: inodeOf(file) ?? 0 });
  new Service(store, watch);
}

class Service {
  readonly #store: SqliteStore;
  readonly #watch: FileWatch;
  /** Set once the files are not the ones any more that were opened. */
  #broken: string | undefined;
  #tendingAtMs: number | undefined;

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
        this.#listOn(request.id, this.#store.list(request.query));
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
    if (this.#store.writtenChars > checkpointChars) this.#quietly(() => this.#store.checkpoint());
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
      this.#store.probe();
      this.#check();
      report({ kind: 'probed', reason: undefined });
    } catch (error) {
      report({ kind: 'probed', reason: faultText(error) });
    }
  }

  #tend(): void {
    this.#quietly(() => {
      const { isDone, removed } = this.#store.tend(this.#tendingAtMs ?? 0, isOver());
      if (removed.length > 0) report({ kind: 'removed', keys: removed });
      if (isDone) {
        this.#tendingAtMs = undefined;
        report({ kind: 'tended' });
      } else setImmediate(() => this.#tend());
    });
  }

  #listOn(id: number, steps: Generator<void, readonly StoredRow[]>): void {
    try {
      const step = steps.next();
      if (step.done === true) report({ kind: 'listed', id, rows: step.value });
      else setImmediate(() => this.#listOn(id, steps));
    } catch (error) {
      report({ kind: 'not_listed', id, reason: faultText(error) });
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
  serve(await sqliteDriver());
} catch (error) {
  report({
    kind: 'refused',
    isRefusal: error instanceof LedgerRefused,
    reason: faultText(error),
  });
  port.close();
}
