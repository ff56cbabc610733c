import type { EventLog } from '../core/events.ts';
import { LedgerUnavailable } from '../dispatch/ports.ts';
import type { AnyBatcher } from './postgres-batch.ts';
import { describeFailure, isConflict, isConnectionFailure, isValueFault } from './postgres-errors.ts';

interface HealthOptions {
  readonly log: EventLog;
  /** What waits, and is failed, with the database. */
  readonly batchers: readonly AnyBatcher[];
  /** Finds out at once how the database is, and tells it by `usable` or `unusable`. */
  readonly probe: () => void;
}

/** How long batches wait for the answer whether a lost connection was all that was lost. */
const suspicionMaxMs = 1_000;
/** After a failure that a heartbeat does not see (a full disk), until a call may try again. */
const failFastMs = 2_000;

/**
 * Whether the database can be used. Only heartbeats and batches say that it cannot: they are short, and the same for
 * everybody. What one actor asks for beside them may fail for reasons of its own.
 */
export class Health {
  readonly #options: HealthOptions;
  #fault: string | undefined = 'the database has not answered yet';
  #failFastUntilMs = 0;
  #suspicion: NodeJS.Timeout | undefined;
  #isClosed = false;

  constructor(options: HealthOptions) {
    this.#options = options;
  }

  /** Why nothing can be asked; undefined when it can. */
  get fault(): string | undefined {
    return this.#fault;
  }

  /** From now on only ever worse. */
  close(): void {
    this.#isClosed = true;
  }

  /** A batch has failed. */
  batchFailed(error: unknown): void {
    if (isValueFault(error) || isConflict(error)) return;
    if (isConnectionFailure(error)) {
      this.#suspect(error);
      return;
    }
    this.#failFastUntilMs = performance.now() + failFastMs;
    this.unusable(describeFailure(error));
  }

  /** Something else has failed; that alone closes nothing. */
  otherFailed(error: unknown): void {
    if (isConnectionFailure(error)) this.#options.probe();
  }

  /** A heartbeat has come through; gives back whether anything may be asked now. */
  usable(): boolean {
    if (this.#isClosed || performance.now() < this.#failFastUntilMs) return false;
    this.#trust();
    if (this.#fault !== undefined) this.#options.log.info('ledger.available', {});
    this.#fault = undefined;
    for (const batcher of this.#options.batchers) batcher.release();
    return true;
  }

  unusable(reason: string): void {
    this.#trust();
    if (this.#fault !== reason && !this.#isClosed) {
      this.#options.log.warn('ledger.unavailable', { reason });
    }
    this.#fault = reason;
    for (const batcher of this.#options.batchers) batcher.rejectWaiting(new LedgerUnavailable(reason));
  }

  // One connection is lost, perhaps that one alone: the heartbeat finds out, and whatever was not sent waits for it.
  #suspect(error: unknown): void {
    if (this.#fault !== undefined || this.#suspicion !== undefined) return;
    for (const batcher of this.#options.batchers) batcher.hold();
    this.#suspicion = setTimeout(() => this.unusable(describeFailure(error)), suspicionMaxMs);
    this.#options.probe();
  }

  #trust(): void {
    clearTimeout(this.#suspicion);
    this.#suspicion = undefined;
  }
}
