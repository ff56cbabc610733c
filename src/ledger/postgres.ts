import { type ClaimResult, LedgerUnavailable, type RecordQuery } from '../dispatch/ports.ts';
import type { CallEnd, CallRecord, Claim, RecordedCall } from '../dispatch/record.ts';
import { Alarm } from './postgres-alarm.ts';
import { connectionsTo } from './postgres-archive.ts';
import { Batcher } from './postgres-batch.ts';
import { type Connections, type Statement, within } from './postgres-connections.ts';
import {
  describeFailure,
  isConflict,
  isConnectionFailure,
  isInDoubt,
  isRefusal,
  isValueFault,
  unavailable,
} from './postgres-errors.ts';
import { defaultTimings, type PostgresTimings, Replica } from './postgres-replica.ts';
import { Retention } from './postgres-retention.ts';
import {
  arrayOf,
  callParameters,
  encodeText,
  jsonArrayOf,
  type RecordRow,
  recordFromRow,
  scalarArrayOf,
} from './postgres-rows.ts';
import {
  claimStatement,
  findStatement,
  forgetReplicasStatement,
  getStatement,
  interruptOwnStatement,
  listStatement,
  obstacleStatement,
  ownCallsStatement,
  recordStatement,
  requestCancelStatement,
  settledBeforeStatement,
  settleStatement,
  startStatement,
  sweepStatement,
} from './postgres-statements.ts';
import { interrupted, mayBeTakenOver } from './row.ts';
import { type LedgerDeps, LedgerRefused, type LedgerSettings, type OpenLedger } from './settings.ts';

export { openPostgresArchive } from './postgres-archive.ts';

/** A statement outside of a batch. */
const statementMaxMs = 4_500;
/** How long operations wait for the answer whether a lost connection was all that was lost. */
const suspicionMaxMs = 1_000;
/** After a failure that a heartbeat does not see (a full disk), until a call may try again. */
const failFastMs = 2_000;
/** What an actor with a full part of the ledger is told to wait. */
const quotaRetryMs = 60_000;
const sweepRowsMax = 500;
const ownRowsMax = 20_000;
const doubtfulMax = 20_000;
const closeMaxMs = 5_000;
/** A claim that meets a record which then gives way is tried again so often. */
const claimTriesMax = 3;

interface ClaimInput {
  readonly call: RecordedCall;
  readonly status: 'received' | 'started';
}

/** What is done to the batches of all kinds alike. */
type AnyBatcher = Pick<Batcher<unknown, unknown>, 'hold' | 'release' | 'rejectWaiting' | 'idle'>;

const bytesOfEnd = ({ outcome }: { readonly outcome: string }): number => 1_000 + 2 * outcome.length;

interface EndInput {
  readonly claim: Claim;
  readonly end: CallEnd;
  readonly outcome: string;
}

interface RecordInput {
  readonly call: RecordedCall;
  readonly end: CallEnd;
  readonly outcome: string;
}

/**
 * The ledger that several replicas share. Opens also where the database cannot be reached, and then says so by
 * `fault()` until it can.
 * @throws LedgerRefused where waiting does not help: a wrong URL, a missing right, a newer schema
 */
export async function openPostgres(
  url: string,
  settings: LedgerSettings,
  deps: LedgerDeps,
  timings: PostgresTimings = defaultTimings,
): Promise<PostgresLedger> {
  const ledger = new PostgresLedger(connectionsTo(url), settings, deps, timings);
  await ledger.open();
  return ledger;
}

/** Several processes on one database; see `openPostgres`. */
export class PostgresLedger implements OpenLedger {
  readonly #connections: Connections;
  readonly #deps: LedgerDeps;
  readonly #timings: PostgresTimings;
  readonly #replica: Replica;
  readonly #retention: Retention;

  readonly #finding: Batcher<string, CallRecord | undefined>;
  readonly #claiming: Batcher<ClaimInput, ClaimResult>;
  readonly #starting: Batcher<Claim, boolean>;
  readonly #settling: Batcher<EndInput, boolean>;
  readonly #recording: Batcher<RecordInput, undefined>;
  readonly #batchers: readonly AnyBatcher[];

