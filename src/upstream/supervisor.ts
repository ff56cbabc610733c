import type { CancelSignal } from '../core/cancellation.ts';
import type { EventLog } from '../core/events.ts';
import { limits } from '../core/limits.ts';
import type { Redact } from '../core/redact.ts';
import type { ConnectFailure } from './connect-failure.ts';
import type { Connection, ConnectionDeps } from './connection.ts';
import type { Credentials } from './credentials.ts';
import { gapAfter } from './gap.ts';
import { LegacyConnection } from './legacy-connection.ts';
import { withPatience } from './patience.ts';
import type { ServerSettings } from './settings.ts';
import { shown } from './shown.ts';

/** Failures in a row after which a call cannot start the next try before its gap is over (RL-12). */
const failuresMax = 5;

/** In which era of the protocol a server was found to live; shared by all connections to it. */
export interface EraMemory {
  era: 'legacy' | 'modern';
}

/** What a supervisor needs from outside. */
export interface SupervisorDeps {
  readonly log: EventLog;
  readonly redact: Redact;
  /** Wall clock, for statuses only. */
  readonly nowMs: () => number;
  readonly monotonicMs: () => number;
  /** What the next connection shows the server beside the configured headers. */
  readonly credentials: () => Credentials | undefined;
  readonly eraMemory: EraMemory;
  /**
   * Whether the connection is to be up at all times, and tried again after a growing gap; else it is opened when it is
   * asked for, and not before the gap after a failure is over.
   */
  readonly isKept: () => boolean;
  /** What has to have ended before the first try. */
  readonly after: Promise<void> | undefined;
  readonly onUp: (connection: Connection) => void;
  /** The connection is gone that was told to be up. */
  readonly onDown: () => void;
  /** A try has come to nothing. */
  readonly onFailed: () => void;
  readonly onToolsChanged: (connection: Connection) => void;
  /** Something that shows in a status is different now. */
  readonly onChange: () => void;
}

/** What is known about the state of one connection. Times are epoch milliseconds. */
export interface ConnectionReport {
  readonly failure: ConnectFailure | undefined;
  readonly attempts: number;
  readonly exitCode: number | undefined;
  readonly nextTryAtMs: number | undefined;
  readonly protocolVersion: string | undefined;
}

/**
 * Keeps one connection to a server up: one try at a time, growing gaps between tries that fail, a new process or
 * session where one was lost. Nothing that the server does leaves this class as an error.
 */
export class Supervisor {
  readonly #settings: ServerSettings;
  readonly #deps: SupervisorDeps;
  /** All that is not yet closed, so that `stop` leaves nothing. */
  readonly #connections = new Set<Connection>();
  #connection: Connection | undefined;
  /** The one that a try is about. */
  #opening: Connection | undefined;
  #upSinceMs = 0;
  #attempt: Promise<void> | undefined;
  #retirement: Promise<void> | undefined;
  #retryTimer: NodeJS.Timeout | undefined;
  #isStopped = false;
  /** The last try came to nothing; a call need not wait for the next one. */
  #isFailing = false;
  /** Tries that failed, and connections that were lost soon after they had come up, in a row. */
  #failures = 0;
  #attempts = 0;
  #failure: ConnectFailure | undefined;
  #exitCode: number | undefined;
  #stderr: readonly string[] = [];
  /** Monotonic. */
  #notBeforeMs = 0;
  /** Wall clock. */
  #nextTryAtMs: number | undefined;

  constructor(settings: ServerSettings, deps: SupervisorDeps) {
    this.#settings = settings;
    this.#deps = deps;
    this.#retirement = deps.after;
  }

  /** The open connection; undefined while there is none. */
  get connection(): Connection | undefined {
    return this.#connection;
  }

  /** Nothing is being done to have a connection, and nothing is known to be in its way. */
  get isAtRest(): boolean {
    return this.#connection === undefined && this.#attempt === undefined && !this.#isFailing;
  }

  report(): ConnectionReport {
    return {
      failure: this.#failure,
      attempts: this.#attempts,
      exitCode: this.#exitCode,
      nextTryAtMs: this.#nextTryAtMs,
      protocolVersion: this.#connection?.protocolVersion,
    };
  }

