import type { ToolResult } from '../core/outcome.ts';
import type { Redact } from '../core/redact.ts';
import { fail, type Result } from '../core/result.ts';
import type { ToolCall } from '../dispatch/ports.ts';
import { NotSentError } from './batch-writer.ts';
import { CallChannel, CallTimeout, type GivenUpCall, type RequestExtras } from './call-channel.ts';
import { readCallResult } from './call-result.ts';
import type { FailedCall } from './connection.ts';
import { Deadline } from './deadline.ts';
import {
  type CallFault,
  classifyFault,
  httpFault,
  inputRequired,
  malformed,
  resendAfter,
  rpcErrorCode,
} from './fault.ts';
import type { Answer, Wire } from './request-link.ts';
import type { ServerSettings } from './settings.ts';
import { ListFault, readToolList, type ToolList } from './tool-list.ts';

/** What the calls of a connection need from it. */
export interface ConnectionCallsDeps {
  readonly redact: Redact;
  /** Told of each error that a call or a list ended with, before anybody else. */
  readonly onFault: (error: unknown) => void;
}

/** How the requests of a connection differ from those of others. */
export interface ChannelSettings {
  /** Whether a call that was given up may be answered: over HTTP its request is closed, and its answer with it. */
  readonly canAnswerLate: boolean;
  readonly extras?: RequestExtras | undefined;
}

/** The calls and lists of one connection, the same in every era: how they are sent, and what their ends mean. */
export class ConnectionCalls {
  readonly #settings: ServerSettings;
  readonly #deps: ConnectionCallsDeps;
  #channel: CallChannel | undefined;
  #isOpen = false;
  #inFlight = 0;
  #onIdle: (() => void) | undefined;

  constructor(settings: ServerSettings, deps: ConnectionCallsDeps) {
    this.#settings = settings;
    this.#deps = deps;
  }

  /** From now on requests can be sent. */
  open(wire: Wire, { canAnswerLate, extras }: ChannelSettings): void {
    const { redact } = this.#deps;
    const onLateAnswer = canAnswerLate
      ? (call: GivenUpCall, answer: Answer): void => this.#tellLate(call, answer)
      : undefined;
    this.#channel = new CallChannel(wire, { redact, onLateAnswer, extras });
    this.#isOpen = true;
  }

  /** No request is sent any more; what was sent may still be answered. */
  shut(): void {
    this.#isOpen = false;
  }

  /** The connection is over, and nothing that still waits will be answered. */
  end(): void {
    this.shut();
    this.#channel?.end();
  }

  /** Resolves when no call is under way. */
  async idle(): Promise<void> {
    if (this.#inFlight === 0) return;
    await new Promise<void>((resolve) => {
      this.#onIdle = resolve;
    });
  }

  /** The result of a request. @throws as `CallChannel.request`, and NotSentError where the connection is not open */
  request(
    method: string,
    params: Readonly<Record<string, unknown>>,
    timeoutMs: number,
  ): Promise<Readonly<Record<string, unknown>>> {
    return this.#open().request(method, params, new Deadline(monotonicMs, timeoutMs));
  }

  /**
   * Asks whether the server is still there: false where the request is refused, or nothing at all is heard meanwhile.
   * @param method one that every server of the era answers
   */
  async isAlive(method: string, timeoutMs: number): Promise<boolean> {
    try {
      await this.request(method, {}, timeoutMs);
      return true;
    } catch (error) {
      return error instanceof CallTimeout ? !error.silence.isServerSilent : httpFault(error) === undefined;
    }
  }

  /**
   * Sends one `tools/call`, whose signal has not come yet. @throws never
   * @param attempts how often it has been sent, this time included
   */
  async callTool(
    call: ToolCall,
    deadline: Deadline,
    attempts: number,
  ): Promise<Result<ToolResult, FailedCall>> {
    this.#inFlight++;
    try {
      const result = this.#read(await this.#open().call(call, deadline, attempts));
      return result.ok ? result : fail({ ...result.error, resend: resendAfter(undefined, result.error) });
    } catch (error) {
      this.#deps.onFault(error);
      const fault = this.#classify(error);
      return fail({ ...fault, resend: resendAfter(error, fault) });
    } finally {
      this.#inFlight--;
      if (this.#inFlight === 0) this.#onIdle?.();
    }
  }

  /**
   * Reads the whole tool list.
   * @param hasTools whether the server says that it has tools
   * @throws what went wrong, for `listFailure`
   */
  async listTools(hasTools: boolean): Promise<ToolList> {
    const { listTimeoutMs } = this.#settings;
    const deadline = new Deadline(monotonicMs, listTimeoutMs);
    try {
      return await readToolList(async (cursor) =>
        this.#open().request('tools/list', cursor === undefined ? {} : { cursor }, deadline),
      );
    } catch (error) {
      if (rpcErrorCode(error) === -32601 && !hasTools) return { tools: [], refused: [] };
      this.#deps.onFault(error);
      if (error instanceof CallTimeout)
        throw new ListFault(`it did not list its tools within ${listTimeoutMs} ms`);
      throw error;
    }
  }

  /** @throws NotSentError when the connection is over, or has not begun */
  #open(): CallChannel {
    if (this.#isOpen && this.#channel !== undefined) return this.#channel;
    throw new NotSentError('the connection is not open');
  }

  #read(answer: Readonly<Record<string, unknown>>): Result<ToolResult, CallFault> {
    const { alias } = this.#settings;
    const result = readCallResult(answer);
    if (result.ok) return result;
    return fail(
      result.error.kind === 'input_required' ? inputRequired(alias) : malformed(alias, result.error.reason),
    );
  }

  #classify(error: unknown): CallFault {
    return classifyFault(error, { alias: this.#settings.alias, redact: this.#deps.redact });
  }

  /** Tells what became of a call after all, where the late answer says that. */
  #tellLate({ onLateAnswer, attempts, deadline }: GivenUpCall, answer: Answer): void {
    const result = answer.kind === 'result' ? this.#read(answer.result) : fail(this.#classify(answer.error));
    const effort = { attempts, upstreamMs: deadline.passedMs() };
    if (result.ok) onLateAnswer({ kind: 'answered', result: result.value, ...effort });
    else if (saysTheEnd(result.error)) onLateAnswer({ kind: 'failed', ...result.error, ...effort });
  }
}

const monotonicMs = (): number => performance.now();

/** Whether a late answer settles what was unknown: the server's own word does, a fault seen here does not. */
const saysTheEnd = ({ code }: CallFault): boolean => code === 'server_error' || code === 'input_required';
