import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js';
import {
  type JSONRPCErrorResponse,
  type JSONRPCMessage,
  type JSONRPCRequest,
  type JSONRPCResultResponse,
  McpError,
} from '@modelcontextprotocol/sdk/types.js';
import type { CancelSignal } from '../core/cancellation.ts';
import type { Redact } from '../core/redact.ts';
import type { ToolCall } from '../dispatch/ports.ts';
import { cancelReason } from './cancel-reason.ts';
import type { Deadline, TimeLimit } from './deadline.ts';
import { GivenUp } from './given-up.ts';
import { ProgressTeller, readProgress } from './progress.ts';

/** The time of a request is over; the server was told that nobody waits for its answer any more. */
export class CallTimeout extends Error {
  readonly limit: TimeLimit;

  constructor(limit: TimeLimit) {
    super();
    this.limit = limit;
  }
}

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

/** What a server answered to a request. */
export type Answer =
  | { readonly kind: 'result'; readonly result: Readonly<Record<string, unknown>> }
  | { readonly kind: 'error'; readonly error: McpError };

/** What is still of interest about a call that was given up. */
export interface GivenUpCall {
  readonly onLateAnswer: ToolCall['onLateAnswer'];
  readonly attempts: number;
  readonly deadline: Deadline;
}

export interface CallChannelOptions {
  readonly redact: Redact;
  /** Takes the answer to a call that was given up; undefined where none can come any more. */
  readonly onLateAnswer: ((call: GivenUpCall, answer: Answer) => void) | undefined;
}

/** A `tools/call` on its way, with what has to be undone at its end. */
interface RunningCall {
  readonly call: ToolCall;
  readonly attempts: number;
  readonly onAbort: () => void;
  progress: ProgressTeller | undefined;
}

interface Pending {
  readonly resolve: (result: Readonly<Record<string, unknown>>) => void;
  readonly reject: (error: unknown) => void;
  readonly deadline: Deadline;
  readonly running: RunningCall | undefined;
  timer: NodeJS.Timeout;
}

/** Far from the ids of the SDK's client, which counts from 0 on the same connection, and within 31 bits. */
const firstId = 1_000_000_000;

/**
 * Sends requests beside the SDK's client, on its transport, once that has shaken hands.
 *
 * The client checks each answer against its schemas three times and keeps two timers and a signal for each request,
 * which costs more than all else that a call needs; and it tells a timeout, a lost connection and a server's own
 * error -32000 or -32001 apart by nothing. Here one timer and one entry in a table belong to a request.
 */
export class CallChannel {
  readonly #transport: Transport;
  readonly #options: CallChannelOptions;
  readonly #pending = new Map<number, Pending>();
  readonly #givenUp = new GivenUp<GivenUpCall>();
  #nextId = firstId;

