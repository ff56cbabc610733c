import type { RecordedCall } from '../dispatch/record.ts';
import type { Statement } from './postgres-connections.ts';
import { arrayOf, byKey, scalarArrayOf } from './postgres-rows.ts';
import {
  forgetReplicasStatement,
  interruptOwnStatement,
  ownCallsStatement,
  sweepStatement,
} from './postgres-statements.ts';
import { interrupted } from './row.ts';
import type { LedgerDeps } from './settings.ts';

interface RecoveryOptions {
  readonly deps: Pick<LedgerDeps, 'nowMs' | 'log' | 'isHeld'>;
  readonly query: <Row extends readonly unknown[]>(
    statement: Statement,
    parameters: readonly unknown[],
  ) => Promise<readonly Row[]>;
  /** All numbers under which this process may hold calls. */
  readonly numbers: () => readonly string[];
  /** Runs a write after the earlier ones of the same key. */
  readonly inOrder: (key: string, write: () => Promise<void>) => Promise<void>;
}

const sweepRowsMax = 500;
const ownRowsMax = 20_000;
const doubtsMax = 20_000;

/** A call that stands in the ledger as one of ours. */
interface OwnCall {
  readonly key: string;
  readonly id: string;
  readonly attempt: number;
  /** When it was claimed: nothing else touches that while the call runs. */
  readonly claimedAtMs: number;
}

/** Ends calls that nobody runs any more: those of replicas whose lease has run out, and those that this one has lost. */
export class Recovery {
  readonly #options: RecoveryOptions;
  /** Claims that failed and may have been written all the same, see `markOf`. Nothing was sent for them. */
  readonly #doubts = new Set<string>();
  /** Own calls that nobody in this process held at the last look, by their ids. */
  #orphans = new Map<string, number>();

  constructor(options: RecoveryOptions) {
    this.#options = options;
  }

  get hasDoubts(): boolean {
    return this.#doubts.size > 0;
  }

  /** Whoever asked for these claims was told that they failed. */
  doubt(calls: readonly RecordedCall[]): void {
    for (const { key, createdAtMs } of calls) {
      if (this.#doubts.size < doubtsMax) this.#doubts.add(markOf(key, createdAtMs));
    }
  }

  /** One round over everything. @throws LedgerUnavailable */
  async round(): Promise<void> {
    const { query, deps } = this.#options;
    let swept = 0;
    for (let count = sweepRowsMax; count === sweepRowsMax; swept += count) {
      const limits = [deps.nowMs(), sweepRowsMax, this.#numbers()];
      count = (await query(sweepStatement, [notSent, unknown, ...limits])).length;
    }
    if (swept > 0) deps.log.warn('ledger.calls_interrupted', { calls: swept });
    await query(forgetReplicasStatement, []);
    await this.#endLost();
  }

  /** Ends everything that this process holds. @throws LedgerUnavailable */
  async giveUp(): Promise<void> {
    for (;;) {
      const own = await this.#ownCalls();
      if (own.length === 0) return;
      await this.#interrupt(own, 'unknown');
    }
  }

  async #endLost(): Promise<void> {
    const { deps } = this.#options;
    const doubts = [...this.#doubts];
    const own = await this.#ownCalls();
    const marks = new Set(own.map(({ key, claimedAtMs }) => markOf(key, claimedAtMs)));
    const lost: OwnCall[] = [];
    const orphans = new Map<string, number>();
    for (const call of own) {
      if (this.#doubts.has(markOf(call.key, call.claimedAtMs))) await this.#withdraw(call);
      else if (!deps.isHeld(call.id)) {
        // Not at first sight: a claim may have been written that this process has yet to hear of.
        if (this.#orphans.get(call.id) === call.attempt) lost.push(call);
        else orphans.set(call.id, call.attempt);
      }
    }
    this.#orphans = orphans;
    for (const mark of doubts) if (!marks.has(mark)) this.#doubts.delete(mark);
    if (lost.length === 0) return;
    await this.#interrupt(lost, 'unknown');
    deps.log.warn('ledger.calls_interrupted', { calls: lost.length });
  }

  // It waits for whatever is done under its key meanwhile, and ends only the very attempt that it has seen.
  #withdraw(call: OwnCall): Promise<void> {
    return this.#options.inOrder(call.key, async () => {
      await this.#interrupt([call], 'not_sent');
      this.#doubts.delete(markOf(call.key, call.claimedAtMs));
    });
  }

  async #ownCalls(): Promise<readonly OwnCall[]> {
    const rows = await this.#options.query<
      readonly [key: string, id: string, attempt: number, claimedAtMs: number]
    >(ownCallsStatement, [this.#numbers(), ownRowsMax]);
    return rows.map(([key, id, attempt, claimedAtMs]) => ({ key, id, attempt, claimedAtMs }));
  }

  /** @param startedStatus how those end that are `started` */
  async #interrupt(calls: readonly OwnCall[], startedStatus: 'not_sent' | 'unknown'): Promise<void> {
    const sorted = byKey(calls, ({ key }) => key);
    await this.#options.query(interruptOwnStatement, [
      notSent,
      startedStatus === 'not_sent' ? notSent : unknown,
      this.#options.deps.nowMs(),
      arrayOf(sorted, ({ key }) => key),
      scalarArrayOf(sorted, ({ attempt }) => attempt),
      this.#numbers(),
      startedStatus,
    ]);
  }

  #numbers(): string {
    return `{${this.#options.numbers().join(',')}}`;
  }
}

const notSent = JSON.stringify(interrupted('received'));
const unknown = JSON.stringify(interrupted('started'));

// An earlier claim of the same key may have been sent, and still be ours in the ledger: only its time tells it apart.
const markOf = (key: string, claimedAtMs: number): string => `${claimedAtMs} ${key}`;
