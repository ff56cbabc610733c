import type { ToolResult } from '../core/outcome.ts';
import type { Redact } from '../core/redact.ts';
import { fail, type Result } from '../core/result.ts';
import type { ToolCall } from '../dispatch/ports.ts';
import {
  CallChannel,
  CallTimeout,
  type GivenUpCall,
  type RequestExtras,
  suggestsDeath,
} from './call-channel.ts';
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
import { NotSentError } from './stdio/batch-writer.ts';
import { ListFault, readToolList, type ToolList } from './tool-list.ts';

/** How long a server may take to show that it is alive after an exchange that proves nothing. */
const probeMs = 5_000;

/** What the calls of a connection need from it. */
export interface ConnectionCallsDeps {
  readonly redact: Redact;
  /** A method that every server of the era answers at once. */
  readonly probe: string;
  /** The connection is of no more use, as the end of a call or of a list has shown; undefined where it is over. */
  readonly onDead: (reason: string | undefined) => void;
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
  #isProbing = false;
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
      this.#conclude(error);
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
      this.#conclude(error);
      if (error instanceof CallTimeout)
        throw new ListFault(`it did not list its tools within ${listTimeoutMs} ms`);
      throw error;
    }
  }

  /** Draws the conclusion of a failed exchange for the connection as a whole. */
  #conclude(error: unknown): void {
    const fault = httpFault(error);
    if (error instanceof NotSentError) this.#deps.onDead(undefined);
    else if (fault?.kind === 'unreachable') this.#deps.onDead(fault.message);
    else if (fault?.kind === 'cut' || fault?.kind === 'status' || suggestsDeath(error)) void this.#probe();
  }

  /**
   * Asks whether the server is still there. Some answer a session that they lost with HTTP 400 or 500: then they refuse
   * this too. And some stop answering at all.
   */
  async #probe(): Promise<void> {
    if (this.#isProbing || !this.#isOpen) return;
    this.#isProbing = true;
    try {
      await this.request(this.#deps.probe, {}, probeMs);
    } catch (error) {
      const isDead =
        error instanceof CallTimeout ? error.silence.isServerSilent : httpFault(error) !== undefined;
      if (isDead) this.#deps.onDead('the server does not answer any more');
    } finally {
      this.#isProbing = false;
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
