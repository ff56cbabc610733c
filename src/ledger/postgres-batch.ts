import { LedgerUnavailable } from '../dispatch/ports.ts';
import { isValueFault, unavailable } from './postgres-errors.ts';

interface Waiting<Input, Output> {
  readonly input: Input;
  readonly sinceMs: number;
  readonly bytes: number;
  readonly resolve: (output: Output) => void;
  readonly reject: (error: Error) => void;
}

/** How operations of one kind share statements. */
export interface BatchOptions<Input, Output> {
  /** Runs one batch; outputs in the order of the inputs. `leftMs` is what the oldest of them may still wait. */
  readonly run: (inputs: readonly Input[], leftMs: number) => Promise<readonly Output[]>;
  /** What an operation takes of memory while it waits, about. */
  readonly bytesOf?: (input: Input) => number;
}

/** What is done to the batches of all kinds alike. */
export type AnyBatcher = Pick<Batcher<unknown, unknown>, 'hold' | 'release' | 'rejectWaiting' | 'idle'>;

/** Statements of one kind on their way at once: while they run, the next batch gathers by itself. */
const inFlightMax = 2;
const batchOpsMax = 512;
const batchBytesMax = 4 * 1_048_576;
const waitingOpsMax = 20_000;
const waitingBytesMax = 128 * 1_048_576;

/** From the call of an operation until it is answered, one way or the other. */
export const operationMaxMs = 4_500;

/** A batch that cannot have that long any more is not sent. */
const leftMinMs = 200;

/**
 * Gathers the operations of one turn of the event loop, and of the time that earlier batches take, into one statement.
 * A lone operation waits for nobody.
 */
export class Batcher<Input, Output> {
  readonly #run: BatchOptions<Input, Output>['run'];
  readonly #bytesOf: (input: Input) => number;
  #waiting: Waiting<Input, Output>[] = [];
  #waitingBytes = 0;
  #inFlight = 0;
  #isScheduled = false;
  #isHeld = false;
  #onIdle: (() => void) | undefined;

  constructor({ run, bytesOf }: BatchOptions<Input, Output>) {
    this.#run = run;
    this.#bytesOf = bytesOf ?? (() => 1_000);
  }

  add(input: Input): Promise<Output> {
    const bytes = this.#bytesOf(input);
    if (this.#waiting.length >= waitingOpsMax || this.#waitingBytes + bytes > waitingBytesMax) {
      return Promise.reject(new LedgerUnavailable('the database is slower than the calls that wait for it'));
    }
    return new Promise((resolve, reject) => {
      this.#waiting.push({ input, sinceMs: performance.now(), bytes, resolve, reject });
      this.#waitingBytes += bytes;
      if (this.#isScheduled || this.#isHeld || this.#inFlight >= inFlightMax) return;
      this.#isScheduled = true;
      setImmediate(() => {
        this.#isScheduled = false;
        this.#send();
      });
    });
  }

  /** Sends nothing until `release`, while it is found out whether the database can be used. */
  hold(): void {
    this.#isHeld = true;
  }

  release(): void {
    this.#isHeld = false;
    this.#send();
  }

  /** Fails whatever has not been sent. */
  rejectWaiting(error: Error): void {
    const rejected = this.#waiting;
    this.#waiting = [];
    this.#waitingBytes = 0;
    for (const { reject } of rejected) reject(error);
    this.#tellIdle();
  }

  /** Resolves when nothing waits and nothing is on its way. */
  async idle(): Promise<void> {
    if (this.#isIdle()) return;
    await new Promise<void>((resolve) => {
      this.#onIdle = resolve;
    });
  }

  #send(): void {
    while (!this.#isHeld && this.#waiting.length > 0 && this.#inFlight < inFlightMax) {
      this.#inFlight += 1;
      void this.#settle(this.#take());
    }
  }

  #take(): readonly Waiting<Input, Output>[] {
    let count = 0;
    let bytes = 0;
    while (count < this.#waiting.length && count < batchOpsMax && bytes < batchBytesMax) {
      bytes += this.#waiting[count]?.bytes ?? 0;
      count += 1;
    }
    this.#waitingBytes -= bytes;
    return this.#waiting.splice(0, count);
  }

  async #settle(batch: readonly Waiting<Input, Output>[]): Promise<void> {
    await this.#answer(batch);
    this.#inFlight -= 1;
    this.#send();
    this.#tellIdle();
  }

  async #answer(batch: readonly Waiting<Input, Output>[]): Promise<void> {
    const leftMs = operationMaxMs - (performance.now() - (batch[0]?.sinceMs ?? 0));
    try {
      if (leftMs < leftMinMs) throw new LedgerUnavailable('the database answers too slowly');
      const outputs = await this.#run(
        batch.map(({ input }) => input),
        leftMs,
      );
      for (const [index, { resolve }] of batch.entries()) resolve(outputs[index] as Output);
    } catch (error) {
      if (isValueFault(error) && batch.length > 1) {
        // One of them is at fault; the others must not fail with it.
        for (const each of batch) await this.#answer([each]);
        return;
      }
      for (const { reject } of batch) reject(unavailable(error));
    }
  }

  #isIdle(): boolean {
    return this.#waiting.length === 0 && this.#inFlight === 0;
  }

  #tellIdle(): void {
    if (!this.#isIdle()) return;
    this.#onIdle?.();
    this.#onIdle = undefined;
  }
}
