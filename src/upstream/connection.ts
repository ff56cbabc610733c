import { createRequire } from 'node:module';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import type { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js';
import type { EventLog } from '../core/events.ts';
import type { ToolResult } from '../core/outcome.ts';
import type { Redact } from '../core/redact.ts';
import { fail, type Result } from '../core/result.ts';
import type { ToolCall } from '../dispatch/ports.ts';
import { NotSentError } from './batch-writer.ts';
import { type Answer, CallChannel, CallTimeout, type GivenUpCall } from './call-channel.ts';
import { readCallResult } from './call-result.ts';
import { type ConnectFailure, connectFailure, connectTimeout } from './connect-failure.ts';
import { Deadline } from './deadline.ts';
import {
  type CallFault,
  classifyFault,
  httpFault,
  inputRequired,
  malformed,
  type Resend,
  resendAfter,
  rpcErrorCode,
} from './fault.ts';
import { floodReason } from './flood-watch.ts';
import type { HttpFetch } from './http-fetch.ts';
import type { ServerSettings } from './settings.ts';
import { StdioTransport } from './stdio-transport.ts';
import { ListFault, readToolList, type ToolList } from './tool-list.ts';

const { version } = createRequire(import.meta.url)('../../package.json') as { version: string };

/** The SDK's own timer of the handshake never fires before ours, which decides: this is the longest that a timer takes. */
const neverMs = 2 ** 31 - 1;
/** How long a server may take to hear that its session is over. */
const farewellMs = 2_000;
/** How long a server may take to show that it is alive after an exchange that proves nothing. */
const pingMs = 5_000;

/** What a connection needs besides the settings of its server. */
export interface ConnectionDeps {
  readonly log: EventLog;
  readonly redact: Redact;
  /** The connection is over, or of no more use; told once, and never after `close`. The reason is for anybody. */
  readonly onLost: (reason: string) => void;
  /** The server's tools may have changed. */
  readonly onToolsChanged: () => void;
}

/** A failed call, and whether it may be sent once more. */
export type FailedCall = CallFault & { readonly resend: Resend };

interface HttpLink {
  readonly transport: StreamableHTTPClientTransport;
  readonly fetch: HttpFetch;
}

/** One initialised link to one server. Not used again after it was lost. */
export class Connection {
  readonly #settings: ServerSettings;
  readonly #deps: ConnectionDeps;
  readonly #client: Client;
  readonly #stdio: StdioTransport | undefined;
  #http: HttpLink | undefined;
  #calls: CallChannel | undefined;
  #protocolVersion: string | undefined;
  #isOpen = false;
  #isPinging = false;
  #callsInFlight = 0;
  #onIdle: (() => void) | undefined;
  #closing: Promise<void> | undefined;

  constructor(settings: ServerSettings, deps: ConnectionDeps) {
    this.#settings = settings;
    this.#deps = deps;
    // No capabilities: each one would widen what the server may ask for (MT-17), and change its tool list.
    this.#client = new Client({ name: 'callgate', version }, { capabilities: {} });
    this.#client.onclose = () => {
      this.#calls?.end();
      this.#lose(this.#endReason());
    };
    if (settings.transport.kind === 'stdio') {
      const { command, args, env, cwd } = settings.transport;
      const { alias, resultBytesMax: messageBytesMax, stopGraceMs } = settings;
      const { log, redact } = deps;
      this.#stdio = new StdioTransport({
        alias,
        command,
        args,
        env,
        cwd,
        messageBytesMax,
        stopGraceMs,
        log,
        redact,
      });
    }
  }

  async #openHttp(href: string, headers: Readonly<Record<string, string>>): Promise<HttpLink> {
    // Loaded where it is needed: a service with nothing but stdio servers stays 10 MB smaller.
    const [{ StreamableHTTPClientTransport }, { HttpFetch }] = await Promise.all([
      import('@modelcontextprotocol/sdk/client/streamableHttp.js'),
      import('./http-fetch.ts'),
    ]);
    const url = new URL(href);
    const fetch = new HttpFetch({
      url,
      headers,
      connectTimeoutMs: this.#settings.connectTimeoutMs,
      messageBytesMax: this.#settings.resultBytesMax,
      callsMax: this.#settings.concurrencyMax,
      onMessage: (message) => transport.onmessage?.(message),
      onSessionLost: () => this.#lose('the server no longer knows the session'),
      onFlood: () => this.#lose(floodReason),
      onGap: () => this.#deps.onToolsChanged(),
    });
    const transport = new StreamableHTTPClientTransport(url, { fetch: fetch.fetch });
    return { transport, fetch };
  }

  get protocolVersion(): string | undefined {
    return this.#protocolVersion;
  }

  /** How the process of a stdio server ended; undefined while it lives, and for a server over HTTP. */
  get exitCode(): number | undefined {
    return this.#stdio?.exitStatus?.code ?? undefined;
  }

  /** The last lines that a stdio server wrote to stderr. */
  stderrTail(): readonly string[] {
    return this.#stdio?.stderrTail() ?? [];
  }

  /** Starts or reaches the server and shakes hands with it. After a failure only `close` is left to do. */
  async open(): Promise<ConnectFailure | undefined> {
    const { connectTimeoutMs } = this.#settings;
    let isTimedOut = false;
    // The handshake may not be cancelled (MCP, lifecycle); ending the connection ends the wait for it too.
    const timer = setTimeout(() => {
      isTimedOut = true;
      void this.close();
    }, connectTimeoutMs);
    try {
      const { transport } = this.#settings;
      if (transport.kind === 'http') this.#http = await this.#openHttp(transport.url, transport.headers);
      // Closed in the meantime: there was no link yet that could have been ended.
      if (this.#closing !== undefined) throw new Error('the connection was closed while it opened');
      const observed = this.#observed();
      await this.#client.connect(observed, { timeout: neverMs });
      this.#takeNotices(observed);
      this.#calls = this.#openChannel(observed);
      this.#isOpen = true;
      return undefined;
    } catch (error) {
      if (isTimedOut) return connectTimeout(connectTimeoutMs);
      const isConnectionOpen = this.#client.transport !== undefined;
      return connectFailure(error, { isConnectionOpen, exitCode: this.exitCode });
    } finally {
      clearTimeout(timer);
    }
  }

  /** The transport, with a look at the one fact of the handshake that the client keeps to itself. */
  #observed(): Transport {
    // The SDK's own class does not fit its own interface under exactOptionalPropertyTypes.
    const transport = (this.#stdio ?? this.#http?.transport) as Transport;
    const setProtocolVersion = transport.setProtocolVersion?.bind(transport);
    transport.setProtocolVersion = (negotiated) => {
      this.#protocolVersion = negotiated;
      setProtocolVersion?.(negotiated);
    };
    return transport;
  }

  #openChannel(transport: Transport): CallChannel {
    const { redact } = this.#deps;
    const stdio = this.#stdio;
    // Over HTTP the request of a call that is given up is closed, and its answer with it.
    if (stdio === undefined) return new CallChannel(transport, { redact, onLateAnswer: undefined });
    const onLateAnswer = (call: GivenUpCall, answer: Answer): void => this.#tellLate(call, answer);
    const channel = new CallChannel(transport, { redact, onLateAnswer });
    stdio.onlateanswer = (answer) => channel.takeLate(answer);
    return channel;
  }

  /**
   * Takes the one notice that matters past the client, whose way with notifications is too dear for a flood of them.
   * What came before this has no meaning yet: the first list is read after it.
   */
  #takeNotices(transport: Transport): void {
    const others = transport.onmessage;
    transport.onmessage = (message, extra) => {
      const isNotice = 'method' in message && message.method === 'notifications/tools/list_changed';
      if (isNotice) this.#deps.onToolsChanged();
      else others?.(message, extra);
    };
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
    this.#callsInFlight++;
    try {
      const result = this.#read(await this.#channel().call(call, deadline, attempts));
      return result.ok ? result : fail({ ...result.error, resend: resendAfter(undefined, result.error) });
    } catch (error) {
      this.#noteFault(error);
      const fault = this.#classify(error);
      return fail({ ...fault, resend: resendAfter(error, fault) });
    } finally {
      this.#callsInFlight--;
      if (this.#callsInFlight === 0) this.#onIdle?.();
    }
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

  /** Reads the whole tool list. @throws what went wrong, for `listFailure` */
  async listTools(): Promise<ToolList> {
    const { listTimeoutMs } = this.#settings;
    const deadline = new Deadline(monotonicMs, listTimeoutMs);
    try {
      return await readToolList(async (cursor) =>
        this.#channel().request('tools/list', cursor === undefined ? {} : { cursor }, deadline),
      );
    } catch (error) {
      if (rpcErrorCode(error) === -32601 && this.#client.getServerCapabilities()?.tools === undefined) {
        return { tools: [], refused: [] };
      }
      if (error instanceof CallTimeout)
        throw new ListFault(`it did not list its tools within ${listTimeoutMs} ms`);
      this.#noteFault(error);
      throw error;
    }
  }

  /** @throws NotSentError when the connection is over, or has not begun */
  #channel(): CallChannel {
    if (this.#isOpen && this.#calls !== undefined) return this.#calls;
    throw new NotSentError('the connection is not open');
  }

  /**
   * Closes the connection once nothing can be expected of it any more: calls over HTTP are left to their ends, so that
   * all of those that meet a lost session learn that they may be sent again (O13).
   */
  async retire(): Promise<void> {
    if (this.#http !== undefined && this.#callsInFlight > 0) {
      await new Promise<void>((resolve) => {
        this.#onIdle = resolve;
      });
    }
    await this.close();
  }

  /** Ends the connection, its process or session, and all that still waits on it. */
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    const wasOpen = this.#isOpen;
    this.#isOpen = false;
    if (this.#http !== undefined) {
      const { transport, fetch } = this.#http;
      if (wasOpen && transport.sessionId !== undefined)
        await within(farewellMs, transport.terminateSession());
      await transport.close();
      await fetch.close();
    } else await this.#stdio?.close();
  }

  #endReason(): string {
    if (this.#stdio === undefined) return 'the connection ended';
    if (this.#stdio.breach !== undefined) return this.#stdio.breach;
    return this.exitCode === undefined
      ? 'its process ended'
      : `its process ended (exit code ${this.exitCode})`;
  }

  #lose(reason: string): void {
    if (!this.#isOpen || this.#closing !== undefined) return;
    this.#isOpen = false;
    this.#deps.onLost(reason);
  }

  /** Draws the conclusion of a failed exchange for the connection as a whole. */
  #noteFault(error: unknown): void {
    const fault = httpFault(error);
    if (error instanceof NotSentError) this.#lose(this.#endReason());
    else if (fault?.kind === 'unreachable') this.#lose(fault.message);
    else if (fault?.kind === 'cut' || fault?.kind === 'status') void this.#ping();
  }

  /** Some servers answer a session that they lost with HTTP 400 or 500: then they refuse a ping too. */
  async #ping(): Promise<void> {
    if (this.#isPinging || !this.#isOpen) return;
    this.#isPinging = true;
    try {
      await this.#channel().request('ping', {}, new Deadline(monotonicMs, pingMs));
    } catch (error) {
      if (httpFault(error) !== undefined) this.#lose('the server does not answer on this session any more');
    } finally {
      this.#isPinging = false;
    }
  }
}

const monotonicMs = (): number => performance.now();

/** Whether a late answer settles what was unknown: the server's own word does, a fault seen here does not. */
const saysTheEnd = ({ code }: CallFault): boolean => code === 'server_error' || code === 'input_required';

const within = async (limitMs: number, work: Promise<unknown>): Promise<void> => {
  const patience = new AbortController();
  const limit = sleep(limitMs, undefined, { signal: patience.signal }).catch(() => {});
  await Promise.race([work.catch(() => {}), limit]);
  patience.abort();
};
