import {
  type ClaimResult,
  LedgerUnavailable,
  type RecordList,
  type RecordQuery,
  type StoredToolList,
} from '../dispatch/ports.ts';
import type { CallEnd, CallRecord, Claim, RecordedCall } from '../dispatch/record.ts';
import { Alarm } from './postgres-alarm.ts';
import { connectionsTo } from './postgres-archive.ts';
import { type AnyBatcher, Batcher } from './postgres-batch.ts';
import {
  ask,
  type ConnectionPool,
  type Connections,
  type PoolOptions,
  type Statement,
  within,
} from './postgres-connections.ts';
import { describeFailure, isInDoubt, isRefusal, unavailable } from './postgres-errors.ts';
import { Health } from './postgres-health.ts';
import { Recovery } from './postgres-recovery.ts';
import { defaultTimings, type PostgresTimings, Replica } from './postgres-replica.ts';
import { Retention } from './postgres-retention.ts';
import {
  arrayOf,
  byKey,
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
  getStatement,
  listEndStatement,
  listStatement,
  obstacleStatement,
  recordStatement,
  requestCancelStatement,
  settledBeforeStatement,
  settleStatement,
  startStatement,
} from './postgres-statements.ts';
import { eachToolList, saveToolListStatement, toolListParameters } from './postgres-tool-lists.ts';
import { mayBeTakenOver } from './row.ts';
import {
  type LedgerDeps,
  LedgerRefused,
  type LedgerSettings,
  type OpenLedger,
  quotaRetryMs,
} from './settings.ts';
import { LoadedToolLists, ToolListSaving } from './tool-lists.ts';

export { openPostgresArchive } from './postgres-archive.ts';

/** Records that one list looks at. */
const listedMax = 10_000;
const closeMaxMs = 5_000;
/** How long a load of the tool lists may take, and the save of one. */
const loadMaxMs = 5_500;
const saveMaxMs = 5_000;
/** A claim that meets a record which then gives way is tried again so often. */
const claimTriesMax = 3;

