import type { CancelSignal } from '../core/cancellation.ts';
import type { EventLog } from '../core/events.ts';
import { limits } from '../core/limits.ts';
import type { ToolResult } from '../core/outcome.ts';
import type { Redact } from '../core/redact.ts';
import { fail, type Result } from '../core/result.ts';
import type { CancelReason } from '../dispatch/calls-in-flight.ts';
import type { Attempt, ToolCall } from '../dispatch/ports.ts';
import type { ToolDefinition, WithheldTool } from '../tools/definition.ts';
import { Bulkhead } from './bulkhead.ts';
import { cancelReason } from './cancel-reason.ts';
import { type ConnectFailure, listFailure } from './connect-failure.ts';
import { Connection } from './connection.ts';
import { Deadline } from './deadline.ts';
import { afterUnknown, type CallFault, cancelled, cancelledUnsent, notSent, unavailable } from './fault.ts';
import { ListPace } from './list-pace.ts';
import { pause, withPatience } from './patience.ts';
import { RetryBudget } from './retry-budget.ts';
import type { ServerSettings, ServerStatus } from './settings.ts';
import { shown } from './shown.ts';

/** What supervisors need from outside. */
export interface SupervisorDeps {
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

/** A connection in service, with what is known about its tool list. */
interface Link {
  readonly connection: Connection;
  readonly upSinceMs: number;
  hasCurrentList: boolean;
  isReading: boolean;
  /** Its tools may have changed since the list was asked for that is being read. */
  isOutdated: boolean;
  listFailures: number;
  listTimer: NodeJS.Timeout | undefined;
}

/** What a caller that was refused for want of a place is told to wait. */
const busyRetryMs = 1_000;
/** How often a call is sent at the most (RL-3). */
const sendingsMax = 2;
/** The longest wait before a call is sent once more; anything less is as likely, so that repeats do not come in step. */
const repeatGapMs = 100;
/** Why calls end that run when the supervisor is stopped. */
const shutDown: CancelReason = 'callgate was shut down';

/**
 * Keeps one server connected: one try at a time, growing gaps between tries that fail, and a new process or session
 * at once where one was lost. Nothing that its server does leaves this class as an error.
 */
export class Supervisor {
  readonly #settings: ServerSettings;
  readonly #deps: SupervisorDeps;
  readonly #bulkhead: Bulkhead;
  readonly #retryBudget = new RetryBudget();
  readonly #pace = new ListPace();
  /** All that is not yet closed, so that `stop` leaves nothing. */
  readonly #connections = new Set<Connection>();
  #link: Link | undefined;
  #attempt: Promise<void> | undefined;
  #retirement: Promise<void> = Promise.resolve();
  #retryTimer: NodeJS.Timeout | undefined;
  #isStopped = false;
  #hasListed = false;
  /** The last try came to nothing; a call need not wait for the next one. */
  #isFailing = false;
  /** Tries that failed, and connections that were lost soon after they had come up, in a row. */
  #failures = 0;
  #attempts = 0;
  #state: ServerStatus['state'] = 'connecting';
  #sinceMs: number;
  #failure: ConnectFailure | undefined;
  #exitCode: number | undefined;
  #stderr: readonly string[] = [];
  #nextTryAtMs: number | undefined;
  #markFirstListing = (): void => {};
  /** Settles when the server has listed its tools, or failed, for the first time. */
  readonly firstListing = new Promise<void>((resolve) => {
    this.#markFirstListing = resolve;
  });

  constructor(settings: ServerSettings, deps: SupervisorDeps) {
    this.#settings = settings;
    this.#deps = deps;
    this.#bulkhead = new Bulkhead(settings.concurrencyMax, settings.queueMax);
    this.#sinceMs = deps.nowMs();
  }

  get alias(): string {
    return this.#settings.alias;
  }

  /** Whether its tools have ever been listed. */
  get hasListed(): boolean {
    return this.#hasListed;
  }

  /** Begins to connect. */
  start(): void {
    void this.#connect();
  }

