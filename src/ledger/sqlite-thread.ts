import { Worker } from 'node:worker_threads';
import type { EventLog } from '../core/events.ts';
import type { Report, Request, WorkerStart } from './sqlite-messages.ts';

/** Told what becomes of the thread that writes the ledger. */
export interface ThreadWatcher {
  onReport(report: Report): void;
  /** The thread has ended by itself. Whatever it had in hand may have been written or not. */
  onDeath(reason: string): void;
}

/** How long a dead thread stays dead; twice as long each time that the next one does not come to serve. */
const restartMinMs = 1_000;
const restartMaxMs = 30_000;
/** How long closing the store may take. */
const closeMs = 5_000;

/** The thread that writes the ledger; when it dies, another one takes its place. */
export class WriterThread {
  readonly #url: URL;
  readonly #start: Omit<WorkerStart, 'nowMs' | 'isFirst' | 'inode'>;
  readonly #nowMs: () => number;
  readonly #log: EventLog;
  readonly #watcher: ThreadWatcher;
  #worker: Worker;
  #restart: NodeJS.Timeout | undefined;
  #isClosing = false;
  /** Whether the thread has the store open. */
  #isServing = false;
  #restartMs = restartMinMs;
  #inode: number | undefined;

  constructor(
    url: URL,
    start: Omit<WorkerStart, 'nowMs' | 'isFirst' | 'inode'>,
    nowMs: () => number,
    log: EventLog,
    watcher: ThreadWatcher,
  ) {
    this.#url = url;
    this.#start = start;
    this.#nowMs = nowMs;
    this.#log = log;
    this.#watcher = watcher;
    this.#worker = this.#run(true);
  }

  post(request: Request): void {
    this.#worker.postMessage(request);
  }

  /** Closes the store and ends the thread. */
  async close(): Promise<void> {
    this.#isClosing = true;
    clearTimeout(this.#restart);
    const worker = this.#worker;
    if (!this.#isServing) {
      await worker.terminate();
      return;
    }
    const ended = new Promise<void>((resolve) => void worker.once('exit', () => resolve()));
    this.post({ kind: 'close' });
    const timer = setTimeout(() => void worker.terminate(), closeMs);
    await ended;
    clearTimeout(timer);
  }

  #run(isFirst: boolean): Worker {
    const workerData: WorkerStart = { ...this.#start, nowMs: this.#nowMs(), isFirst, inode: this.#inode };
    const worker = new Worker(this.#url, { workerData, name: 'callgate ledger' });
    let reason = 'it ended';
    worker.on('message', (report: Report) => {
      if (report.kind === 'ready') {
        this.#inode = report.inode;
        this.#isServing = true;
        this.#restartMs = restartMinMs;
      }
      if (report.kind === 'refused') reason = report.reason;
      this.#watcher.onReport(report);
    });
    worker.on('error', (error: unknown) => {
      reason = error instanceof Error ? error.message : String(error);
    });
    worker.once('exit', () => {
      this.#isServing = false;
      if (this.#isClosing) return;
      this.#log.error('ledger.thread_died', { reason });
      this.#watcher.onDeath(reason);
      this.#restart = setTimeout(() => {
        this.#worker = this.#run(false);
      }, this.#restartMs);
      this.#restartMs = Math.min(this.#restartMs * 2, restartMaxMs);
    });
    return worker;
  }
}
