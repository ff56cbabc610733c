import { createRequire } from 'node:module';
import { Client, type DiscoverResult, type Transport as SdkTransport } from '@modelcontextprotocol/client';
import type { JsonObject } from '../core/json.ts';
import type { ToolResult } from '../core/outcome.ts';
import type { Result } from '../core/result.ts';
import type { ToolCall } from '../dispatch/ports.ts';
import type { WithheldTool } from '../tools/definition.ts';
import { CallTimeout, ConnectionEnded } from './call-channel.ts';
import { type ConnectFailure, connectFailure, connectTimeout } from './connect-failure.ts';
import type { Connection, ConnectionDeps, FailedCall } from './connection.ts';
import { ConnectionCalls } from './connection-calls.ts';
import type { Deadline } from './deadline.ts';
import { floodReason } from './flood-watch.ts';
import type { ModernHttpTransport } from './http/modern-http-transport.ts';
import { mirroredHeaders, mirrorFault } from './mirrored-headers.ts';
import type { ServerSettings } from './settings.ts';
import { NotSentError } from './stdio/batch-writer.ts';
import { type StdioTransport, stdioTransportOf } from './stdio/stdio-transport.ts';
import type { ToolList } from './tool-list.ts';
import { followToolNotices } from './tool-notices.ts';

const { version } = createRequire(import.meta.url)('../../package.json') as { version: string };

const revision = '2026-07-28';
const clientInfo = { name: 'callgate', version };
/** What every request says of its sender. No capabilities: each one would widen what the server may ask for (MT-17). */
const sender: JsonObject = {
  'io.modelcontextprotocol/protocolVersion': revision,
  'io.modelcontextprotocol/clientInfo': clientInfo,
  'io.modelcontextprotocol/clientCapabilities': {},
};

/**
 * A connection to a server of protocol 2026-07-28, over the SDK 2.x: no handshake but the question who is there, no
 * session, and a subscription for what changes.
 */
export class ModernConnection implements Connection {
  readonly #settings: ServerSettings;
  readonly #deps: ConnectionDeps;
  readonly #calls: ConnectionCalls;
  readonly #stdio: StdioTransport | undefined;
  readonly #ended = new AbortController();
  #http: ModernHttpTransport | undefined;
  #client: Client | undefined;
  #isOpen = false;
  #closing: Promise<void> | undefined;