  /** Ends the connection and all waiting; for good. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    clearTimeout(this.#retryTimer);
    clearTimeout(this.#link?.listTimer);
    this.#link = undefined;
    this.#bulkhead.close();
    this.#updateState();
    await Promise.all([...this.#connections].map((connection) => this.#close(connection)));
    await this.#attempt;
    this.#markFirstListing();
  }

  /** Why the server cannot be called at present, in words for a model. */
  unavailability(): string {
    return unavailable(this.alias, this.#reason());
  }

  status(): ServerStatus {
    const { reason, detail } = this.#failure ?? {};
    const lastError = detail === undefined ? reason : `${reason}: ${detail}`;
    return {
      alias: this.alias,
      state: this.#state,
      ...(this.#failure === undefined || this.#state === 'ready' ? {} : { stage: this.#failure.stage }),
      since: this.#sinceMs,
      attempts: this.#attempts,
      ...(lastError === undefined ? {} : { lastError: this.#shown(lastError) }),
      ...(this.#exitCode === undefined ? {} : { lastExitCode: this.#exitCode }),
      ...(this.#nextTryAtMs === undefined ? {} : { nextTryAt: this.#nextTryAtMs }),
      ...(this.#link?.connection.protocolVersion === undefined
        ? {}
        : { protocolVersion: this.#link.connection.protocolVersion }),
      ...(this.#stderr.length === 0 ? {} : { stderr: this.#stderr }),
    };
  }

  /** Whether a call would be sent at once: there is a connection, and a place on it. */
  get canSendNow(): boolean {
    return this.#link !== undefined && this.#bulkhead.hasRoom;
  }

  /** Sends one `tools/call`; waiting for a place or for a new connection counts as part of its time. @throws never */
  async callTool(call: ToolCall): Promise<Attempt> {
    const deadline = new Deadline(this.#deps.monotonicMs, call.timeoutMs, call.timeoutTotalMs);
    const { answer, attempts } = await this.#inTurn(call, deadline);
    const effort = { attempts, upstreamMs: deadline.passedMs() };
    if (answer.ok) return { kind: 'answered', result: answer.value, ...effort };
    const { code, message, sent, mayHaveExecuted, details } = answer.error;
    const fault = { code, message, sent, mayHaveExecuted, ...(details === undefined ? {} : { details }) };
    return { kind: 'failed', ...fault, ...effort };
  }

  async #inTurn(call: ToolCall, deadline: Deadline): Promise<Sending> {
    if (call.signal.aborted) return unsent(this.#cancelled(call));
    if (!this.#bulkhead.tryEnter()) {
      const entry = await this.#bulkhead.enter(deadline.remainingMs(), call.signal);
      if (entry === 'full') return unsent(this.#busy());
      if (entry === 'closed') return unsent(this.#unavailable());
      if (entry === 'cancelled') return unsent(this.#cancelled(call));
      if (entry === 'timed_out') return unsent(this.#tooLate(deadline, 'all of its places were taken'));
    }
    try {
      const sending = await this.#send(call, deadline);
      const isOurDoing =
        this.#isStopped && !sending.answer.ok && sending.answer.error.code === 'connection_lost';
      return isOurDoing ? { ...sending, answer: fail(cancelled(this.alias, shutDown)) } : sending;
    } finally {
      this.#bulkhead.leave();
    }
  }

  async #send(call: ToolCall, deadline: Deadline): Promise<Sending> {
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
      const link = this.#link ?? (await this.#newLink(deadline, signal));
      if (signal.aborted) return ended(this.#cancelled(call, earlier !== undefined));
      if (link === undefined) return ended(this.#unavailable());
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
      const answer = await link.connection.callTool(call, deadline, attempts);
      if (answer.ok) return { answer, attempts };
      const { resend, ...fault } = answer.error;
      if (attempts === sendingsMax || this.#isStopped) return ended(fault);
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

  /** A connection within the time of a call, unless the server is known to be in trouble. */
  async #newLink(deadline: Deadline, signal: CancelSignal): Promise<Link | undefined> {
    if (this.#isStopped || this.#isFailing) return undefined;
    await withPatience(this.#connect(), deadline.remainingMs(), signal);
    return this.#link;
  }

  #connect(): Promise<void> {
    if (this.#isStopped) return Promise.resolve();
    clearTimeout(this.#retryTimer);
    this.#nextTryAtMs = undefined;
    this.#attempt ??= this.#tryOnce()
      .catch((error: unknown) => this.#broke(error))
      .finally(() => {
        this.#attempt = undefined;
      });
    return this.#attempt;
  }

  async #tryOnce(): Promise<void> {
    this.#attempts++;
    this.#updateState();
    await this.#retirement;
    if (this.#isStopped) return;
    const connection: Connection = new Connection(this.#settings, {
      log: this.#deps.log,
      redact: this.#deps.redact,
      onLost: (reason) => this.#lost(connection, reason),
      onToolsChanged: () => this.#toolsChanged(connection),
    });
    this.#connections.add(connection);
    const failure = await connection.open();
    if (this.#isStopped) return this.#close(connection);
    if (failure !== undefined) return this.#failed(connection, failure);

    this.#deps.log.info('server.connected', {
      server: this.alias,
      protocol_version: connection.protocolVersion,
    });
    this.#link = {
      connection,
      upSinceMs: this.#deps.monotonicMs(),
      hasCurrentList: false,
      isReading: false,
      isOutdated: false,
      listFailures: 0,
      listTimer: undefined,
    };
    this.#isFailing = false;
    this.#updateState();
    void this.#readList(this.#link);
  }

  async #failed(connection: Connection, failure: ConnectFailure): Promise<void> {
    this.#isFailing = true;
    this.#failure = failure;
    this.#failures++;
    await this.#close(connection);
    this.#deps.log.warn('server.connect_failed', {
      server: this.alias,
      stage: failure.stage,
      reason: failure.reason,
      detail: failure.detail === undefined ? undefined : this.#shown(failure.detail),
      exit_code: this.#exitCode,
      attempt: this.#attempts,
    });
    this.#tryAgainIn(this.#gapMs(this.#failures));
    this.#markFirstListing();
  }

  /** A bug of ours, met while connecting, is a trouble of this server alone too. */
  #broke(error: unknown): void {
    const detail = error instanceof Error ? error.message : String(error);
    this.#deps.log.error('server.supervisor_failed', { server: this.alias, detail: this.#shown(detail) });
    this.#isFailing = true;
    this.#failure = { stage: 'connect', reason: 'callgate itself failed while it connected' };
    this.#failures++;
    this.#tryAgainIn(this.#gapMs(this.#failures));
    this.#markFirstListing();
  }

  #lost(connection: Connection, reason: string): void {
    const link = this.#link;
    if (link?.connection !== connection || this.#isStopped) return;
    this.#link = undefined;
    clearTimeout(link.listTimer);
    const retirement = this.#retire(connection);
    // Never two processes of one server at once; old calls over HTTP are in nobody's way.
    if (this.#settings.transport.kind === 'stdio') this.#retirement = retirement;
    // Only time proves a server well: one that falls over right after each start must not be started in a circle.
    const wasUpMs = this.#msSince(link.upSinceMs);
    this.#failures = wasUpMs >= this.#settings.backoffMaxMs ? 0 : this.#failures + 1;
    this.#failure = { stage: 'connect', reason };
    this.#deps.log.warn('server.connection_lost', {
      server: this.alias,
      reason,
      was_up_ms: Math.round(wasUpMs),
    });
    this.#attempts = 0;
    // A call that comes during the gap does not wait for its end: it starts the next try itself.
    this.#tryAgainIn(this.#failures === 0 ? 0 : this.#gapMs(this.#failures));
    this.#markFirstListing();
  }

  #tryAgainIn(gapMs: number): void {
    if (this.#isStopped) return;
    this.#nextTryAtMs = this.#deps.nowMs() + gapMs;
    clearTimeout(this.#retryTimer);
    this.#retryTimer = setTimeout(() => void this.#connect(), gapMs);
    this.#updateState();
  }

  /** Doubles with each failure; random in its upper half, so that many servers do not come back in step. */
  #gapMs(failures: number): number {
    const { backoffMinMs, backoffMaxMs } = this.#settings;
    const ceilingMs = Math.min(backoffMaxMs, backoffMinMs * 2 ** Math.min(failures, 30));
    return Math.max(backoffMinMs, ceilingMs * (0.5 + Math.random() / 2));
  }

  async #close(connection: Connection): Promise<void> {
    await connection.close();
    this.#connections.delete(connection);
    this.#exitCode = connection.exitCode ?? this.#exitCode;
    this.#stderr = connection.stderrTail();
  }

  async #retire(connection: Connection): Promise<void> {
    await connection.retire();
    await this.#close(connection);
  }

  #toolsChanged(connection: Connection): void {
    const link = this.#link;
    if (link?.connection !== connection) return;
    link.isOutdated = true;
    if (!link.isReading && link.listTimer === undefined) this.#readAtPace(link);
  }

  #readAtPace(link: Link): void {
    this.#readListIn(this.#pace.waitMs(this.#deps.monotonicMs()), link);
  }

  #readListIn(waitMs: number, link: Link): void {
    link.listTimer ??= setTimeout(() => {
      link.listTimer = undefined;
      void this.#readList(link);
    }, waitMs);
  }

  async #readList(link: Link): Promise<void> {
    const startedMs = this.#deps.monotonicMs();
    const isNoticed = link.isOutdated;
    link.isReading = true;
    link.isOutdated = false;
    await this.#readListOnce(link);
    link.isReading = false;
    if (this.#link !== link) return;
    if (isNoticed) this.#pace.looked(startedMs, this.#deps.monotonicMs());
    if (link.isOutdated && link.listTimer === undefined) this.#readAtPace(link);
  }

  async #readListOnce(link: Link): Promise<void> {
    try {
      const { tools, refused } = await link.connection.listTools();
      if (this.#link !== link) return;
      // Listed is what can be called: before its tools are taken in, a call would find no such name.
      await this.#deps.onTools(this.alias, tools, refused);
      if (this.#link !== link) return;
      this.#hasListed = true;
      link.hasCurrentList = true;
      link.listFailures = 0;
      this.#failure = undefined;
      this.#exitCode = undefined;
      this.#stderr = [];
      this.#updateState();
      this.#markFirstListing();
    } catch (error) {
      if (this.#link !== link) return;
      await this.#listFailed(link, listFailure(error));
    }
  }

  /** Without any list the server is of no use yet; with one, the last good one stays and the server can be called. */
  async #listFailed(link: Link, failure: ConnectFailure): Promise<void> {
    if (!this.#hasListed) {
      this.#link = undefined;
      clearTimeout(link.listTimer);
      return this.#failed(link.connection, failure);
    }
    link.hasCurrentList = false;
    link.listFailures++;
    this.#failure = failure;
    this.#deps.log.warn('server.list_failed', {
      server: this.alias,
      reason: failure.reason,
      detail: failure.detail === undefined ? undefined : this.#shown(failure.detail),
    });
    this.#updateState();
    this.#readListIn(this.#gapMs(link.listFailures), link);
  }

  #updateState(): void {
    const state = this.#currentState();
    if (state === this.#state) return;
    this.#state = state;
    this.#sinceMs = this.#deps.nowMs();
  }

  #currentState(): ServerStatus['state'] {
    if (this.#isStopped) return 'stopped';
    if (this.#link?.hasCurrentList === true) return 'ready';
    if (this.#hasListed) return 'stale';
    return this.#nextTryAtMs === undefined ? 'connecting' : 'backoff';
  }

  #reason(): string {
    if (this.#isStopped) return 'callgate has closed its connection';
    return this.#failure?.reason ?? 'it is still starting';
  }

  #busy(): CallFault {
    const { concurrencyMax, queueMax } = this.#settings;
    const message = `the server "${this.alias}" already runs ${concurrencyMax} calls and ${queueMax} wait; the call was not sent: try again later`;
    return notSent('server_busy', message, { retry_after_ms: busyRetryMs });
  }

  #cancelled({ signal }: ToolCall, wasSent = false): CallFault {
    const reason = cancelReason(signal);
    return wasSent ? cancelled(this.alias, reason) : cancelledUnsent(this.alias, reason);
  }

  #tooLate({ limit }: Deadline, reason: string): CallFault {
    const message = `the call was not sent to the server "${this.alias}" within ${limit.ms} ms: ${reason}; try again later`;
    return notSent('timeout', message);
  }

  #unavailable(): CallFault {
    return notSent('server_unavailable', this.unavailability());
  }

  #msSince(startedMs: number): number {
    return this.#deps.monotonicMs() - startedMs;
  }

  #shown(text: string): string {
    return shown(text, this.#deps.redact, limits.foreignMessageCharsMax);
  }
}

/** The end of a call, and how often it was handed to a connection. */
interface Sending {
  readonly answer: Result<ToolResult, CallFault>;
  readonly attempts: number;
}

const unsent = (fault: CallFault): Sending => ({ answer: fail(fault), attempts: 0 });