  /** @param transport after the client has connected it: the channel takes its messages out before the client looks */
  constructor(transport: Transport, options: CallChannelOptions) {
    this.#transport = transport;
    this.#options = options;
    const toClient = transport.onmessage;
    transport.onmessage = (message, extra) => {
      if (!this.#takes(message)) toClient?.(message, extra);
    };
  }

  /**
   * The result of a request.
   * @throws CallTimeout, ConnectionEnded, McpError (the server's error), or whatever the transport says about a message
   * that it did not send
   */
  request(
    method: string,
    params: JSONRPCRequest['params'],
    deadline: Deadline,
  ): Promise<Readonly<Record<string, unknown>>> {
    return this.#send(this.#nextId++, method, params, deadline, undefined);
  }

  /**
   * The result of a `tools/call`. Its progress is asked for, told on, and begins its time anew.
   * @param call one whose signal has not come yet
   * @param attempts how often the call has been sent, this time included
   * @throws as `request`, and CallCancelled
   */
  call(call: ToolCall, deadline: Deadline, attempts: number): Promise<Readonly<Record<string, unknown>>> {
    const id = this.#nextId++;
    const params = {
      name: call.tool,
      arguments: call.arguments,
      _meta: { progressToken: id, 'callgate/call': call.id },
    };
    const onAbort = (): void => this.#giveUp(id, new CallCancelled(call.signal), 'the call was cancelled');
    call.signal.addEventListener('abort', onAbort);
    return this.#send(id, 'tools/call', params, deadline, { call, attempts, onAbort, progress: undefined });
  }

  /** Takes an answer that the transport had not to wait for any more. */
  takeLate(message: JSONRPCMessage): void {
    if ('method' in message || typeof message.id !== 'number') return;
    const call = this.#givenUp.take(message.id);
    if (call !== undefined) this.#options.onLateAnswer?.(call, answerOf(message));
  }

  /** The connection is over: nothing that still waits will be answered. */
  end(): void {
    this.#givenUp.clear();
    for (const id of [...this.#pending.keys()]) {
      this.#take(id)?.reject(new ConnectionEnded());
    }
  }

  #send(
    id: number,
    method: string,
    params: JSONRPCRequest['params'],
    deadline: Deadline,
    running: RunningCall | undefined,
  ): Promise<Readonly<Record<string, unknown>>> {
    return new Promise((resolve, reject) => {
      const timer = this.#timer(id, deadline);
      this.#pending.set(id, { resolve, reject, deadline, running, timer });
      this.#transport
        .send({ jsonrpc: '2.0', id, method, params })
        .catch((error: unknown) => this.#take(id)?.reject(error));
    });
  }

  #timer(id: number, deadline: Deadline): NodeJS.Timeout {
    return setTimeout(this.#onTimer, deadline.remainingMs(), id);
  }

  // Progress moves the deadline and leaves the timer alone, so that a flood of it costs no timers.
  readonly #onTimer = (id: number): void => {
    const pending = this.#pending.get(id);
    if (pending === undefined) return;
    const { deadline } = pending;
    if (deadline.remainingMs() > 0) pending.timer = this.#timer(id, deadline);
    else this.#giveUp(id, new CallTimeout(deadline.limit), 'the time for this call is over');
  };

  #takes(message: JSONRPCMessage): boolean {
    if ('method' in message) {
      if (message.method !== 'notifications/progress' || 'id' in message) return false;
      this.#takeProgress(message.params);
      return true;
    }
    if (typeof message.id !== 'number' || message.id < firstId) return false;
    // Without an entry nobody waits for it.
    const pending = this.#take(message.id);
    const answer = answerOf(message);
    if (answer.kind === 'result') pending?.resolve(answer.result);
    else pending?.reject(answer.error);
    return true;
  }

  #takeProgress(params: Readonly<Record<string, unknown>> | undefined): void {
    const notice = readProgress(params);
    const pending = notice === undefined ? undefined : this.#pending.get(notice.token);
    if (notice === undefined || pending?.running === undefined) return;
    const { deadline, running } = pending;
    deadline.beginAnew();
    running.progress ??= new ProgressTeller(this.#options.redact, running.call.onProgress);
    running.progress.take(notice, deadline.nowMs());
  }

  #take(id: number): Pending | undefined {
    const pending = this.#pending.get(id);
    if (pending === undefined) return undefined;
    this.#pending.delete(id);
    clearTimeout(pending.timer);
    const { running } = pending;
    running?.call.signal.removeEventListener('abort', running.onAbort);
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
    const params = { requestId, reason };
    // Nobody waits for this; a server that does not read any more will not miss it either.
    this.#transport.send({ jsonrpc: '2.0', method: 'notifications/cancelled', params }).catch(() => {});
    pending.reject(error);
  }
}

const answerOf = (message: JSONRPCResultResponse | JSONRPCErrorResponse): Answer =>
  'result' in message
    ? { kind: 'result', result: message.result }
    : { kind: 'error', error: new McpError(message.error.code, message.error.message, message.error.data) };
