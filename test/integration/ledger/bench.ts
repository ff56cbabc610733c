import { createHash } from 'node:crypto';
import type { EventLog } from '../../../src/core/events.ts';
import { failed, type Outcome, succeeded } from '../../../src/core/outcome.ts';
import type { Ledger } from '../../../src/dispatch/ports.ts';
import type { CallEnd, CallRecord, Claim, RecordedCall, RecordedTool } from '../../../src/dispatch/record.ts';
import { newUuidV7 } from '../../../src/ids.ts';
import type { LedgerDeps, LedgerSettings, OpenLedger } from '../../../src/ledger/settings.ts';

/** Everything of the settings but the place. */
export type Bounds = Omit<LedgerSettings, 'store'>;

/** One store, empty at first, that processes open one after another, or side by side where it can be shared. */
export interface LedgerStore {
  /** Opens the store as one process does. */
  open(bounds: Bounds, deps: LedgerDeps): Promise<OpenLedger>;
  /** Leaves a ledger as a killed process does: nothing is flushed, nothing given up; the next `open` works. */
  crash(ledger: OpenLedger): Promise<void>;
  /**
   * Resolves when all that this ledger does in the background has been done once, with the time that `nowMs` tells
   * now: retention, bounds, the end of calls that `isHeld` denies, and of the calls of processes that are gone (where
   * their leases must run out first, it waits for that).
   */
  maintain(ledger: OpenLedger): Promise<void>;
  /** Removes the store; every ledger on it has been closed or has crashed. */
  remove(): Promise<void>;
}

export const minuteMs = 60_000;
export const hourMs = 60 * minuteMs;
const mb = 1_048_576;

/** Retention as the defaults have it, and bounds that no test reaches by accident. */
export const wideBounds: Bounds = {
  outputRetentionMs: 24 * hourMs,
  readOutputRetentionMs: 15 * minuteMs,
  tombstoneRetentionMs: 7 * 24 * hourMs,
  bytesMax: 512 * mb,
  actorBytesMax: 256 * mb,
  actorRecordsMax: 100_000,
};

const silent: EventLog = { info: () => {}, warn: () => {}, error: () => {} };

/** A tool that may change something, and must not be run twice. */
export const writeTool: RecordedTool = {
  name: 'order.place',
  target: { alias: 'pay', tool: 'order.place', class: 'write' },
  isRepeatable: false,
  render: undefined,
};

/** A tool that may change something, to the same effect every time. */
export const idempotentTool: RecordedTool = { ...writeTool, isRepeatable: true };

/** A tool that only reads. */
export const readTool: RecordedTool = {
  name: 'Get Orders',
  target: { alias: 'pay', tool: 'Get_Orders', class: 'read' },
  isRepeatable: true,
  render: 'text',
};

/** What a call of a test is about; everything else follows from it. */
export interface CallFacts {
  readonly actor?: string;
  readonly callId?: string;
  readonly run?: string | undefined;
  readonly turn?: string | undefined;
  readonly name?: string;
  readonly tool?: RecordedTool | undefined;
  /** Stands for the arguments. */
  readonly input?: string;
}

/** The processes of one test on one store, with a clock that only the test moves. */
export class Workbench {
  readonly #store: LedgerStore;
  readonly #open = new Set<OpenLedger>();
  #nowMs = Date.UTC(2027, 0, 1);
  #calls = 0;
  /** Ids of calls that their process has lost. */
  readonly lost = new Set<string>();
  /** Ids of calls that processes were asked to cancel. */
  readonly cancelRequests: string[] = [];

  constructor(store: LedgerStore) {
    this.#store = store;
  }

  get nowMs(): number {
    return this.#nowMs;
  }

  later(ms: number): void {
    this.#nowMs += ms;
  }

  async open(bounds: Partial<Bounds> = {}, deps: Partial<LedgerDeps> = {}): Promise<OpenLedger> {
    const ledger = await this.#store.open(
      { ...wideBounds, ...bounds },
      {
        nowMs: () => this.#nowMs,
        log: silent,
        isHeld: (id) => !this.lost.has(id),
        onCancelRequested: (id) => void this.cancelRequests.push(id),
        ...deps,
      },
    );
    this.#open.add(ledger);
    return ledger;
  }

  async close(ledger: OpenLedger): Promise<void> {
    this.#open.delete(ledger);
    await ledger.close();
  }

  async crash(ledger: OpenLedger): Promise<void> {
    this.#open.delete(ledger);
    await this.#store.crash(ledger);
  }

  maintain(ledger: OpenLedger): Promise<void> {
    return this.#store.maintain(ledger);
  }

  async remove(): Promise<void> {
    for (const ledger of this.#open) await ledger.close();
    await this.#store.remove();
  }

  /** A new post of a call; each comes a millisecond after the one before, under an id of its own. */
  call(facts: CallFacts = {}): RecordedCall {
    this.#nowMs += 1;
    this.#calls += 1;
    const {
      actor = 'actor-1',
      callId = `call_${this.#calls}`,
      run,
      turn,
      name = 'pay__order',
      input = '{}',
    } = facts;
    return {
      id: newUuidV7(this.#nowMs),
      key: digest([actor, run, turn, callId]),
      fingerprint: digest([name, input]),
      actor,
      run,
      turn,
      callId,
      name,
      tool: 'tool' in facts ? facts.tool : writeTool,
      createdAtMs: this.#nowMs,
    };
  }

  /** The end of a call, now. */
  ended(outcome: Outcome, attempts = 1): CallEnd {
    return { outcome, attempts, atMs: this.#nowMs };
  }
}

const digest = (parts: readonly (string | undefined)[]): string =>
  createHash('sha256')
    .update(JSON.stringify(parts.map((part) => part ?? null)))
    .digest('base64url');

/** A result with one text. */
export const answered = (text = 'done'): Outcome =>
  succeeded({ content: [{ type: 'text', text }], isError: false });

export const outcomes = {
  succeeded: answered(),
  failed: failed('tool_error', 'the tool reported an error', {
    result: { content: [{ type: 'text', text: 'no such order' }], isError: true },
  }),
  rejected: failed('invalid_arguments', 'the arguments do not fit the tool', { details: { findings: [] } }),
  notSent: failed('server_unavailable', 'the server is not there', { details: { server: 'pay' } }),
  unknown: failed('timeout', 'no answer in time', { details: { server: 'pay' } }),
} as const;

/** Claims a call that must be there for the taking. */
export async function claimed(
  ledger: Ledger,
  call: RecordedCall,
  status: 'received' | 'started' = 'started',
): Promise<Claim> {
  const result = await ledger.claim(call, status);
  if (result.kind !== 'claimed') throw new Error(`the claim of ${call.callId} came out as ${result.kind}`);
  return result.claim;
}

/** The record that must be there. */
export async function found(ledger: Ledger, { key }: RecordedCall): Promise<CallRecord> {
  const record = await ledger.find(key);
  if (record === undefined) throw new Error('there is no record');
  return record;
}