  /** The last lines that the process wrote to stderr; those of the one before while it has not written any. */
  stderrTail(): readonly string[] {
    const lines = (this.#connection ?? this.#opening)?.stderrTail() ?? [];
    return lines.length === 0 ? this.#stderr : lines;
  }

  /** Begins to connect, unless the server is known to be in trouble and its gap is not over. */
  start(): void {
    if (!this.#isHeldBack) void this.#connect();
  }

  /** A connection, within this time; undefined where there is none by then or the server is known to be in trouble. */
  async connected(waitMaxMs: number, signal: CancelSignal): Promise<Connection | undefined> {
    if (this.#connection !== undefined) return this.#connection;
    if (this.#isHeldBack) return undefined;
    await withPatience(this.#connect(), waitMaxMs, signal);
    return this.#connection;
  }

  get #isHeldBack(): boolean {
    const isResting = this.#deps.isKept() || this.#deps.monotonicMs() < this.#notBeforeMs;
    return this.#isFailing && isResting;
  }

  /** Ends the connection until the next one is asked for; what runs on it is not waited for. */
  rest(): void {
    const connection = this.#connection;
    if (connection === undefined) return;
    this.#connection = undefined;
    this.#attempts = 0;
    this.#deps.onDown();
    this.#retireBeforeNext(connection);
    this.#deps.onChange();
  }

  /** Gives up a connection that is of no use, and tries anew after a gap. */
  async discard(connection: Connection, failure: ConnectFailure): Promise<void> {
    if (this.#connection !== connection) return;
    this.#connection = undefined;
    this.#deps.onDown();
    await this.#failed(connection, failure);
  }

  /** Nothing is the matter any more: what was noted of earlier troubles is of no interest. */
  noteHealth(): void {
    this.#failure = undefined;
    this.#exitCode = undefined;
    this.#stderr = [];
  }

  /** Something is the matter with a connection that stays in service. */
  noteTrouble(failure: ConnectFailure): void {
    this.#failure = failure;
  }

  /** Ends the connection and all waiting; for good. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    clearTimeout(this.#retryTimer);
    if (this.#connection !== undefined) this.#deps.onDown();
    this.#connection = undefined;
    await Promise.all([...this.#connections].map((connection) => this.#close(connection)));
    await Promise.all([this.#attempt, this.#retirement]);
  }

  #connect(): Promise<void> {
    if (this.#isStopped || this.#connection !== undefined) return Promise.resolve();
    if (this.#attempt !== undefined) return this.#attempt;
    clearTimeout(this.#retryTimer);
    this.#nextTryAtMs = undefined;
    this.#attempt = this.#tryOnce()
      .catch((error: unknown) => this.#broke(error))
      .finally(() => {
        this.#attempt = undefined;
      });
    return this.#attempt;
  }

  async #tryOnce(): Promise<void> {
    this.#attempts++;
    this.#deps.onChange();
    await this.#retirement;
    const { eraMemory, log } = this.#deps;
    for (;;) {
      if (this.#isStopped) return;
      const { era } = eraMemory;
      const connection = await this.#newConnection(era);
      if (this.#isStopped) return this.#close(connection);
      this.#opening = connection;
      const failure = await connection.open();
      this.#opening = undefined;
      if (this.#isStopped) return this.#close(connection);
      if (failure === undefined) {
        log.info('server.connected', {
          server: this.#settings.alias,
          protocol_version: connection.protocolVersion,
        });
        return this.#up(connection);
      }
      const isOfTheOtherEra = era === 'legacy' && failure.needsModern === true;
      // A server that has been replaced by an older one is found again by the next try.
      eraMemory.era = isOfTheOtherEra ? 'modern' : 'legacy';
      if (!isOfTheOtherEra) return this.#failed(connection, failure);
      await this.#close(connection);
    }
  }

  async #newConnection(era: EraMemory['era']): Promise<Connection> {
    const deps: ConnectionDeps = {
      log: this.#deps.log,
      redact: this.#deps.redact,
      credentials: this.#deps.credentials(),
      onLost: (reason) => this.#lost(connection, reason),
      onToolsChanged: () => {
        if (this.#connection === connection) this.#deps.onToolsChanged(connection);
      },
    };
    // The other SDK is loaded by whoever needs it.
    const connection: Connection =
      era === 'legacy'
        ? new LegacyConnection(this.#settings, deps)
        : new (await import('./modern-connection.ts')).ModernConnection(this.#settings, deps);
    this.#connections.add(connection);
    return connection;
  }

  #up(connection: Connection): void {
    this.#connection = connection;
    this.#upSinceMs = this.#deps.monotonicMs();
    this.#isFailing = false;
    this.#deps.onUp(connection);
    this.#deps.onChange();
  }

  async #failed(connection: Connection, failure: ConnectFailure): Promise<void> {
    this.#isFailing = true;
    this.#failure = failure;
    this.#failures++;
    await this.#close(connection);
    this.#deps.log.warn('server.connect_failed', {
      server: this.#settings.alias,
      stage: failure.stage,
      reason: failure.reason,
      detail: failure.detail === undefined ? undefined : this.#shown(failure.detail),
      exit_code: this.#exitCode,
      attempt: this.#attempts,
    });
    this.#tryAgainIn(gapAfter(this.#failures, this.#settings));
    this.#deps.onFailed();
  }

  /** A bug of ours, met while connecting, is a trouble of this server alone too. */
  #broke(error: unknown): void {
    const detail = error instanceof Error ? error.message : String(error);
    this.#deps.log.error('server.supervisor_failed', {
      server: this.#settings.alias,
      detail: this.#shown(detail),
    });
    this.#isFailing = true;
    this.#failure = { stage: 'connect', reason: 'callgate itself failed while it connected' };
    this.#failures++;
    this.#tryAgainIn(gapAfter(this.#failures, this.#settings));
    this.#deps.onFailed();
  }

  #lost(connection: Connection, reason: string): void {
    if (this.#connection !== connection || this.#isStopped) return;
    this.#connection = undefined;
    this.#deps.onDown();
    this.#retireBeforeNext(connection);
    // Only time proves a server well: one that falls over right after each start must not be started in a circle.
    const wasUpMs = this.#deps.monotonicMs() - this.#upSinceMs;
    this.#failures = wasUpMs >= this.#settings.backoffMaxMs ? 0 : this.#failures + 1;
    this.#failure = { stage: 'connect', reason };
    this.#deps.log.warn('server.connection_lost', {
      server: this.#settings.alias,
      reason,
      was_up_ms: Math.round(wasUpMs),
    });
    this.#attempts = 0;
    // A call that comes during the gap starts the next try itself, but not time after time where none of them lasts.
    this.#isFailing = this.#failures > failuresMax;
    this.#tryAgainIn(this.#failures === 0 ? 0 : gapAfter(this.#failures, this.#settings));
    this.#deps.onFailed();
  }

  /** Never two processes of one server at once; old calls over HTTP are in nobody's way. */
  #retireBeforeNext(connection: Connection): void {
    const retirement = connection.retire().then(() => this.#close(connection));
    if (this.#settings.transport.kind === 'stdio') this.#retirement = retirement;
  }

  #tryAgainIn(gapMs: number): void {
    if (this.#isStopped) return;
    this.#notBeforeMs = this.#deps.monotonicMs() + gapMs;
    clearTimeout(this.#retryTimer);
    if (this.#deps.isKept()) {
      this.#nextTryAtMs = this.#deps.nowMs() + gapMs;
      this.#retryTimer = setTimeout(() => void this.#connect(), gapMs);
    }
    this.#deps.onChange();
  }

  async #close(connection: Connection): Promise<void> {
    await connection.close();
    this.#connections.delete(connection);
    this.#exitCode = connection.exitCode ?? this.#exitCode;
    this.#stderr = connection.stderrTail();
  }

  #shown(text: string): string {
    return shown(text, this.#deps.redact, limits.foreignMessageCharsMax);
  }
}
