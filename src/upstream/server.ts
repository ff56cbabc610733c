import type { CancelSignal } from '../core/cancellation.ts';
import type { EventLog } from '../core/events.ts';
import { limits } from '../core/limits.ts';
import type { ToolResult } from '../core/outcome.ts';
import type { Redact } from '../core/redact.ts';
import { fail, type Result } from '../core/result.ts';
import type { CancelReason } from '../dispatch/calls-in-flight.ts';
import type { Attempt, Caller, ToolCall } from '../dispatch/ports.ts';
import { actorText } from '../dispatch/receipt.ts';
import type { ToolDefinition, WithheldTool } from '../tools/definition.ts';
import { Breaker, type Pass } from './breaker.ts';
import { Bulkhead } from './bulkhead.ts';
import { cancelReason } from './cancel-reason.ts';
import type { ConnectFailure } from './connect-failure.ts';
import type { Connection } from './connection.ts';
import { Deadline } from './deadline.ts';
import { afterUnknown, type CallFault, cancelled, cancelledUnsent, notSent, unavailable } from './fault.ts';
import { gapAfter } from './gap.ts';
import type { ServerCredentials } from './oauth/server-credentials.ts';
import { pause } from './patience.ts';
import { type Lease, Pool } from './pool.ts';
import { RetryBudget } from './retry-budget.ts';
import type { ServerSettings, ServerStatus } from './settings.ts';
import { shown } from './shown.ts';
import { type EraMemory, Supervisor, type SupervisorDeps } from './supervisor.ts';
import { ToolListWatch } from './tool-list-watch.ts';
import { saysUnknownTool } from './unknown-tool.ts';

/** What servers need from outside. */
export interface ServerDeps {
  readonly log: EventLog;
  readonly redact: Redact;
  /** Wall clock, for statuses only. */
  readonly nowMs: () => number;
  readonly monotonicMs: () => number;
  /** Takes each good tool list, whole. */
  readonly onTools: (
    alias: string,
    tools: readonly ToolDefinition[],
    refused: readonly WithheldTool[],
  ) => void | Promise<void>;
}

/** What a caller that was refused for want of a place is told to wait. */
const busyRetryMs = 1_000;
/** How often a call is sent at the most (RL-3). */
const sendingsMax = 2;
/** The longest wait before a call is sent once more; anything less is as likely, so that repeats do not come in step. */
const repeatGapMs = 100;
/** Why calls end that run when the server is stopped. */
const shutDown: CancelReason = 'callgate was shut down';
/** Why calls end that run when their run is ended. */
const runEnded: CancelReason = 'its run was ended';

/**
 * One configured server: it finds each call a place and a connection, sends it, and keeps its tool list up to date.
 * Whatever is wrong with the server stays in here.
 */
export class Server {
  readonly #settings: ServerSettings;
  readonly #deps: ServerDeps;
  readonly #bulkhead: Bulkhead;
  readonly #breaker: Breaker;
  readonly #retryBudget = new RetryBudget();
  readonly #eraMemory: EraMemory = { era: 'legacy' };
  #credentials: ServerCredentials | undefined;
  /** The server's own connection: it lists the tools, and takes the calls of everybody where it is shared. */
  readonly #own: Supervisor;
  readonly #tools: ToolListWatch;
  /** The connections of actors or runs; undefined where everybody shares one. */
  readonly #pool: Pool | undefined;
  /** Whether its tools are known from an earlier run of callgate. */
  #isRestored = false;
  #isStopped = false;
  #callsInTurn = 0;
  #restTimer: NodeJS.Timeout | undefined;
  #state: ServerStatus['state'] = 'connecting';
  #sinceMs: number;
  #markFirstListing = (): void => {};
  /** Settles when the server has listed its tools, or failed, for the first time. */
  readonly firstListing = new Promise<void>((resolve) => {
    this.#markFirstListing = resolve;
  });

