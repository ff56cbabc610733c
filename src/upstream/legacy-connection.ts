import { createRequire } from 'node:module';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js';
import type { ToolResult } from '../core/outcome.ts';
import type { Result } from '../core/result.ts';
import type { ToolCall } from '../dispatch/ports.ts';
import { type ConnectFailure, connectFailure, connectTimeout } from './connect-failure.ts';
import type { Connection, ConnectionDeps, FailedCall } from './connection.ts';
import { ConnectionCalls } from './connection-calls.ts';
import type { Deadline } from './deadline.ts';
import { floodReason } from './flood-watch.ts';
import type { HttpTransport } from './http/http-transport.ts';
import type { SseTransport } from './http/sse-transport.ts';
import type { ServerSettings, TransportSettings } from './settings.ts';
import { type StdioTransport, stdioTransportOf } from './stdio/stdio-transport.ts';
import type { ToolList } from './tool-list.ts';

const { version } = createRequire(import.meta.url)('../../package.json') as { version: string };

/** The SDK's own timer of the handshake never fires before ours, which decides: this is the longest that a timer takes. */
const neverMs = 2 ** 31 - 1;

type RemoteSettings = Exclude<TransportSettings, { readonly kind: 'stdio' }>;

/** A connection in the era of `initialize` (protocol 2024-11-05 to 2025-11-25), over the SDK 1.x. */
export class LegacyConnection implements Connection {
  readonly #settings: ServerSettings;
  readonly #deps: ConnectionDeps;
  readonly #client: Client;
  readonly #calls: ConnectionCalls;
  readonly #stdio: StdioTransport | undefined;
  #remote: HttpTransport | SseTransport | undefined;
  #protocolVersion: string | undefined;
  #isOpen = false;
  #closing: Promise<void> | undefined;

  constructor(settings: ServerSettings, deps: ConnectionDeps) {
    this.#settings = settings;
    this.#deps = deps;
    // No capabilities: each one would widen what the server may ask for (MT-17), and change its tool list.
    this.#client = new Client({ name: 'callgate', version }, { capabilities: {} });
    this.#calls = new ConnectionCalls(settings, {
      redact: deps.redact,
      probe: 'ping',
      onDead: (reason) => this.#lose(reason ?? this.#endReason()),
    });
    this.#client.onclose = () => {
      this.#calls.end();
      this.#lose(this.#endReason());
    };
    this.#stdio = stdioTransportOf(settings, deps);
  }

  async #openRemote({ kind, url, headers }: RemoteSettings): Promise<HttpTransport | SseTransport> {
    const options = {
      url: new URL(url),
      headers,
      credentials: this.#deps.credentials,
      connectTimeoutMs: this.#settings.connectTimeoutMs,
      messageBytesMax: this.#settings.resultBytesMax,
      callsMax: this.#settings.concurrencyMax,
      onSessionLost: () => this.#lose('the server no longer knows the session'),
      onFlood: () => this.#lose(floodReason),
      onGap: () => this.#deps.onToolsChanged(),
    };
    // Loaded where it is needed: a service with nothing but stdio servers stays smaller.
    if (kind === 'sse') return new (await import('./http/sse-transport.ts')).SseTransport(options);
    return new (await import('./http/http-transport.ts')).HttpTransport(options);
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
      if (transport.kind !== 'stdio') this.#remote = await this.#openRemote(transport);
      // Closed in the meantime: there was no link yet that could have been ended.
      if (this.#closing !== undefined) throw new Error('the connection was closed while it opened');
      const observed = this.#observed();
      await this.#client.connect(observed, { timeout: neverMs });
      this.#takeNotices(observed);
      this.#calls.open(observed, { canAnswerLate: this.#stdio !== undefined });
      this.#isOpen = true;
      return undefined;
    } catch (error) {
      if (isTimedOut) return connectTimeout(connectTimeoutMs);
      // The client ends a connection over HTTP itself when it does not like the answer.
      const isConnectionOpen = this.#stdio === undefined || this.#client.transport !== undefined;
      return connectFailure(error, { isConnectionOpen, exitCode: this.exitCode });
    } finally {
      clearTimeout(timer);
    }
  }

  /** The transport, with a look at the one fact of the handshake that the client keeps to itself. */
  #observed(): Transport {
    const transport = (this.#stdio ?? this.#remote) as Transport;
    const setProtocolVersion = transport.setProtocolVersion?.bind(transport);
    transport.setProtocolVersion = (negotiated) => {
      this.#protocolVersion = negotiated;
      setProtocolVersion?.(negotiated);
    };
    return transport;
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
  callTool(call: ToolCall, deadline: Deadline, attempts: number): Promise<Result<ToolResult, FailedCall>> {
    return this.#calls.callTool(call, deadline, attempts);
  }

  /** Reads the whole tool list. @throws what went wrong, for `listFailure` */
  listTools(): Promise<ToolList> {
    return this.#calls.listTools(this.#client.getServerCapabilities()?.tools !== undefined);
  }

  /**
   * Closes the connection once nothing can be expected of it any more: calls over HTTP are left to their ends, so that
   * all of those that meet a lost session learn that they may be sent again (O13).
   */
  async retire(): Promise<void> {
    if (this.#remote !== undefined) await this.#calls.idle();
    await this.close();
  }

  /** Ends the connection, its process or session, and all that still waits on it. */
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    const wasOpen = this.#isOpen;
    this.#shut();
    if (this.#remote !== undefined) {
      if (wasOpen && 'endSession' in this.#remote) await this.#remote.endSession();
      await this.#remote.close();
    } else await this.#stdio?.close();
  }

  /** Nothing begins on this connection any more. */
  #shut(): void {
    this.#isOpen = false;
    this.#calls.shut();
  }

  #endReason(): string {
    return this.#stdio?.endReason ?? 'the connection ended';
  }

  #lose(reason: string): void {
    if (!this.#isOpen || this.#closing !== undefined) return;
    this.#shut();
    this.#deps.onLost(reason);
  }
}
