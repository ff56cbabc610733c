import type { ClaimResult, RecordList, RecordQuery, StoredToolList } from '../dispatch/ports.ts';
import { LedgerUnavailable } from '../dispatch/ports.ts';
import {
  type CallEnd,
  type CallRecord,
  type Claim,
  callIdPattern,
  type RecordedCall,
} from '../dispatch/record.ts';
import { KnownKeys, tagOf } from './known-keys.ts';
import { recordOf } from './row.ts';
import {
  type LedgerDeps,
  LedgerRefused,
  type LedgerSettings,
  type OpenLedger,
  quotaRetryMs,
} from './settings.ts';
import { sqliteDriver } from './sqlite-driver.ts';
import { type Hold, takeHold } from './sqlite-hold.ts';
import type { Report } from './sqlite-messages.ts';
import { makeFile, orRefusal } from './sqlite-open.ts';
import { type Answer, type Batch, operations } from './sqlite-operations.ts';
import type { KeyList } from './sqlite-retention.ts';
import type { KeyPart, Listed, OpenRow } from './sqlite-store.ts';
import { WriterThread } from './sqlite-thread.ts';
import { ToolListRequests } from './sqlite-tool-list-requests.ts';

/** What tests move. */
export interface SqliteOptions {
  /** The file that runs in the thread that writes; it must be one that the runtime can load as it is. */
  readonly workerUrl?: URL;
  /** Between two rounds of upkeep. */
  readonly upkeepMs?: number;
  /** How long a call on its way must have been nobody's before it is ended. */
  readonly graceMs?: number;
  /** How long the thread that writes may take for a batch. */
  readonly answerMs?: number;
}

/** Records of all actors together: beyond it the keys would take more than 300 MB of memory. */
const recordsMax = 20_000_000;
/** Operations, and characters of them, that may wait for the batch before theirs. */
const waitingMax = 100_000;
const waitingCharsMax = 268_435_456;
/** How long operations that nobody waits for may gather, and how many of them. */
const gatherMs = 10;
const gatherMax = 256;

/**
 * Opens the ledger in a SQLite file, for this process alone. Calls that were on their way when the last process ended
 * are ended now.
 * @throws LedgerRefused where another process holds it, or where it cannot be used
 */
export async function openSqlite(
  path: string,
  settings: LedgerSettings,
  deps: LedgerDeps,
  options: SqliteOptions = {},
): Promise<SqliteLedger> {
  const openDatabase = await sqliteDriver();
  const file = makeFile(path);
  const hold = orRefusal(file, () => takeHold(openDatabase, file, deps.nowMs()));
  const ledger = new SqliteLedger(file, settings, deps, hold, options);
  try {
    await ledger.opened;
  } catch (error) {
    await ledger.close();
    throw error;
  }
  return ledger;
}

/** An operation that has been taken and not yet answered. */
interface Waiting {
  /** What its answer means to whoever waits; undefined: it went as usual. */
  readonly read: (answer: Answer | undefined) => unknown;
  readonly resolve: (meaning: unknown) => void;
  readonly fail: (error: LedgerUnavailable) => void;
  /** The key and the row that were noted for it, which are to be forgotten if it did not happen. */
  readonly tag: number;
  readonly row: number;
}

/**
 * The SQLite ledger as the event loop sees it. Operations of one turn of the event loop become one batch, written by
 * another thread in one transaction; while that is under way the next batch gathers.
 */
export class SqliteLedger implements OpenLedger {
  /** Resolves when the ledger can be used. @throws LedgerRefused */
  readonly opened: Promise<void>;
  readonly #deps: LedgerDeps;
  readonly #hold: Hold;
  readonly #graceMs: number;
  readonly #answerMs: number;
  #keys = new KnownKeys();
  readonly #thread: WriterThread;
  readonly #upkeep: NodeJS.Timeout;
  readonly #answerTimer: NodeJS.Timeout;

