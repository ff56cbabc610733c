import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';

type Json = Record<string, unknown>;

/** One POST that carries a request, with the stream that its answer belongs on. */
interface Exchange {
  readonly id: number;
  readonly args: Json;
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly stream: ServerResponse;
  readonly server: FaultSseServer;
}

const text = (value: unknown): Json => ({ content: [{ type: 'text', text: String(value) }] });
const message = (value: unknown): string =>
  `event: message\ndata: ${typeof value === 'string' ? value : JSON.stringify(value)}\n\n`;
const result = (id: unknown, value: unknown): string => message({ jsonrpc: '2.0', id, result: value });
const take = (response: ServerResponse): void => void response.writeHead(202).end('Accepted');

const tools: Readonly<Record<string, (exchange: Exchange) => void>> = {
  echo: ({ id, args, response, stream }) => {
    take(response);
    stream.write(result(id, text(args.text)));
  },
  /** Answers before it takes the request. */
  echo_first: ({ id, args, response, stream }) => {
    stream.write(result(id, text(args.text)), () => take(response));
  },
  string_id: ({ id, args, response, stream }) => {
    take(response);
    stream.write(result(String(id), text(args.text)));
  },
  headers: ({ id, request, response, stream }) => {
    take(response);
    stream.write(result(id, text(JSON.stringify(request.headers))));
  },
  never: ({ response }) => take(response),
  /** Takes the connection of the request and says nothing on it. */
  never_taken: () => {},
  status: ({ args, response }) => void response.writeHead(Number(args.status)).end('T3'),
  end_stream: ({ response, stream }) => {
    take(response);
    stream.end();
  },
  cut_stream: ({ response, stream }) => {
    take(response);
    stream.destroy();
  },
  null_result: ({ id, response, stream }) => {
    take(response);
    stream.write(result(id, null));
  },
  /** Noise, answers to nobody, a second endpoint, and then the answer. */
  noise_first: ({ id, response, stream }) => {
    take(response);
    stream.write(': comment\n\nevent: odd\ndata: x\n\nevent: endpoint\ndata: /elsewhere\n\n');
    stream.write(message('not JSON') + result(id + 1_000, text('for nobody')) + result(id, text('it')));
  },
  huge: ({ id, args, response, stream }) => {
    take(response);
    stream.write(result(id, text('x'.repeat(Number(args.bytes)))));
  },
  ping_first: ({ id, response, stream, server }) => {
    take(response);
    stream.write(message({ jsonrpc: '2.0', id: 'ping-1', method: 'ping' }));
    server.onReply = () => stream.write(result(id, text('replied')));
  },
};

export interface FaultSseServerOptions {
  /** The data of the endpoint event; none is sent when it is null. */
  readonly endpoint?: string | null;
  /** Requests with other values of `authorization` are answered with HTTP 401. */
  readonly authorization?: () => string;
  /** What the stream itself is answered with instead. */
  readonly streamStatus?: number;
}

/** A server of HTTP+SSE (protocol 2024-11-05) without the SDK, which misbehaves by the name of the tool. */
export class FaultSseServer {
  readonly #options: FaultSseServerOptions;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  readonly #streams = new Set<ServerResponse>();
  readonly #waiting: { readonly isMet: () => boolean; readonly resolve: () => void }[] = [];
  /** Requests by method and path, `GET /sse` for instance; calls by `tool:<name>`. */
  readonly counts: Record<string, number> = {};
  readonly cancelled: unknown[] = [];
  onReply: () => void = () => {};
  listed: unknown[] = Object.keys(tools).map((name) => ({ name, inputSchema: { type: 'object' } }));
  url = '';

  private constructor(options: FaultSseServerOptions) {
    this.#options = options;
    this.#server = createServer((request, response) => void this.#handle(request, response));
    this.#server.on('connection', (socket) => {
      this.#sockets.add(socket);
      socket.once('close', () => {
        this.#sockets.delete(socket);
        this.#check();
      });
    });
  }

  static async start(options: FaultSseServerOptions = {}): Promise<FaultSseServer> {
    const server = new FaultSseServer(options);
    await new Promise<void>((resolve) => server.#server.listen(0, '127.0.0.1', resolve));
    server.url = `http://127.0.0.1:${(server.#server.address() as AddressInfo).port}/sse`;
    return server;
  }

  get openSockets(): number {
    return this.#sockets.size;
  }

  get openStreams(): number {
    return this.#streams.size;
  }

  notify(method: string): void {
    for (const stream of this.#streams) stream.write(message({ jsonrpc: '2.0', method }));
  }

  /** Resolves when the condition holds; looked at after each request and each closed socket. */
  when(isMet: () => boolean): Promise<void> {
    return new Promise((resolve) => {
      this.#waiting.push({ isMet, resolve });
      this.#check();
    });
  }

  async stop(): Promise<void> {
    const closed = new Promise((resolve) => this.#server.close(resolve));
    for (const socket of this.#sockets) socket.destroy();
    await closed;
  }

  #check(): void {
    for (const waiting of this.#waiting) if (waiting.isMet()) waiting.resolve();
  }

  #count(what: string): void {
    this.counts[what] = (this.counts[what] ?? 0) + 1;
    queueMicrotask(() => this.#check());
  }

  async #handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    this.#count(`${request.method} ${request.url}`);
    const { authorization } = this.#options;
    if (authorization !== undefined && request.headers.authorization !== authorization()) {
      request.resume();
      return void response.writeHead(401).end();
    }
    if (request.method === 'GET') return this.#open(response);
    let body = '';
    for await (const chunk of request) body += chunk;
    const { id, method, params } = JSON.parse(body);
    const [stream] = this.#streams;
    if (stream === undefined) return void response.writeHead(404).end();
    if (id !== undefined && method !== undefined)
      this.#answer(method, { id, params, request, response, stream });
    else {
      if (method === 'notifications/cancelled') this.cancelled.push(params.requestId);
      this.#count(method ?? 'an answer');
      take(response);
      if (method === undefined) this.onReply();
    }
  }

  #open(response: ServerResponse): void {
    const { endpoint = '/message?session=1', streamStatus } = this.#options;
    if (streamStatus !== undefined) return void response.writeHead(streamStatus).end();
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.flushHeaders();
    this.#streams.add(response);
    response.once('close', () => {
      this.#streams.delete(response);
      this.#check();
    });
    if (endpoint !== null) response.write(`event: endpoint\ndata: ${endpoint}\n\n`);
  }

  #answer(
    method: string,
    { id, params, request, response, stream }: Omit<Exchange, 'args' | 'server'> & { readonly params: Json },
  ): void {
    const answers: Readonly<Record<string, Json>> = {
      initialize: {
        protocolVersion: '2024-11-05',
        capabilities: { tools: { listChanged: true } },
        serverInfo: { name: 'fault-sse-server', version: '1' },
      },
      ping: {},
      'tools/list': { tools: this.listed },
    };
    if (method === 'tools/call') {
      this.#count(`tool:${params.name}`);
      const exchange = { id, args: params.arguments as Json, request, response, stream, server: this };
      tools[String(params.name)]?.(exchange);
      return;
    }
    take(response);
    const answer = answers[method];
    stream.write(
      answer === undefined
        ? message({ jsonrpc: '2.0', id, error: { code: -32601, message: 'unknown method' } })
        : result(id, answer),
    );
  }
}