interface ClaimInput {
  readonly call: RecordedCall;
  readonly status: 'received' | 'started';
}

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
  /** As many as there may be batches on their way. */
  readonly #batches: ConnectionPool;
  readonly #lists: ConnectionPool;
  readonly #lookups: ConnectionPool;
  readonly #upkeep: ConnectionPool;
  readonly #deps: LedgerDeps;
  readonly #timings: PostgresTimings;
  readonly #replica: Replica;
  readonly #retention: Retention;
  readonly #recovery: Recovery;
  readonly #health: Health;

  readonly #finding: Batcher<string, CallRecord | undefined>;
  readonly #claiming: Batcher<ClaimInput, ClaimResult>;
  readonly #starting: Batcher<Claim, boolean>;
  readonly #settling: Batcher<EndInput, boolean>;
  readonly #recording: Batcher<RecordInput, undefined>;
  readonly #batchers: readonly AnyBatcher[];
  readonly #savingToolLists: ToolListSaving;

  /** The last write under each key that has not come back; whatever has the same key waits for it. */
  readonly #writing = new Map<string, Promise<unknown>>();
  /** Ends whose statement may have been done although no answer came. Whoever tries again brings the same object. */
  readonly #endsInDoubt = new WeakSet<CallEnd>();
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
    this.#batches = connections.pool(pools.batches);
    this.#lists = connections.pool(pools.lists);
    this.#lookups = connections.pool(pools.lookups);
    this.#upkeep = connections.pool(pools.upkeep);
    this.#deps = deps;
    this.#timings = timings;

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

    this.#savingToolLists = new ToolListSaving(async (row, leftMs) => {
      await this.#asking(() => this.#lookups.query(saveToolListStatement, toolListParameters(row), leftMs));
    }, saveMaxMs);

    this.#health = new Health({
      log: deps.log,
      batchers: this.#batchers,
      probe: () => this.#replica.probe(),
    });
    this.#replica = new Replica({
      connections,
      timings,
      onUsable: () => {
        if (this.#health.usable() && this.#recovery.hasDoubts) this.#sweepAlarm.ring();
      },
      onUnusable: (error) => this.#health.unusable(describeFailure(error)),
      onCancelRequested: (id) => {
        if (deps.isHeld(id)) deps.onCancelRequested(id);
      },
    });
    this.#retention = new Retention({ pool: this.#upkeep, settings, deps });
    this.#recovery = new Recovery({
      deps,
      query: (statement, parameters) => this.#query(this.#upkeep, statement, parameters),
      numbers: () => this.#replica.numbers,
      inOrder: (key, write) => this.#inOrder(key, write),
    });
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
      this.#inBackground(this.#sweepAlarm, this.#timings.sweepMs, () => this.#recovery.round()),
      this.#inBackground(this.#retentionAlarm, this.#timings.retentionMs, () =>
        this.#retention.roundIfDue(0.9 * this.#timings.retentionMs, this.#closing.signal),
      ),
    ]);
  }

  /** One round of all that happens in the background anyway; false where another replica is at it. */
  async maintain(): Promise<boolean> {
    await this.#recovery.round();
    return this.#retention.round(this.#closing.signal);
  }

  fault(): string | undefined {
    if (this.#health.fault !== undefined) return this.#health.fault;
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
    const [row] = await this.#query<RecordRow>(this.#lookups, getStatement, [actor, id]);
    return row === undefined ? undefined : recordFromRow(row);
  }

  async list({ actor, callId, run, turn, status, before, limit }: RecordQuery): Promise<RecordList> {
    if (before !== undefined && !isStorable(before)) return [];
    const text = (value: string | undefined): string | null =>
      value === undefined ? null : encodeText(value);
    const filters = [text(callId), text(run), text(turn), status ?? null];
    const range = [actor, before ?? null];
    return this.#asking(() =>
      this.#lists.withClient(async (client) => {
        // No index serves the filters, so a list looks at so many records and no more.
        const [end] = filters.every((filter) => filter === null)
          ? []
          : await ask<readonly [id: string]>(client, listEndStatement, [...range, listedMax]);
        const values = [...range, ...filters, limit, end?.[0] ?? null];
        const rows = await ask<RecordRow>(client, listStatement, values);
        const records = rows.map(recordFromRow);
        const [, , , , , , , , , , , , , , , found = 0] = rows[0] ?? [];
        if (records.length < found) return Object.assign(records, { resumeBefore: records.at(-1)?.id });
        if (end === undefined || records.length === limit) return records;
        return Object.assign(records, { resumeBefore: end[0] });
      }),
    );
  }

  async requestCancel({ key, id }: CallRecord): Promise<void> {
    await this.#query(this.#lookups, requestCancelStatement, [key, id]);
  }

  async loadToolLists(): Promise<readonly StoredToolList[]> {
    const loaded = new LoadedToolLists(this.#deps.log);
    await this.#asking(() =>
      this.#lookups.withClient((client) => eachToolList(client, (found) => loaded.add(found)), loadMaxMs),
    );
    return loaded.lists;
  }

  async saveToolList(list: StoredToolList): Promise<void> {
    // A database that is known to be lost fails all of them at once.
    const { fault } = this.#health;
    if (fault !== undefined) throw new LedgerUnavailable(fault);
    await this.#savingToolLists.save(list);
  }

  async close(): Promise<void> {
    this.#closing.abort();
    this.#health.close();
    this.#sweepAlarm.ring();
    this.#retentionAlarm.ring();
    await Promise.all([this.#replica.stop(), this.#background]);
    try {
      if (this.#health.fault === undefined) await this.#giveUp();
    } catch (error) {
      // The lease runs out by itself then, and another replica ends what is left.
      this.#deps.log.warn('ledger.close_failed', { reason: describeFailure(error) });
    }
    const graceMs = this.#health.fault === undefined ? closeMaxMs : 0;
    this.#health.unusable('the ledger is closed');
    await this.#connections.close(graceMs);
  }

  async #giveUp(): Promise<void> {
    await within(Promise.all(this.#batchers.map((batcher) => batcher.idle())), closeMaxMs);
    await this.#recovery.giveUp();
    await this.#replica.resign();
  }

  async #inBackground(alarm: Alarm, gapMs: number, run: () => Promise<unknown>): Promise<void> {
    while (!this.#closing.signal.aborted) {
      try {
        if (this.#health.fault === undefined) await run();
      } catch (error) {
        this.#deps.log.warn('ledger.maintenance_failed', { reason: describeFailure(error) });
      }
      await alarm.sleep(gapMs);
    }
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
    const { fault } = this.#health;
    return fault === undefined ? batcher.add(input) : Promise.reject(new LedgerUnavailable(fault));
  }

  async #findAll(keys: readonly string[], leftMs: number): Promise<(CallRecord | undefined)[]> {
    const rows = await this.#batch<RecordRow>(findStatement, [arrayOf(keys, String)], leftMs);
    if (rows.length === 0) return new Array<undefined>(keys.length).fill(undefined);
    const found = new Map(rows.map((row) => [row[0], recordFromRow(row)]));
    return keys.map((key) => found.get(key));
  }

  async #claimAll(inputs: readonly ClaimInput[], leftMs: number): Promise<readonly ClaimResult[]> {
    const results = new Map<string, ClaimResult>();
    try {
      await this.#claimInto(results, inputs, leftMs);
    } catch (error) {
      // All of them fail together, also those that the database has given us.
      const given = inputs.filter(({ call }) => results.get(call.key)?.kind === 'claimed');
      this.#recovery.doubt(given.map(({ call }) => call));
      throw error;
    }
    return inputs.map(({ call }) => results.get(call.key) as ClaimResult);
  }

  async #claimInto(
    results: Map<string, ClaimResult>,
    inputs: readonly ClaimInput[],
    leftMs: number,
  ): Promise<void> {
    const untilMs = performance.now() + leftMs;
    let open = byKey(inputs, ({ call }) => call.key);
    const take = (some: readonly (readonly [string, ClaimResult])[]): void => {
      for (const [key, result] of some) results.set(key, result);
      open = open.filter(({ call }) => !results.has(call.key));
    };
    for (let tries = 0; tries < claimTriesMax; tries += 1) {
      take(await this.#tryClaims(open, untilMs - performance.now()));
      if (open.length > 0) take(await this.#explain(open, untilMs - performance.now()));
      if (open.length === 0) return;
    }
    throw new LedgerUnavailable('the record of a call changes faster than it can be claimed');
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
      if (isInDoubt(error)) this.#recovery.doubt(inputs.map(({ call }) => call));
      throw error;
    }
    const calls = new Map(inputs.map(({ call }) => [call.key, call]));
    return rows.map(([key, id, attempt, createdAtMs]) => {
      const call = calls.get(key) as RecordedCall;
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

  #query<Row extends readonly unknown[]>(
    pool: ConnectionPool,
    statement: Statement,
    parameters: readonly unknown[],
  ): Promise<readonly Row[]> {
    return this.#asking(() => pool.query<Row>(statement, parameters));
  }

  // What is not part of a batch.
  async #asking<Result>(run: () => Promise<Result>): Promise<Result> {
    const { fault } = this.#health;
    if (fault !== undefined) throw new LedgerUnavailable(fault);
    try {
      return await run();
    } catch (error) {
      this.#health.otherFailed(error);
      throw unavailable(error);
    }
  }

  async #batch<Row extends readonly unknown[]>(
    statement: Statement,
    parameters: readonly unknown[],
    leftMs: number,
  ): Promise<readonly Row[]> {
    try {
      return await this.#batches.query<Row>(statement, parameters, leftMs);
    } catch (error) {
      this.#health.batchFailed(error);
      throw error;
    }
  }
}

/**
 * Whoever reads may be as slow as they are many, and whoever cancels may wait for a row. None of them takes the
 * connections of the batches.
 */
const pools = {
  batches: {
    connectionsMax: 10,
    waitingMax: 0,
    refusal: 'too many batches at once',
    statementMaxMs: 4_000,
    givesUp: 'all',
  },
  lists: {
    connectionsMax: 2,
    waitingMax: 16,
    refusal: 'too many lists at once',
    statementMaxMs: 2_000,
    givesUp: 'one',
  },
  lookups: {
    connectionsMax: 4,
    waitingMax: 1_000,
    refusal: 'too many requests for single records at once',
    statementMaxMs: 2_000,
    givesUp: 'one',
  },
  upkeep: {
    connectionsMax: 2,
    waitingMax: 10,
    refusal: 'too much upkeep at once',
    statementMaxMs: 4_000,
    givesUp: 'one',
  },
} as const satisfies Record<string, PoolOptions>;

const leaseLost = 'this replica could not renew its lease in time and is getting a new one';

const schemaIsNewer = 'a newer version of callgate has changed the ledger: this one must be replaced';

/** What PostgreSQL can hold as an id or a key; nothing else can be in it. */
const isStorable = (text: string): boolean => !text.includes('\0');