  constructor(settings: ServerSettings, deps: ServerDeps) {
    this.#settings = settings;
    this.#deps = deps;
    this.#bulkhead = new Bulkhead(settings.concurrencyMax, settings.queueMax);
    this.#breaker = new Breaker(deps.monotonicMs);
    this.#sinceMs = deps.nowMs();
    this.#tools = new ToolListWatch({
      monotonicMs: deps.monotonicMs,
      gapMs: (failures) => gapAfter(failures, settings),
      onTools: (tools, refused) => deps.onTools(this.alias, tools, refused),
      onListed: () => this.#listed(),
      onFailed: (connection, failure) => this.#listFailed(connection, failure),
    });
    this.#own = this.#supervise({
      credentials: () => this.#credentials?.own,
      isKept: () => settings.keepConnected || !this.#knowsTools,
      onUp: (connection) => this.#tools.watch(connection),
      onDown: () => this.#tools.unwatch(),
      onFailed: () => this.#markFirstListing(),
      onToolsChanged: () => this.#tools.noticed(),
    });
    if (settings.connection !== 'shared') {
      const { connectionsMax, connectionIdleMs: idleMs } = settings;
      this.#pool = new Pool({ connectionsMax, idleMs }, deps.monotonicMs, (caller, after) =>
        this.#supervise({
          isKept: () => false,
          after,
          credentials: () => this.#credentials?.forCaller(actorText(caller().actor), () => caller().token),
          onToolsChanged: () => this.#tools.noticed(),
        }),
      );
    }
  }

  #supervise(role: Pick<SupervisorDeps, 'isKept'> & Partial<SupervisorDeps>): Supervisor {
    const { log, redact, nowMs, monotonicMs } = this.#deps;
    return new Supervisor(this.#settings, {
      log,
      redact,
      nowMs,
      monotonicMs,
      eraMemory: this.#eraMemory,
      credentials: () => undefined,
      after: undefined,
      onUp: () => {},
      onDown: () => {},
      onFailed: () => {},
      onToolsChanged: () => {},
      onChange: () => this.#updateState(),
      ...role,
    });
  }

  get alias(): string {
    return this.#settings.alias;
  }

  /** Whether its tools have been listed since the start, or will not be before there is a call. */
  get hasListed(): boolean {
    return this.#tools.hasListed || this.#isIdle;
  }

  get #knowsTools(): boolean {
    return this.#isRestored || this.#tools.hasListed;
  }

  /**
   * To be told before the start, and before any call.
   * @param isRestored whether its tools are known from an earlier run of callgate
   * @param credentials undefined where the configured headers are all that the server wants
   */
  prepare(isRestored: boolean, credentials: ServerCredentials | undefined): void {
    this.#isRestored = isRestored;
    this.#credentials = credentials;
    this.#updateState();
  }

  /** Begins to connect, unless it can wait for the first call. */
  start(): void {
    if (this.#settings.keepConnected || !this.#isRestored) this.#own.start();
    else this.#markFirstListing();
  }

  /** Ends all connections and all waiting; for good. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    clearTimeout(this.#restTimer);
    this.#bulkhead.close();
    this.#updateState();
    await Promise.all([this.#own.stop(), this.#pool?.stop(shutDown), this.#credentials?.close()]);
    this.#markFirstListing();
  }

  /** Closes the connection that belongs to a run of an actor. */
  async endRun(actor: string, run: string): Promise<void> {
    if (this.#settings.connection === 'run') await this.#pool?.end(runKey(actor, run), runEnded);
  }

  /** Why the server cannot be called at present, in words for a model. */
  unavailability(): string {
    return unavailable(this.alias, this.#reason(this.#own));
  }

  status(): ServerStatus {
    const { failure, attempts, exitCode, nextTryAtMs, protocolVersion } = this.#own.report();
    const stderr = this.#own.stderrTail();
    const lastError =
      failure?.detail === undefined ? failure?.reason : `${failure.reason}: ${failure.detail}`;
    const stage = this.#isIdle ? 'idle' : failure?.stage;
    const ownConnections = this.#own.connection === undefined ? 0 : 1;
    return {
      alias: this.alias,
      state: this.#state,
      ...(stage === undefined || this.#state === 'ready' ? {} : { stage }),
      since: this.#sinceMs,
      attempts,
      ...(lastError === undefined ? {} : { lastError: this.#shown(lastError) }),
      ...(exitCode === undefined ? {} : { lastExitCode: exitCode }),
      ...(nextTryAtMs === undefined ? {} : { nextTryAt: nextTryAtMs }),
      ...(protocolVersion === undefined ? {} : { protocolVersion }),
      connections: ownConnections + (this.#pool?.connections ?? 0),
      breaker: this.#breaker.state,
      ...(stderr.length === 0 ? {} : { stderr }),
    };
  }

  /** Whether a call of this caller would be sent at once: there is a connection, and a place on it. */
  canSendNow(caller: Caller): boolean {
    const supervisor = this.#pool === undefined ? this.#own : this.#pool.peek(this.#keyOf(caller));
    return supervisor?.connection !== undefined && this.#bulkhead.hasRoom && this.#breaker.isPassable;
  }

  /** Sends one `tools/call`; waiting for a place or for a new connection counts as part of its time. @throws never */
  async callTool(call: ToolCall): Promise<Attempt> {
    const { monotonicMs } = this.#deps;
    const deadline = new Deadline(monotonicMs, call.timeoutMs, call.timeoutTotalMs);
    const startedMs = monotonicMs();
    const pass = this.#breaker.admit();
    const sending = pass === 'refused' ? unsent(this.#heldBack()) : await this.#inTurn(call, deadline);
    if (pass !== 'refused') this.#judge(sending.answer, pass, startedMs);
    const { answer, attempts } = sending;
    const effort = { attempts, upstreamMs: deadline.passedMs() };
    if (answer.ok) return { kind: 'answered', result: answer.value, ...effort };
    const { code, message, sent, mayHaveExecuted, details } = answer.error;
    const fault = { code, message, sent, mayHaveExecuted, ...(details === undefined ? {} : { details }) };
    return { kind: 'failed', ...fault, ...effort };
  }

  /** Draws the conclusion of a call for the server as a whole. */
  #judge(answer: Result<ToolResult, CallFault>, pass: Pass, startedMs: number): void {
    if (saysUnknownTool(answer)) this.#tools.noticed();
    const code = answer.ok ? undefined : answer.error.code;
    switch (code) {
      case undefined:
      case 'server_error':
      case 'input_required':
      case 'output_too_large':
        this.#breaker.succeeded();
        break;
      case 'connection_lost':
      case 'protocol_error':
        this.#breaker.failed(pass, startedMs);
        break;
      default:
        if (pass === 'probe') this.#breaker.abandoned();
    }
  }

  async #inTurn(call: ToolCall, deadline: Deadline): Promise<Sending> {
    if (call.signal.aborted) return unsent(this.#cancelled(call));
    if (!this.#bulkhead.tryEnter()) {
      const entry = await this.#bulkhead.enter(deadline.remainingMs(), call.signal);
      if (entry === 'full') return unsent(this.#busy());
      if (entry === 'closed') return unsent(this.#unavailable(this.#own));
      if (entry === 'cancelled') return unsent(this.#cancelled(call));
      if (entry === 'timed_out') return unsent(this.#tooLate(deadline, 'all of its places were taken'));
    }
    this.#callsInTurn++;
    try {
      return this.#pool === undefined
        ? await this.#sendOver(this.#own, call, deadline, () => (this.#isStopped ? shutDown : undefined))
        : await this.#sendOverPool(this.#pool, call, deadline);
    } finally {
      this.#bulkhead.leave();
      this.#callsInTurn--;
      this.#restWhenIdle();
    }
  }

  async #sendOverPool(pool: Pool, call: ToolCall, deadline: Deadline): Promise<Sending> {
    const lease: Lease | undefined = this.#isStopped
      ? undefined
      : pool.take(this.#keyOf(call.caller), call.caller);
    if (lease === undefined) return unsent(this.#isStopped ? this.#unavailable(this.#own) : this.#crowded());
    // Its tools are listed anew in a time of use, also where nobody waits for that.
    this.#own.start();
    try {
      return await this.#sendOver(lease.supervisor, call, deadline, () => lease.endReason);
    } finally {
      pool.release(lease);
    }
  }

  /** @param endReason why callgate itself has closed the connection meanwhile */
  async #sendOver(
    supervisor: Supervisor,
    call: ToolCall,
    deadline: Deadline,
    endReason: () => CancelReason | undefined,
  ): Promise<Sending> {
    const sending = await this.#send(supervisor, call, deadline, endReason);
    const reason = endReason();
    if (reason === undefined || sending.answer.ok) return sending;
    switch (sending.answer.error.code) {
      case 'connection_lost':
        return { ...sending, answer: fail(cancelled(this.alias, reason)) };
      case 'server_unavailable':
        // What callgate's own end has kept from being sent is for another replica, and no decision about the call.
        if (this.#isStopped) return sending;
        return { ...sending, answer: fail(cancelledUnsent(this.alias, reason)) };
      default:
        return sending;
    }
  }

  async #send(
    supervisor: Supervisor,
    call: ToolCall,
    deadline: Deadline,
    endReason: () => CancelReason | undefined,
  ): Promise<Sending> {
    const { signal } = call;
    this.#retryBudget.noteCall();
    let isAdmitted = call.beforeSend === undefined;
    /** How an earlier sending ended, of which nobody knows whether the tool ran. */
    let earlier: CallFault | undefined;
    let attempts = 0;
    const ended = (fault: CallFault): Sending => ({
      answer: fail(earlier === undefined ? fault : afterUnknown(earlier, fault)),
      attempts,
    });
    for (;;) {
      const connection: Connection | undefined =
        supervisor.connection ?? (await supervisor.connected(deadline.remainingMs(), signal));
      if (signal.aborted) return ended(this.#cancelled(call, earlier !== undefined));
      if (connection === undefined) return ended(this.#unavailable(supervisor));
      if (deadline.remainingMs() <= 0)
        return ended(this.#tooLate(deadline, 'there was no connection in time'));
      if (!isAdmitted) {
        const refusal = await call.beforeSend?.();
        if (refusal !== undefined) return ended({ ...refusal, sent: false, mayHaveExecuted: false });
        isAdmitted = true;
        // Much may have changed meanwhile.
        continue;
      }

      attempts++;
      const answer = await connection.callTool(call, deadline, attempts);
      if (answer.ok) return { answer, attempts };
      const { resend, ...fault } = answer.error;
      if (attempts === sendingsMax || endReason() !== undefined) return ended(fault);
      // RL-12: it was refused with its session, or never written, so one more sending is safe even for a write.
      if (resend === 'always') continue;
      if (resend === 'never' || !call.mayRepeat || !(await this.#mayRepeat(fault, deadline, signal))) {
        return ended(fault);
      }
      earlier = fault;
    }
  }

  /** Waits a little before a call is sent once more; false when there is no time, or no budget, for that (RL-3). */
  async #mayRepeat(fault: CallFault, deadline: Deadline, signal: CancelSignal): Promise<boolean> {
    const retryAfterMs = fault.details?.retry_after_ms;
    // A server that asks for more patience than this is left alone; the caller is told how long it wants.
    if (typeof retryAfterMs === 'number' && retryAfterMs > repeatGapMs) return false;
    const gapMs = Math.random() * repeatGapMs;
    if (gapMs >= deadline.remainingMs() || !this.#retryBudget.take()) return false;
    await pause(gapMs, signal);
    return true;
  }

  /** Whose connection a call takes: never anything of a token, which changes while its actor stays (MT-7). */
  #keyOf({ actor, run }: Caller): string {
    const text = actorText(actor);
    return this.#settings.connection === 'run' ? runKey(text, run ?? '') : text;
  }

  #listed(): void {
    this.#own.noteHealth();
    this.#updateState();
    this.#markFirstListing();
    this.#restAfterListing();
  }

  /** Without any list the server is of no use yet; with one, the last good one stays and the server can be called. */
  #listFailed(connection: Connection, failure: ConnectFailure): void {
    if (!this.#knowsTools) {
      void this.#own.discard(connection, failure);
      return;
    }
    this.#own.noteTrouble(failure);
    this.#deps.log.warn('server.list_failed', {
      server: this.alias,
      reason: failure.reason,
      detail: failure.detail === undefined ? undefined : this.#shown(failure.detail),
    });
    this.#updateState();
    this.#markFirstListing();
    this.#restAfterListing();
  }

  /** A list that is read again is no use of the connection. */
  #restAfterListing(): void {
    if (this.#restTimer === undefined) this.#restWhenIdle();
  }

  /** Closes a connection that is not to be kept once nothing was to be done on it for a while. */
  #restWhenIdle(): void {
    if (this.#settings.keepConnected || this.#callsInTurn > 0 || this.#isStopped) return;
    clearTimeout(this.#restTimer);
    this.#restTimer = setTimeout(() => {
      this.#restTimer = undefined;
      if (this.#callsInTurn === 0 && this.#knowsTools) this.#own.rest();
    }, this.#settings.connectionIdleMs);
    this.#restTimer.unref();
  }

  get #isIdle(): boolean {
    const mayRest = !this.#settings.keepConnected && this.#knowsTools;
    return mayRest && this.#own.isAtRest && !this.#isStopped;
  }

  #updateState(): void {
    const state = this.#currentState();
    if (state === this.#state) return;
    this.#state = state;
    this.#sinceMs = this.#deps.nowMs();
  }

  #currentState(): ServerStatus['state'] {
    if (this.#isStopped) return 'stopped';
    if (this.#tools.isCurrent) return 'ready';
    if (this.#knowsTools) return 'stale';
    return this.#own.report().nextTryAtMs === undefined ? 'connecting' : 'backoff';
  }

  #reason(supervisor: Supervisor): string {
    if (this.#isStopped) return 'callgate has closed its connection';
    return supervisor.report().failure?.reason ?? 'it is still starting';
  }

  #busy(): CallFault {
    const { concurrencyMax, queueMax } = this.#settings;
    const message = `the server "${this.alias}" already runs ${concurrencyMax} calls and ${queueMax} wait; the call was not sent: try again later`;
    return notSent('server_busy', message, { retry_after_ms: busyRetryMs });
  }

  #crowded(): CallFault {
    const message = `all ${this.#settings.connectionsMax} connections to the server "${this.alias}" are in use for other callers; the call was not sent: try again later`;
    return notSent('server_busy', message, { retry_after_ms: busyRetryMs });
  }

  #heldBack(): CallFault {
    const message = unavailable(
      this.alias,
      'its last calls have all failed, and it is left alone for a while',
    );
    return notSent('server_unavailable', message, { retry_after_ms: this.#breaker.waitMs });
  }

  #cancelled({ signal }: ToolCall, wasSent = false): CallFault {
    const reason = cancelReason(signal);
    return wasSent ? cancelled(this.alias, reason) : cancelledUnsent(this.alias, reason);
  }

  #tooLate({ limit }: Deadline, reason: string): CallFault {
    const message = `the call was not sent to the server "${this.alias}" within ${limit.ms} ms: ${reason}; try again later`;
    return notSent('timeout', message);
  }

  #unavailable(supervisor: Supervisor): CallFault {
    return notSent('server_unavailable', unavailable(this.alias, this.#reason(supervisor)));
  }

  #shown(text: string): string {
    return shown(text, this.#deps.redact, limits.foreignMessageCharsMax);
  }
}

const runKey = (actor: string, run: string): string => JSON.stringify([actor, run]);

/** The end of a call, and how often it was handed to a connection. */
interface Sending {
  readonly answer: Result<ToolResult, CallFault>;
  readonly attempts: number;
}

const unsent = (fault: CallFault): Sending => ({ answer: fail(fault), attempts: 0 });
