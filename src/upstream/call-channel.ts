import type { CancelSignal } from '../core/cancellation.ts';
import type { JsonObject } from '../core/json.ts';
import type { Redact } from '../core/redact.ts';
import type { ToolCall } from '../dispatch/ports.ts';
import { cancelReason } from './cancel-reason.ts';
import type { Deadline, TimeLimit } from './deadline.ts';
import { GivenUp } from './given-up.ts';
import { InFlight } from './in-flight.ts';
import { ProgressTeller, readProgress } from './progress.ts';
import {
  type Answer,
  type Params,
  type Receiver,
  type RequestLink,
  type Sender,
  TransportLink,
  type Wire,
} from './request-link.ts';

/** What a request whose time is over shows of its server. */
export interface Silence {
  /** Nothing was heard of it since the request was sent. */
  readonly isServerSilent: boolean;
  /** No request that was sent before this one still waits. */
  readonly isOldest: boolean;
}

/** The time of a request is over; the server was told that nobody waits for its answer any more. */
export class CallTimeout extends Error {
  readonly limit: TimeLimit;
  readonly silence: Silence;

  constructor(limit: TimeLimit, silence: Silence) {
    super();
    this.limit = limit;
    this.silence = silence;
  }
}

/** Whether a request ended in a way that makes one ask whether its server is still alive. */
export const suggestsDeath = (error: unknown): boolean =>
  error instanceof CallTimeout && error.silence.isServerSilent && error.silence.isOldest;

/** The call was cancelled from this side while it ran, and the server was told so. */
export class CallCancelled extends Error {
  readonly reason: string;

  constructor(signal: CancelSignal) {
    super();
    this.reason = cancelReason(signal);
  }
}

/** The connection ended before the answer. */
export class ConnectionEnded extends Error {}

/** What is still of interest about a call that was given up. */
export interface GivenUpCall {
  readonly onLateAnswer: ToolCall['onLateAnswer'];
  readonly attempts: number;
  readonly deadline: Deadline;
}

/** What protocol 2026-07-28 adds to requests, which are complete without it before. */
export interface RequestExtras {
  /** Members of each request's `_meta`. */
  readonly meta: JsonObject;
  /** Headers of the HTTP request that a call is sent with. */
  headersOf(call: ToolCall): Readonly<Record<string, string>> | undefined;
}

export interface CallChannelOptions {
  readonly redact: Redact;
  readonly extras?: RequestExtras | undefined;
  /** Takes the answer to a call that was given up; undefined where none can come any more. */
  readonly onLateAnswer: ((call: GivenUpCall, answer: Answer) => void) | undefined;
}

/** A request on its way. */
interface Pending extends Sender {
  readonly id: number;
  readonly resolve: (result: Readonly<Record<string, unknown>>) => void;
  readonly reject: (error: unknown) => void;
  readonly deadline: Deadline;
  readonly running: RunningCall | undefined;
  /** By the clock of its deadline. */
  readonly sentMs: number;
}

/** What more belongs to a `tools/call` on its way. */
interface RunningCall {
  readonly call: ToolCall;
  readonly attempts: number;
  readonly onAbort: () => void;
  progress: ProgressTeller | undefined;
}

/**
 * Sends requests beside the SDK's client, on its transport, once that has shaken hands.
 *
 * The client checks each answer against its schemas three times and keeps two timers and a signal for each request,
 * which costs more than all else that a call needs; and it tells a timeout, a lost connection and a server's own
 * error -32000 or -32001 apart by nothing. Here one entry in a table belongs to a request, and one timer to all.
 */
export class CallChannel implements Receiver {
  readonly #link: RequestLink;
  readonly #options: CallChannelOptions;
  readonly #pending = new InFlight<Pending>();
  readonly #givenUp = new GivenUp<GivenUpCall>();
  #timer: NodeJS.Timeout | undefined;
  /** When the server was heard last, by the clock of the deadlines. */
  #heardMs = Number.NEGATIVE_INFINITY;
  /** When the timer comes, by the same clock. */
  #timerMs = Number.POSITIVE_INFINITY;

  /**
   * @param wire after the client has connected it: the channel takes its messages out before the client looks. Over
   * one that is a link itself, requests and answers go past the client altogether.
   */
  constructor(wire: Wire | RequestLink, options: CallChannelOptions) {
    this.#link = 'request' in wire ? wire : new TransportLink(wire);
    this.#link.receiver = this;
    this.#options = options;
  }

  /**
   * The result of a request.
   * @throws CallTimeout, ConnectionEnded, McpError (the server's error), or whatever the transport says about a message
   * that it did not send
   */
  request(method: string, params: Params, deadline: Deadline): Promise<Readonly<Record<string, unknown>>> {
    const meta = this.#options.extras?.meta;
    const dressed = meta === undefined ? params : { ...params, _meta: meta };
    return this.#send(this.#pending.newId(), method, dressed, deadline, undefined);
  }