  #batch: Batch = [];
  #waiting: Waiting[] = [];
  /** One promise for all records of the batch: they are the most, and nobody tells them apart. */
  #recorded: PromiseWithResolvers<void> | undefined;
  #waitingChars = 0;
  #isUrgent = false;
  #flying: readonly Waiting[] | undefined;
  #immediate: NodeJS.Immediate | undefined;
  #gatherTimer: NodeJS.Timeout | undefined;
  readonly #lists = new Map<number, PromiseWithResolvers<RecordList>>();
  #listCount = 0;
  readonly #toolLists: ToolListRequests;
  #openRows: PromiseWithResolvers<readonly OpenRow[]> | undefined;
  #tended: PromiseWithResolvers<void> | undefined;
  #round: Promise<void> | undefined;
  /** Calls on their way that nobody works on, and since when (monotonic). */
  #lost = new Map<string, number>();
  #idle: (() => void) | undefined;

  #isReady = false;
  #closing: Promise<void> | undefined;
  /** Why nothing can be written until the process starts anew. */
  #broken: string | undefined;
  /** Why nothing is taken at present. */
  #blocked: string | undefined;
  /** Why the last batch was not written. */
  #failure: string | undefined;
  #onOpened: PromiseWithResolvers<void>;

  constructor(file: string, settings: LedgerSettings, deps: LedgerDeps, hold: Hold, options: SqliteOptions) {
    this.#deps = deps;
    this.#hold = hold;
    this.#graceMs = options.graceMs ?? 10_000;
    this.#answerMs = options.answerMs ?? 5_000;
    this.#onOpened = resolvers();
    this.opened = this.#onOpened.promise;
    const url = options.workerUrl ?? new URL('./sqlite-worker.js', import.meta.url);
    this.#thread = new WriterThread(url, { file, lockFile: hold.file, settings }, deps.nowMs, deps.log, {
      onReport: (report) => this.#take(report),
      onDeath: (reason) => this.#threadDied(reason),
    });
    this.#toolLists = new ToolListRequests({
      post: (request) => this.#thread.post(request),
      refusal: () => this.#refusal(),
      log: deps.log,
      answerMs: this.#answerMs,
    });
    this.#upkeep = setInterval(() => this.#upkeepRound(), options.upkeepMs ?? 2_000).unref();
    this.#answerTimer = setTimeout(() => this.#answerIsLate(), this.#answerMs).unref();
  }

  find(key: string): CallRecord | undefined | Promise<CallRecord | undefined> {
    const rows = this.#keys.find(tagOf(key));
    if (rows === undefined && this.#closing === undefined) return undefined;
    const refusal = this.#refusalToTake();
    if (refusal !== undefined) return refused(refusal);
    return this.#promise(operations.find(this.#batch, rows ?? null, key), recordAnswer);
  }

  claim(call: RecordedCall, status: 'received' | 'started'): Promise<ClaimResult> {
    const tag = tagOf(call.key);
    const rows = this.#keys.find(tag);
    if (rows === undefined && this.#keys.size >= recordsMax) {
      return Promise.resolve({ kind: 'quota_exceeded', retryAfterMs: quotaRetryMs });
    }
    const refusal = this.#refusalToWrite();
    if (refusal !== undefined) return refused(refusal);
    const row = this.#keys.next();
    return this.#promise<ClaimResult>(
      operations.claim(this.#batch, row, rows ?? null, tag, call, status),
      (answer) => {
        if (answer === undefined) return { kind: 'claimed', claim: { call, attempt: 1 } };
        this.#keys.remove(tag, row);
        switch (answer.kind) {
          case 'taken_over': {
            const { id, createdAtMs, attempt } = answer;
            return { kind: 'claimed', claim: { call: { ...call, id, createdAtMs }, attempt } };
          }
          case 'row':
            return { kind: 'known', record: recordOf(answer.row) };
          default:
            return { kind: 'quota_exceeded', retryAfterMs: quotaRetryMs };
        }
      },
      tag,
      row,
    );
  }

  start(claim: Claim): Promise<boolean> {
    const refusal = this.#refusalToWrite();
    if (refusal !== undefined) return refused(refusal);
    const rows = this.#keys.find(tagOf(claim.call.key));
    return this.#promise(operations.start(this.#batch, rows ?? null, claim), wentAsUsual);
  }

  settle(claim: Claim, end: CallEnd): Promise<boolean> {
    const refusal = this.#refusalToWrite();
    if (refusal !== undefined) return refused(refusal);
    const rows = this.#keys.find(tagOf(claim.call.key));
    return this.#promise(operations.settle(this.#batch, rows ?? null, claim, end), wentAsUsual);
  }

  record(call: RecordedCall, end: CallEnd): Promise<void> {
    const tag = tagOf(call.key);
    const rows = this.#keys.find(tag);
    if (rows === undefined && this.#keys.size >= recordsMax) {
      return refused('the ledger holds as many records as it can');
    }
    const refusal = this.#refusalToWrite();
    if (refusal !== undefined) return refused(refusal);
    const row = this.#keys.next();
    const chars = operations.record(this.#batch, row, rows ?? null, tag, call, end);
    this.#recorded ??= resolvers();
    const { promise, resolve, reject } = this.#recorded;
    const read = (answer: Answer | undefined): void => {
      if (answer !== undefined) this.#keys.remove(tag, row);
    };
    this.#enqueue(chars, { read, resolve: resolve as Waiting['resolve'], fail: reject, tag, row }, false);
    return promise;
  }

  get(actor: string, id: string): Promise<CallRecord | undefined> {
    if (!callIdPattern.test(id) && this.#closing === undefined) return Promise.resolve(undefined);
    const refusal = this.#refusalToTake();
    if (refusal !== undefined) return refused(refusal);
    return this.#promise(operations.get(this.#batch, actor, id), recordAnswer);
  }

  list(query: RecordQuery): Promise<RecordList> {
    const refusal = this.#refusal();
    if (refusal !== undefined) return refused(refusal);
    const listing = resolvers<RecordList>();
    this.#listCount += 1;
    const id = this.#listCount;
    this.#lists.set(id, listing);
    const timer = setTimeout(() => {
      this.#thread.post({ kind: 'unlist', id });
      this.#listFailed(id, longSearch);
    }, this.#answerMs).unref();
    this.#thread.post({ kind: 'list', id, query });
    return listing.promise.finally(() => clearTimeout(timer));
  }

  /** This process is the only one that runs calls of this ledger. */
  async requestCancel({ id }: CallRecord): Promise<void> {
    this.#deps.onCancelRequested(id);
  }

  loadToolLists(): Promise<readonly StoredToolList[]> {
    return this.#toolLists.loadToolLists();
  }

  saveToolList(list: StoredToolList): Promise<void> {
    return this.#toolLists.saveToolList(list);
  }

  fault(): string | undefined {
    return this.#refusal() ?? this.#failure;
  }

  /** What is done every few seconds: calls that this process has lost are ended, and retention and bounds are kept. */
  async maintain(): Promise<void> {
    while (this.#round !== undefined) await this.#round.catch(() => {});
    this.#round = this.#maintain().finally(() => {
      this.#round = undefined;
    });
    await this.#round;
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    clearInterval(this.#upkeep);
    if (this.#flying !== undefined || this.#waiting.length > 0) {
      const isIdle = new Promise<void>((resolve) => {
        this.#idle = resolve;
        setTimeout(resolve, this.#answerMs).unref();
      });
      this.#schedule();
      await isIdle;
    }
    this.#abandon(new LedgerUnavailable(closed));
    await this.#thread.close();
    clearTimeout(this.#answerTimer);
    this.#hold.release();
  }

  /** A promise for an operation that has been put into the batch, of so many characters. */
  #promise<T>(chars: number, read: (answer: Answer | undefined) => T, tag = 0, row = 0): Promise<T> {
    return new Promise<T>((resolve, fail) => {
      this.#enqueue(chars, { read, resolve: resolve as Waiting['resolve'], fail, tag, row }, true);
    });
  }

  /** Whoever waits for an operation; its row is noted for its key at once, so that the next one for it sees it. */
  #enqueue(chars: number, waiting: Waiting, isUrgent: boolean): void {
    const { tag, row } = waiting;
    this.#waitingChars += chars;
    if (row > 0) this.#keys.add(tag, row);
    this.#waiting.push(waiting);
    this.#isUrgent ||= isUrgent;
    if (this.#flying === undefined) this.#schedule();
  }

  #refusal(): string | undefined {
    if (this.#closing !== undefined) return closed;
    return this.#broken ?? this.#blocked;
  }

  #refusalToWrite(): string | undefined {
    return this.#broken ?? this.#refusalToTake();
  }

  #refusalToTake(): string | undefined {
    if (this.#closing !== undefined) return closed;
    if (this.#blocked !== undefined) return this.#blocked;
    return this.#waiting.length >= waitingMax || this.#waitingChars >= waitingCharsMax
      ? 'more waits to be written than fits into memory'
      : undefined;
  }

  // What somebody waits for goes out at the end of the next turn of the event loop: an idle one is over in microseconds,
  // and a busy one brings half as many more, which share the sync. A record of a read, which nobody waits for, lets
  // others join it for some milliseconds: a commit costs as much as ten of them.
  #schedule(): void {
    if (this.#immediate !== undefined) return;
    const isUrgent = this.#isUrgent || this.#closing !== undefined || this.#waiting.length >= gatherMax;
    if (isUrgent) this.#immediate = setImmediate(this.#flushNextTurn);
    else this.#gatherTimer ??= setTimeout(() => this.#flush(), gatherMs);
  }

  readonly #flushNextTurn = (): void => {
    this.#immediate = setImmediate(() => this.#flush());
  };

  #flush(): void {
    clearImmediate(this.#immediate);
    clearTimeout(this.#gatherTimer);
    this.#immediate = undefined;
    this.#gatherTimer = undefined;
    if (this.#flying !== undefined || this.#waiting.length === 0) return;
    const batch = this.#batch;
    this.#flying = this.#waiting;
    this.#clearWaiting();
    this.#answerTimer.refresh();
    this.#thread.post({ kind: 'batch', batch });
  }

  #clearWaiting(): void {
    this.#batch = [];
    this.#waiting = [];
    this.#recorded = undefined;
    this.#waitingChars = 0;
    this.#isUrgent = false;
  }

  #take(report: Report): void {
    switch (report.kind) {
      case 'keys':
        this.#learn(report.part, report.size);
        return;
      case 'ready':
        this.#ready(report.size);
        return;
      case 'refused':
        this.#refused(report.reason, report.isRefusal);
        return;
      case 'applied': {
        const { answers, hasWritten } = report;
        const flying = this.#landed();
        if (hasWritten) this.#failure = undefined;
        let next = 0;
        for (const [place, waiting] of flying.entries()) {
          const answer = answers[next]?.[0] === place ? answers[next]?.[1] : undefined;
          if (answer !== undefined) next += 1;
          this.#answer(waiting, answer);
        }
        return;
      }
      case 'failed':
        this.#failed(report.reason, report.isLasting);
        return;
      case 'listed':
        this.#listed(report.id, report.list);
        return;
      case 'not_listed':
        this.#listFailed(report.id, report.reason);
        return;
      case 'tool_list':
      case 'tool_lists_done':
        this.#toolLists.take(report);
        return;
      case 'open_rows':
        this.#openRows?.resolve(report.rows);
        return;
      case 'probed':
        this.#failure = report.reason;
        return;
      case 'removed':
        this.#forget(report.keys);
        return;
      case 'tended':
        this.#tended?.resolve();
        return;
      case 'upkeep_failed':
        this.#deps.log.warn('ledger.upkeep_failed', { reason: report.reason });
        return;
      default:
        report satisfies never;
    }
  }

  #answer({ read, resolve, fail }: Waiting, answer: Answer | undefined): void {
    try {
      resolve(read(answer));
    } catch {
      fail(new LedgerUnavailable(unreadable));
    }
  }

  #learn(part: KeyPart, size: number): void {
    // A damaged ledger may count any number.
    if (this.#keys.size === 0) this.#keys = new KnownKeys(Math.min(size, recordsMax));
    const tags = JSON.parse(`[${part.tags}]`) as number[];
    const rows = JSON.parse(`[${part.rows}]`) as number[];
    for (let index = 0; index < tags.length; index += 1) {
      this.#keys.add(tags[index] as number, rows[index] as number);
    }
  }

  #forget(keys: KeyList): void {
    for (let index = 0; index < keys.length; index += 2) {
      this.#keys.remove(keys[index] as number, keys[index + 1] as number);
    }
  }

  #ready(size: number): void {
    this.#blocked = undefined;
    this.#failure = undefined;
    if (this.#isReady) {
      this.#deps.log.info('ledger.thread_restarted', {});
      return;
    }
    // A key that is not known is taken for a new one, and its call is run: none may be missing.
    if (size !== this.#keys.size) {
      this.#onOpened.reject(
        new LedgerRefused(
          `the ledger is damaged: it counts ${size} records, and there are ${this.#keys.size}; put back a copy of it, or move it away to begin with an empty one`,
        ),
      );
      return;
    }
    this.#isReady = true;
    this.#onOpened.resolve();
  }

  #refused(reason: string, isRefusal: boolean): void {
    // A thread that was to take the place of another one ends now, and its end says why.
    if (this.#isReady) return;
    this.#onOpened.reject(new LedgerRefused(isRefusal ? reason : `the ledger cannot be used: ${reason}`));
  }

  /** Ends the wait for the batch that was under way. */
  #landed(): readonly Waiting[] {
    const flying = this.#flying ?? [];
    this.#flying = undefined;
    // The thread answers again.
    this.#blocked = undefined;
    if (this.#waiting.length > 0) this.#schedule();
    else this.#idle?.();
    return flying;
  }

  #failed(reason: string, isLasting: boolean): void {
    if (isLasting) this.#broken = reason;
    this.#failure = reason;
    for (const waiting of this.#landed()) this.#undo(waiting, new LedgerUnavailable(reason));
  }

  #undo({ tag, row, fail }: Waiting, error: LedgerUnavailable): void {
    if (row > 0) this.#keys.remove(tag, row);
    fail(error);
  }

  #answerIsLate(): void {
    if (this.#flying === undefined) return;
    this.#block(late);
  }

  #threadDied(reason: string): void {
    if (!this.#isReady) {
      this.#onOpened.reject(new LedgerRefused(`the thread of the ledger has ended: ${reason}`));
      return;
    }
    this.#block(`the thread of the ledger has ended (${reason}), and another is being started`);
    this.#flying = undefined;
    this.#idle?.();
  }

  /** Takes nothing more for now. What was under way may have been written: its keys stay noted. */
  #block(reason: string): void {
    this.#blocked = reason;
    this.#deps.log.error('ledger.blocked', { reason });
    this.#abandon(new LedgerUnavailable(reason));
  }

  #abandon(error: LedgerUnavailable): void {
    for (const { fail } of this.#flying ?? []) fail(error);
    const waiting = this.#waiting;
    this.#clearWaiting();
    for (const one of waiting) this.#undo(one, error);
    for (const [id, { reject }] of this.#lists) {
      this.#thread.post({ kind: 'unlist', id });
      reject(error);
    }
    this.#lists.clear();
    this.#toolLists.abandon(error);
    this.#openRows?.reject(error);
    this.#tended?.reject(error);
  }

  #listed(id: number, { rows, resumeBefore }: Listed): void {
    const listing = this.#lists.get(id);
    this.#lists.delete(id);
    try {
      const records = rows.map(recordOf);
      listing?.resolve(resumeBefore === undefined ? records : Object.assign(records, { resumeBefore }));
    } catch {
      listing?.reject(new LedgerUnavailable(unreadable));
    }
  }

  #listFailed(id: number, reason: string): void {
    this.#lists.get(id)?.reject(new LedgerUnavailable(reason));
    this.#lists.delete(id);
  }

  #upkeepRound(): void {
    if (!this.#isReady || this.#blocked !== undefined) return;
    if (this.#failure !== undefined && this.#broken === undefined) this.#thread.post({ kind: 'probe' });
    if (this.#round !== undefined || this.#broken !== undefined) return;
    this.maintain().catch((error: unknown) => {
      if (!(error instanceof LedgerUnavailable)) throw error;
      if (this.#closing !== undefined) return;
      this.#deps.log.warn('ledger.upkeep_failed', { reason: error.message });
    });
  }

  async #maintain(): Promise<void> {
    const refusal = this.#refusal();
    if (refusal !== undefined) throw new LedgerUnavailable(refusal);
    this.#openRows = resolvers();
    this.#thread.post({ kind: 'open_rows' });
    await this.#interruptLost(await this.#openRows.promise);
    this.#tended = resolvers();
    this.#thread.post({ kind: 'tend', nowMs: this.#deps.nowMs() });
    await this.#tended.promise;
  }

  // A settle that failed may have left them, or a claim whose answer came too late. The answer to a claim may still be
  // on its way to somebody who does not know the id yet, hence the grace.
  async #interruptLost(rows: readonly OpenRow[]): Promise<void> {
    const lost = new Map<string, number>();
    const sinceMs = performance.now();
    const ending: Promise<boolean>[] = [];
    for (const { row, id, attempt } of rows) {
      if (this.#deps.isHeld(id)) continue;
      const mark = `${id} ${attempt}`;
      const firstMs = this.#lost.get(mark) ?? sinceMs;
      lost.set(mark, firstMs);
      if (sinceMs - firstMs < this.#graceMs) continue;
      const atMs = this.#deps.nowMs();
      const refusal = this.#refusalToWrite();
      ending.push(
        refusal === undefined
          ? this.#promise(operations.interrupt(this.#batch, row, attempt, atMs), wentAsUsual)
          : refused(refusal),
      );
    }
    this.#lost = lost;
    const ended = (await Promise.all(ending)).filter(Boolean).length;
    if (ended > 0) this.#deps.log.warn('ledger.calls_interrupted', { calls: ended });
  }
}

const closed = 'the ledger is closed';
const unreadable = 'a record of the ledger is damaged and cannot be read';
const late = 'the disk of the ledger does not answer';
const longSearch = 'the search of the ledger took longer than it may';

const refused = (reason: string): Promise<never> => Promise.reject(new LedgerUnavailable(reason));

const wentAsUsual = (answer: Answer | undefined): boolean => answer === undefined;

const recordAnswer = (answer: Answer | undefined): CallRecord | undefined =>
  answer?.kind === 'row' ? recordOf(answer.row) : undefined;

/** Promise.withResolvers, which is in V8 since Node 22. */
interface PromiseWithResolvers<T> {
  readonly promise: Promise<T>;
  readonly resolve: (value: T) => void;
  readonly reject: (error: Error) => void;
}

function resolvers<T>(): PromiseWithResolvers<T> {
  let resolve: (value: T) => void = () => {};
  let reject: (error: Error) => void = () => {};
  const promise = new Promise<T>((onValue, onError) => {
    resolve = onValue;
    reject = onError;
  });
  return { promise, resolve, reject };
}