  /** The last write under each key that has not come back; whatever has the same key waits for it. */
  readonly #writing = new Map<string, Promise<unknown>>();
  /** Keys of claims that failed and may have been written all the same. Nothing was sent for them. */
  readonly #doubtful = new Set<string>();
  /** Ends whose statement may have been done although no answer came. Whoever tries again brings the same object. */
  readonly #endsInDoubt = new WeakSet<CallEnd>();
  /** Own calls that nobody in this process held at the last look, by their ids. */
  #orphans = new Map<string, number>();

  #fault: string | undefined = 'the database has not answered yet';
  #failFastUntilMs = 0;
  #suspicion: NodeJS.Timeout | undefined;
  readonly #closing = new AbortController();
  readonly #sweepAlarm = new Alarm();
  readonly #retentionAlarm = new Alarm();
  #background: Promise<unknown> = Promise.resolve();

  constructor(
    connections: Connections,
    settings: LedgerSettings,
    deps: LedgerDeps,
    timings: PostgresTimings,
  ) {
    this.#connections = connections;
    this.#deps = deps;
    this.#timings = timings;
    this.#replica = new Replica({
      connections,
      timings,
      onUsable: () => this.#usable(),
      onUnusable: (error) => this.#unusable(describeFailure(error)),
      onCancelRequested: (id) => {
        if (deps.isHeld(id)) deps.onCancelRequested(id);
      },
    });
    this.#retention = new Retention({ connections, settings, deps });

    this.#finding = new Batcher({ run: (keys, leftMs) => this.#findAll(keys, leftMs), bytesOf: () => 100 });
    this.#claiming = new Batcher({ run: (claims, leftMs) => this.#claimAll(claims, leftMs) });
    this.#starting = new Batcher({
      run: (claims, leftMs) => this.#startAll(claims, leftMs),
      bytesOf: () => 100,
    });
    this.#settling = new Batcher<EndInput, boolean>({
      run: (ends, leftMs) => this.#settleAll(ends, leftMs),
      bytesOf: bytesOfEnd,
    });
    this.#recording = new Batcher<RecordInput, undefined>({
      run: (calls, leftMs) => this.#recordAll(calls, leftMs),
      bytesOf: bytesOfEnd,
    });
    this.#batchers = [this.#finding, this.#claiming, this.#starting, this.#settling, this.#recording];
  }

  async open(): Promise<void> {
    try {
      await this.#replica.open();
    } catch (error) {
      if (error instanceof LedgerRefused || isRefusal(error)) {
        await this.close();
        throw error instanceof LedgerRefused
          ? error
          : new LedgerRefused(describeFailure(error), { cause: error });
      }
    }
    this.#background = Promise.all([
      this.#inBackground(this.#sweepAlarm, this.#timings.sweepMs, () => this.#sweep()),
      this.#inBackground(this.#retentionAlarm, this.#timings.retentionMs, () =>
        this.#retention.roundIfDue(0.9 * this.#timings.retentionMs, this.#closing.signal),
      ),
    ]);
  }

  /** One round of all that happens in the background anyway; false where another replica is at it. */
  async maintain(): Promise<boolean> {
    await this.#sweep();
    return this.#retention.round(this.#closing.signal);
  }

  fault(): string | undefined {
    if (this.#fault !== undefined) return this.#fault;
    return this.#replica.number === undefined ? leaseLost : undefined;
  }

  find(key: string): Promise<CallRecord | undefined> {
    const write = this.#writing.get(key);
    const look = (): Promise<CallRecord | undefined> => this.#add(this.#finding, key);
    return write === undefined ? look() : write.then(look, look);
  }

  claim(call: RecordedCall, status: 'received' | 'started'): Promise<ClaimResult> {
    return this.#inOrder(call.key, () => this.#add(this.#claiming, { call, status }));
  }

  start(claim: Claim): Promise<boolean> {
    return this.#inOrder(claim.call.key, () => this.#add(this.#starting, claim));
  }

  settle(claim: Claim, end: CallEnd): Promise<boolean> {
    const outcome = JSON.stringify(end.outcome);
    return this.#inOrder(claim.call.key, () => this.#add(this.#settling, { claim, end, outcome }));
  }

  record(call: RecordedCall, end: CallEnd): Promise<void> {
    const outcome = JSON.stringify(end.outcome);
    return this.#inOrder(call.key, () => this.#add(this.#recording, { call, end, outcome }));
  }

  async get(actor: string, id: string): Promise<CallRecord | undefined> {
    if (!isStorable(id)) return undefined;
    const [row] = await this.#query<RecordRow>(getStatement, [actor, id]);
    return row === undefined ? undefined : recordFromRow(row);
  }

  async list({
    actor,
    callId,
    run,
    turn,
    status,
    before,
    limit,
  }: RecordQuery): Promise<readonly CallRecord[]> {
    if (before !== undefined && !isStorable(before)) return [];
    const text = (value: string | undefined): string | null =>
      value === undefined ? null : encodeText(value);
    const rows = await this.#query<RecordRow>(listStatement, [
      actor,
      before ?? null,
      text(callId),
      text(run),
      text(turn),
      status ?? null,
      limit,
    ]);
    return rows.map(recordFromRow);
  }

  async requestCancel({ key, id }: CallRecord): Promise<void> {
    await this.#query(requestCancelStatement, [key, id]);
  }

  async close(): Promise<void> {
    this.#closing.abort();
    this.#sweepAlarm.ring();
    this.#retentionAlarm.ring();
    await Promise.all([this.#replica.stop(), this.#background]);
    try {
      if (this.#fault === undefined) await this.#giveUp();
    } catch (error) {
      // The lease runs out by itself then, and another replica ends what is left.
      this.#deps.log.warn('ledger.close_failed', { reason: describeFailure(error) });
    }
    const graceMs = this.#fault === undefined ? closeMaxMs : 0;
    this.#unusable('the ledger is closed');
    await this.#connections.close(graceMs);
  }

  async #giveUp(): Promise<void> {
    await within(Promise.all(this.#batchers.map((batcher) => batcher.idle())), closeMaxMs);
    for (;;) {
      const own = await this.#ownCalls();
      if (own.length === 0) break;
      await this.#interruptOwn(own, false);
    }
    await this.#replica.resign();
  }

  async #inBackground(alarm: Alarm, gapMs: number, run: () => Promise<unknown>): Promise<void> {
    while (!this.#closing.signal.aborted) {
      try {
        if (this.#fault === undefined) await run();
      } catch (error) {
        this.#deps.log.warn('ledger.maintenance_failed', { reason: describeFailure(error) });
      }
      await alarm.sleep(gapMs);
    }
  }

  // Ends the calls of replicas whose lease has run out, and those that this process has lost itself.
  async #sweep(): Promise<void> {
    let swept = 0;
    for (let count = sweepRowsMax; count === sweepRowsMax; swept += count) {
      const rows = await this.#query(sweepStatement, [notSent, unknown, this.#deps.nowMs(), sweepRowsMax]);
      count = rows.length;
    }
    if (swept > 0) this.#deps.log.warn('ledger.calls_interrupted', { calls: swept });
    await this.#query(forgetReplicasStatement, []);
    await this.#endLost();
  }

  async #endLost(): Promise<void> {
    const doubtful = [...this.#doubtful];
    const own = await this.#ownCalls();
    const keys = new Set(own.map(({ key }) => key));
    const lost: OwnCall[] = [];
    const orphans = new Map<string, number>();
    for (const call of own) {
      if (this.#doubtful.has(call.key)) await this.#withdraw(call);
      else if (!this.#deps.isHeld(call.id)) {
        // Not at first sight: a claim may have been written that this process has yet to hear of.
        if (this.#orphans.get(call.id) === call.attempt) lost.push(call);
        else orphans.set(call.id, call.attempt);
      }
    }
    this.#orphans = orphans;
    for (const key of doubtful) if (!keys.has(key)) this.#doubtful.delete(key);
    if (lost.length === 0) return;
    await this.#interruptOwn(lost, false);
    this.#deps.log.warn('ledger.calls_interrupted', { calls: lost.length });
  }

  // A claim that failed here was written all the same. It waits for a newer claim of the same key, which may succeed.
  #withdraw(call: OwnCall): Promise<void> {
    return this.#inOrder(call.key, async () => {
      if (!this.#doubtful.has(call.key)) return;
      await this.#interruptOwn([call], true);
      this.#doubtful.delete(call.key);
    });
  }

  async #ownCalls(): Promise<readonly OwnCall[]> {
    const rows = await this.#query<readonly [key: string, id: string, attempt: number]>(ownCallsStatement, [
      `{${this.#replica.numbers.join(',')}}`,
      ownRowsMax,
    ]);
    return rows.map(([key, id, attempt]) => ({ key, id, attempt }));
  }

  async #interruptOwn(calls: readonly OwnCall[], isCertainlyNotSent: boolean): Promise<void> {
    const sorted = byKey(calls, ({ key }) => key);
    await this.#query(interruptOwnStatement, [
      notSent,
      isCertainlyNotSent ? notSent : unknown,
      this.#deps.nowMs(),
      arrayOf(sorted, ({ key }) => key),
      scalarArrayOf(sorted, ({ attempt }) => attempt),
      `{${this.#replica.numbers.join(',')}}`,
      isCertainlyNotSent ? 'not_sent' : 'unknown',
    ]);
  }

  // Operations of one key happen in the order in which they were asked for, so that no statement meets a key twice and
  // a look sees every earlier write.
  #inOrder<Output>(key: string, write: () => Promise<Output>): Promise<Output> {
    const before = this.#writing.get(key);
    const own = before === undefined ? write() : before.then(write, write);
    this.#writing.set(key, own);
    const forget = (): void => {
      if (this.#writing.get(key) === own) this.#writing.delete(key);
    };
    own.then(forget, forget);
    return own;
  }

  #add<Input, Output>(batcher: Batcher<Input, Output>, input: Input): Promise<Output> {
    return this.#fault === undefined
      ? batcher.add(input)
      : Promise.reject(new LedgerUnavailable(this.#fault));
  }

  async #findAll(keys: readonly string[], leftMs: number): Promise<(CallRecord | undefined)[]> {
    const rows = await this.#batch<RecordRow>(findStatement, [arrayOf(keys, String)], leftMs);
    if (rows.length === 0) return new Array<undefined>(keys.length).fill(undefined);
    const found = new Map(rows.map((row) => [row[0], recordFromRow(row)]));
    return keys.map((key) => found.get(key));
  }

  async #claimAll(inputs: readonly ClaimInput[], leftMs: number): Promise<readonly ClaimResult[]> {
    const results = new Map<string, ClaimResult>();
    let open = byKey(inputs, ({ call }) => call.key);
    const untilMs = performance.now() + leftMs;
    for (let tries = 0; open.length > 0 && tries < claimTriesMax; tries += 1) {
      const left = untilMs - performance.now();
      for (const [key, result] of await this.#tryClaims(open, left)) results.set(key, result);
      if (results.size === inputs.length) break;
      open = open.filter(({ call }) => !results.has(call.key));
      for (const [key, result] of await this.#explain(open, untilMs - performance.now()))
        results.set(key, result);
      open = open.filter(({ call }) => !results.has(call.key));
    }
    if (open.length > 0 && results.size < inputs.length) {
      throw new LedgerUnavailable('the record of a call changes faster than it can be claimed');
    }
    return inputs.map(({ call }) => results.get(call.key) as ClaimResult);
  }

  async #tryClaims(
    inputs: readonly ClaimInput[],
    leftMs: number,
  ): Promise<readonly (readonly [string, ClaimResult])[]> {
    const number = this.#numberOrThrow();
    const parameters = callParameters(inputs.map(({ call }) => call));
    parameters.push(
      arrayOf(inputs, ({ status }) => status),
      number,
    );
    let rows: readonly (readonly [key: string, id: string, attempt: number, createdAtMs: number])[];
    try {
      rows = await this.#batch(claimStatement, parameters, leftMs);
    } catch (error) {
      if (isInDoubt(error)) this.#doubt(inputs);
      throw error;
    }
    const calls = new Map(inputs.map(({ call }) => [call.key, call]));
    return rows.map(([key, id, attempt, createdAtMs]) => {
      const call = calls.get(key) as RecordedCall;
      if (this.#doubtful.size > 0) this.#doubtful.delete(key);
      const kept = call.id === id ? call : { ...call, id, createdAtMs };
      return [key, { kind: 'claimed', claim: { call: kept, attempt } }] as const;
    });
  }

  // What could not be claimed is known, or one over the quota, or has changed hands since: that one is tried again.
  async #explain(
    inputs: readonly ClaimInput[],
    leftMs: number,
  ): Promise<readonly (readonly [string, ClaimResult])[]> {
    const keys = inputs.map(({ call }) => call.key);
    const records = await this.#findAll(keys, leftMs);
    const results: (readonly [string, ClaimResult])[] = [];
    const open: ClaimInput[] = [];
    for (const [index, input] of inputs.entries()) {
      const record = records[index];
      if (record === undefined || mayBeTakenOver(record, input.call)) open.push(input);
      else results.push([input.call.key, { kind: 'known', record }]);
    }
    if (open.length > 0) {
      const full = await this.#obstacles(
        open.map(({ call }) => call.actor),
        leftMs,
      );
      for (const { call } of open) {
        if (full.has(call.actor))
          results.push([call.key, { kind: 'quota_exceeded', retryAfterMs: quotaRetryMs }]);
      }
    }
    return results;
  }

  // Actors with a full part of the ledger; throws where this replica may claim nothing at all.
  async #obstacles(actors: readonly string[], leftMs: number): Promise<ReadonlySet<string>> {
    const [row] = await this.#batch<
      readonly [hasLease: boolean, isSchemaOurs: boolean, full: readonly string[]]
    >(obstacleStatement, [this.#numberOrThrow(), arrayOf(actors, String)], leftMs);
    const [hasLease, isSchemaOurs, full] = row ?? [false, true, []];
    if (hasLease && isSchemaOurs) return new Set(full);
    this.#replica.probe();
    throw new LedgerUnavailable(isSchemaOurs ? leaseLost : schemaIsNewer);
  }

  async #startAll(inputs: readonly Claim[], leftMs: number): Promise<readonly boolean[]> {
    const claims = byKey(inputs, ({ call }) => call.key);
    const rows = await this.#batch<readonly [key: string]>(
      startStatement,
      [
        arrayOf(claims, ({ call }) => call.key),
        scalarArrayOf(claims, ({ attempt }) => attempt),
        this.#numberOrThrow(),
      ],
      leftMs,
    );
    const started = new Set(rows.map(([key]) => key));
    if (started.size < inputs.length) await this.#obstacles([], leftMs);
    return inputs.map(({ call }) => started.has(call.key));
  }

  async #settleAll(inputs: readonly EndInput[], leftMs: number): Promise<readonly boolean[]> {
    const ends = byKey(inputs, ({ claim }) => claim.call.key);
    const settled = await this.#settleNow(ends, leftMs);
    const rest = ends.filter(({ claim, end }) => !settled.has(claim.call.key) && this.#endsInDoubt.has(end));
    if (rest.length > 0) {
      const before = await this.#batch<readonly [key: string]>(
        settledBeforeStatement,
        [
          arrayOf(rest, ({ claim }) => claim.call.key),
          scalarArrayOf(rest, ({ claim }) => claim.attempt),
          jsonArrayOf(rest, ({ outcome }) => outcome),
        ],
        leftMs,
      );
      for (const [key] of before) settled.add(key);
    }
    return inputs.map(({ claim }) => settled.has(claim.call.key));
  }

  async #settleNow(ends: readonly EndInput[], leftMs: number): Promise<Set<string>> {
    try {
      const rows = await this.#batch<readonly [key: string]>(
        settleStatement,
        [
          arrayOf(ends, ({ claim }) => claim.call.key),
          scalarArrayOf(ends, ({ claim }) => claim.attempt),
          arrayOf(ends, ({ end }) => end.outcome.status),
          jsonArrayOf(ends, ({ outcome }) => outcome),
          scalarArrayOf(ends, ({ end }) => end.attempts),
          scalarArrayOf(ends, ({ end }) => end.atMs),
        ],
        leftMs,
      );
      return new Set(rows.map(([key]) => key));
    } catch (error) {
      if (isInDoubt(error)) for (const { end } of ends) this.#endsInDoubt.add(end);
      throw error;
    }
  }

  async #recordAll(inputs: readonly RecordInput[], leftMs: number): Promise<readonly undefined[]> {
    const ends = byKey(inputs, ({ call }) => call.key);
    const parameters = callParameters(ends.map(({ call }) => call));
    parameters.push(
      arrayOf(ends, ({ end }) => end.outcome.status),
      jsonArrayOf(ends, ({ outcome }) => outcome),
      scalarArrayOf(ends, ({ end }) => end.attempts),
      scalarArrayOf(ends, ({ end }) => end.atMs),
    );
    await this.#batch(recordStatement, parameters, leftMs);
    return [];
  }

  #numberOrThrow(): string {
    const { number } = this.#replica;
    if (number !== undefined) return number;
    this.#replica.probe();
    throw new LedgerUnavailable(leaseLost);
  }

  #doubt(inputs: readonly ClaimInput[]): void {
    for (const { call } of inputs) if (this.#doubtful.size < doubtfulMax) this.#doubtful.add(call.key);
  }

  async #query<Row extends readonly unknown[]>(
    statement: Statement,
    parameters: readonly unknown[],
  ): Promise<readonly Row[]> {
    if (this.#fault !== undefined) throw new LedgerUnavailable(this.#fault);
    try {
      return await this.#batch<Row>(statement, parameters, statementMaxMs);
    } catch (error) {
      throw unavailable(error);
    }
  }

  async #batch<Row extends readonly unknown[]>(
    statement: Statement,
    parameters: readonly unknown[],
    leftMs: number,
  ): Promise<readonly Row[]> {
    const untilMs = performance.now() + leftMs;
    for (let isSecond = false; ; isSecond = true) {
      try {
        const { rows } = await this.#connections.query<Row>(
          statement,
          parameters,
          untilMs - performance.now(),
        );
        return rows;
      } catch (error) {
        // Two replicas at the same records: one of them has to go first.
        if (isConflict(error) && !isSecond) continue;
        this.#failed(error);
        throw error;
      }
    }
  }

  #failed(error: unknown): void {
    if (isValueFault(error) || isConflict(error)) return;
    if (isConnectionFailure(error)) {
      this.#suspect(error);
      return;
    }
    this.#failFastUntilMs = performance.now() + failFastMs;
    this.#unusable(describeFailure(error));
  }

  // One connection is lost, perhaps that one alone: the heartbeat finds out, and whatever was not sent waits for it.
  #suspect(error: unknown): void {
    if (this.#fault !== undefined || this.#suspicion !== undefined) return;
    for (const batcher of this.#batchers) batcher.hold();
    this.#suspicion = setTimeout(() => this.#unusable(describeFailure(error)), suspicionMaxMs);
    this.#replica.probe();
  }

  #usable(): void {
    if (this.#closing.signal.aborted || performance.now() < this.#failFastUntilMs) return;
    clearTimeout(this.#suspicion);
    this.#suspicion = undefined;
    if (this.#fault !== undefined) this.#deps.log.info('ledger.available', {});
    this.#fault = undefined;
    if (this.#doubtful.size > 0) this.#sweepAlarm.ring();
    for (const batcher of this.#batchers) batcher.release();
  }

  #unusable(reason: string): void {
    clearTimeout(this.#suspicion);
    this.#suspicion = undefined;
    if (this.#fault !== reason && !this.#closing.signal.aborted) {
      this.#deps.log.warn('ledger.unavailable', { reason });
    }
    this.#fault = reason;
    for (const batcher of this.#batchers) batcher.rejectWaiting(new LedgerUnavailable(reason));
  }
}

/** A call that stands in the ledger as one of ours. */
interface OwnCall {
  readonly key: string;
  readonly id: string;
  readonly attempt: number;
}

const notSent = JSON.stringify(interrupted('received'));
const unknown = JSON.stringify(interrupted('started'));

const leaseLost = 'this replica could not renew its lease in time and is getting a new one';

const schemaIsNewer = 'a newer version of callgate has changed the ledger: this one must be replaced';

/** What PostgreSQL can hold as an id or a key; nothing else can be in it. */
const isStorable = (text: string): boolean => !text.includes('\0');

// Replicas that lock the same rows lock them in the same order.
const byKey = <Input>(inputs: readonly Input[], keyOf: (input: Input) => string): readonly Input[] =>
  inputs.length < 2 ? inputs : [...inputs].sort((a, b) => (keyOf(a) < keyOf(b) ? -1 : 1));