  /**
   * The result of a `tools/call`. Its progress is asked for, told on, and begins its time anew.
   * @param call one whose signal has not come yet
   * @param attempts how often the call has been sent, this time included
   * @throws as `request`, and CallCancelled
   */
  call(call: ToolCall, deadline: Deadline, attempts: number): Promise<Readonly<Record<string, unknown>>> {
    const id = this.#pending.newId();
    const params = {
      name: call.tool,
      arguments: call.arguments,
      _meta: { ...this.#options.extras?.meta, progressToken: id, 'callgate/call': call.id },
    };
    const onAbort = (): void => this.#giveUp(id, new CallCancelled(call.signal), 'the call was cancelled');
    call.signal.addEventListener('abort', onAbort);
    return this.#send(id, 'tools/call', params, deadline, { call, attempts, onAbort, progress: undefined });
  }

  /** The connection is over: nothing that still waits will be answered. */
  end(): void {
    this.#givenUp.clear();
    for (const { id } of this.#pending.all()) this.#take(id)?.reject(new ConnectionEnded());
  }

  takeAnswer(id: number, answer: Answer): boolean {
    const pending = this.#take(id);
    if (pending !== undefined) this.#heardMs = pending.deadline.nowMs();
    if (pending === undefined) {
      const call = this.#givenUp.take(id);
      if (call !== undefined) this.#options.onLateAnswer?.(call, answer);
      return false;
    }
    if (answer.kind === 'result') pending.resolve(answer.result);
    else pending.reject(answer.error);
    return true;
  }

  takeProgress(params: Params | undefined): void {
    const notice = readProgress(params);
    const pending = notice === undefined ? undefined : this.#pending.get(notice.token);
    if (notice === undefined || pending?.running === undefined) return;
    const { deadline, running } = pending;
    this.#heardMs = deadline.nowMs();
    deadline.beginAnew();
    running.progress ??= new ProgressTeller(this.#options.redact, running.call.onProgress);
    running.progress.take(notice, deadline.nowMs());
  }

  #send(
    id: number,
    method: string,
    params: Params,
    deadline: Deadline,
    running: RunningCall | undefined,
  ): Promise<Readonly<Record<string, unknown>>> {
    return new Promise((resolve, reject) => {
      const onUnsent = (error: unknown): void => this.#take(id)?.reject(error);
      const pending = { id, resolve, reject, deadline, running, onUnsent, sentMs: deadline.nowMs() };
      this.#pending.add(pending);
      if (deadline.endMs < this.#timerMs) this.#setTimer(deadline);
      const headers = running === undefined ? undefined : this.#options.extras?.headersOf(running.call);
      this.#link.request(id, method, params, pending, headers);
    });
  }

  #setTimer(deadline: Deadline): void {
    clearTimeout(this.#timer);
    this.#timerMs = deadline.endMs;
    this.#timer = setTimeout(this.#onTimer, deadline.remainingMs());
  }

  // Progress moves a deadline and leaves the timer alone, so that a flood of it costs no timers.
  readonly #onTimer = (): void => {
    this.#timerMs = Number.POSITIVE_INFINITY;
    const all = this.#pending.all();
    for (const pending of all) {
      const { id, deadline } = pending;
      if (deadline.remainingMs() <= 0)
        this.#giveUp(id, this.#timeoutOf(pending, all), 'the time for this call is over');
      else if (deadline.endMs < this.#timerMs) this.#setTimer(deadline);
    }
  };

  #timeoutOf({ deadline, sentMs }: Pending, all: readonly Pending[]): CallTimeout {
    const isServerSilent = this.#heardMs < sentMs;
    return new CallTimeout(deadline.limit, {
      isServerSilent,
      // A server that does one thing after another may still be at an older one.
      isOldest: all.every((other) => other.sentMs >= sentMs),
    });
  }

  #take(id: number): Pending | undefined {
    const pending = this.#pending.take(id);
    if (pending === undefined) return undefined;
    const { running } = pending;
    running?.call.signal.removeEventListener('abort', running.onAbort);
    if (this.#pending.size === 0) {
      clearTimeout(this.#timer);
      this.#timerMs = Number.POSITIVE_INFINITY;
    }
    return pending;
  }

  #giveUp(requestId: number, error: Error, reason: string): void {
    const pending = this.#take(requestId);
    if (pending === undefined) return;
    if (pending.running !== undefined && this.#options.onLateAnswer !== undefined) {
      // Nothing else of the call is kept: its arguments may be large.
      const { call, attempts } = pending.running;
      this.#givenUp.add(requestId, { onLateAnswer: call.onLateAnswer, attempts, deadline: pending.deadline });
    }
    this.#link.notify('notifications/cancelled', { requestId, reason });
    pending.reject(error);
  }
}