  constructor(settings: ServerSettings, deps: ConnectionDeps) {
    this.#settings = settings;
    this.#deps = deps;
    this.#calls = new ConnectionCalls(settings, {
      redact: deps.redact,
      probe: 'server/discover',
      onDead: (reason) => this.#lose(reason ?? this.#endReason()),
    });
    this.#stdio = stdioTransportOf(settings, deps);
  }

  get protocolVersion(): string | undefined {
    return this.#client?.getNegotiatedProtocolVersion();
  }

  /** How the process of a stdio server ended; undefined while it lives, and for a server over HTTP. */
  get exitCode(): number | undefined {
    return this.#stdio?.exitStatus?.code ?? undefined;
  }

  /** The last lines that a stdio server wrote to stderr. */
  stderrTail(): readonly string[] {
    return this.#stdio?.stderrTail() ?? [];
  }

  /** Starts or reaches the server and asks it who it is. After a failure only `close` is left to do. */
  async open(): Promise<ConnectFailure | undefined> {
    const { connectTimeoutMs, transport } = this.#settings;
    try {
      if (transport.kind !== 'stdio') this.#http = await this.#openHttp(transport.url, transport.headers);
      const link = this.#stdio ?? this.#http;
      // Closed in the meantime: there was no link yet that could have been ended.
      if (link === undefined || this.#closing !== undefined)
        throw new NotSentError('the connection was closed');
      const client = new Client(clientInfo, { capabilities: {} });
      const clientSide = await this.#start(link);
      // Asked past the client, whose own way of asking cannot tell a refusal from a server that is not there.
      const discover = await this.#calls.request('server/discover', {}, connectTimeoutMs);
      await client.connect(clientSide, {
        prior: { kind: 'modern', discover: discover as unknown as DiscoverResult },
      });
      this.#client = client;
      this.#isOpen = true;
      if (client.getServerCapabilities()?.tools?.listChanged === true) this.#follow(client);
      return undefined;
    } catch (error) {
      if (error instanceof CallTimeout) return connectTimeout(connectTimeoutMs, 'server/discover');
      const isConnectionOpen = !(error instanceof ConnectionEnded || error instanceof NotSentError);
      return connectFailure(error, { isConnectionOpen, exitCode: this.exitCode, opening: 'server/discover' });
    }
  }

  async #openHttp(url: string, headers: Readonly<Record<string, string>>): Promise<ModernHttpTransport> {
    // Loaded where it is needed: a service with nothing but stdio servers stays smaller.
    const { ModernHttpTransport } = await import('./http/modern-http-transport.ts');
    return new ModernHttpTransport(revision, {
      url: new URL(url),
      headers,
      credentials: this.#deps.credentials,
      connectTimeoutMs: this.#settings.connectTimeoutMs,
      messageBytesMax: this.#settings.resultBytesMax,
      callsMax: this.#settings.concurrencyMax,
      onFlood: () => this.#lose(floodReason),
    });
  }

  /** Starts the transport and gives back the side of it that is the client's, which is all but calls and lists. */
  async #start(transport: StdioTransport | ModernHttpTransport): Promise<SdkTransport> {
    const clientSide: SdkTransport = {
      start: () => Promise.resolve(),
      send: (message) => transport.send(message),
      close: () => transport.close(),
    };
    transport.onmessage = (message) => {
      if (!('method' in message)) clientSide.onmessage?.(message);
      // The client would leave a question of the server, which this era does not have, without an answer (MT-17).
      else if ('id' in message) transport.send(refusal(message.id)).catch(() => {});
      else if (message.method === 'notifications/tools/list_changed') this.#deps.onToolsChanged();
      else clientSide.onmessage?.(message);
    };
    transport.onclose = () => {
      this.#calls.end();
      this.#lose(this.#endReason());
      clientSide.onclose?.();
    };
    const isHttp = this.#http !== undefined;
    this.#calls.open(transport, {
      canAnswerLate: !isHttp,
      extras: {
        meta: sender,
        headersOf: ({ inputSchema, arguments: args }: ToolCall) =>
          isHttp ? mirroredHeaders(inputSchema, args) : undefined,
      },
    });
    await transport.start();
    return clientSide;
  }

  #follow(client: Client): void {
    void followToolNotices(client, {
      confirmMs: this.#settings.listTimeoutMs,
      signal: this.#ended.signal,
      onGap: () => this.#deps.onToolsChanged(),
    });
  }

  /**
   * Sends one `tools/call`, whose signal has not come yet. @throws never
   * @param attempts how often it has been sent, this time included
   */
  callTool(call: ToolCall, deadline: Deadline, attempts: number): Promise<Result<ToolResult, FailedCall>> {
    return this.#calls.callTool(call, deadline, attempts);
  }

  /** Reads the whole tool list. @throws what went wrong, for `listFailure` */
  async listTools(): Promise<ToolList> {
    const list = await this.#calls.listTools(this.#client?.getServerCapabilities()?.tools !== undefined);
    return this.#http === undefined ? list : withoutFaultyMirrors(list);
  }

  /** Closes the connection once nothing can be expected of it any more: calls over HTTP are left to their ends (O13). */
  async retire(): Promise<void> {
    if (this.#http !== undefined) await this.#calls.idle();
    await this.close();
  }

  /** Ends the connection, its process, and all that still waits on it. */
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    this.#end();
    await (this.#stdio ?? this.#http)?.close();
  }

  /** Nothing begins on this connection any more. */
  #end(): void {
    this.#isOpen = false;
    this.#calls.shut();
    this.#ended.abort();
  }

  #endReason(): string {
    return this.#stdio?.endReason ?? 'the connection ended';
  }

  #lose(reason: string): void {
    if (!this.#isOpen || this.#closing !== undefined) return;
    this.#end();
    this.#deps.onLost(reason);
  }
}

const refusal = (id: string | number) => ({
  jsonrpc: '2.0' as const,
  id,
  error: { code: -32601, message: 'callgate takes no requests' },
});

/** Over HTTP a tool with faulty annotations must not be offered (MT-16). */
function withoutFaultyMirrors({ tools, refused }: ToolList): ToolList {
  const faults = tools.map((tool) => ({ tool: tool.name, reason: mirrorFault(tool.inputSchema) }));
  const faulty = faults.filter((fault): fault is WithheldTool => fault.reason !== undefined);
  if (faulty.length === 0) return { tools, refused };
  return {
    tools: tools.filter((_, index) => faults[index]?.reason === undefined),
    refused: [...refused, ...faulty],
  };
}
