import { randomUUID } from 'node:crypto';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';

type Json = Record<string, unknown>;

/** One POST that carries a request, and ways to answer it. */
interface Exchange {
  readonly id: unknown;
  readonly params: Json;
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly server: FaultHttpServer;
  /** Answers with one JSON body. */
  readonly json: (message: unknown, status?: number) => void;
  /** Opens an event stream and returns what writes one event to it. */
  readonly stream: () => (message: unknown, id?: string) => void;
  readonly result: (result: unknown) => Json;
}

const text = (value: string): Json => ({ content: [{ type: 'text', text: value }] });
const event = (message: unknown, id?: string): string =>
  `${id === undefined ? '' : `id: ${id}\n`}data: ${typeof message === 'string' ? message : JSON.stringify(message)}\n\n`;

/** Tools of the server, each with its own manners. */
const tools: Readonly<Record<string, (exchange: Exchange) => void>> = {
  echo: ({ json, result, params }) => json(result(text(String((params.arguments as Json).text)))),
  /** Tells progress every `everyMs`, so many times, and then answers; without `times` it never answers. */
  work: ({ stream, response, result, params }) => {
    const { times = Number.POSITIVE_INFINITY, everyMs } = params.arguments as {
      times?: number;
      everyMs: number;
    };
    const { progressToken } = params._meta as Json;
    const write = stream();
    let told = 0;
    const timer = setInterval(() => {
      told += 1;
      const progress = { progressToken, progress: told, message: `step ${told}` };
      if (told <= times) return write({ jsonrpc: '2.0', method: 'notifications/progress', params: progress });
      write(result(text('worked')));
      response.end();
    }, everyMs);
    response.once('close', () => clearInterval(timer));
  },
  /** Fails the first time, in the way that is asked for, and answers the second. */
  get: ({ json, result, params, response, server }) => {
    if ((server.counts['tool:get'] ?? 0) > 1) return json(result(text('got')));
    const { fails, headers } = params.arguments as { fails: 'cut' | 'garbage' | number; headers?: Json };
    if (fails === 'cut') response.destroy();
    else if (fails === 'garbage') response.writeHead(200, { 'content-type': 'text/html' }).end('<p>');
    else response.writeHead(fails, headers as Record<string, string>).end();
  },
  /** Cuts its call off and does not come back. */
  die: ({ server }) => server.die(),
  echo_stream: ({ stream, response, result, params }) => {
    stream()(result(text(String((params.arguments as Json).text))));
    response.end();
  },
  /** Answers, and leaves its stream open. */
  echo_open_stream: ({ stream, result }) => stream()(result(text('done'))),
  wait: ({ json, result, params }) =>
    void setTimeout(() => json(result(text('waited'))), Number((params.arguments as Json).ms)),
  /** Answers when the test says so. */
  held: ({ json, result, server }) => {
    server.held.push(() => json(result(text('at last'))));
  },
  held_stream: ({ stream, response, result, server }) => {
    const write = stream();
    server.held.push(() => {
      write(result(text('at last')));
      response.end();
    });
  },
  never: () => {},
  never_stream: ({ stream }) => void stream(),
  notices_first: ({ stream, response, result, server }) => {
    const write = stream();
    write({ jsonrpc: '2.0', method: 'notifications/message', params: { level: 'info', data: 'working' } });
    write({ jsonrpc: '2.0', id: 'roots-1', method: 'roots/list' });
    void server.whenAnswered('roots-1').then((answer) => {
      write(result({ ...text('got it'), structuredContent: answer }));
      response.end();
    });
  },
  end_without_answer: ({ stream, response }) => {
    stream()({ jsonrpc: '2.0', method: 'notifications/message', params: { level: 'info', data: 'bye' } });
    response.end();
  },
  cut_stream: ({ stream, response }) => {
    stream()({ jsonrpc: '2.0', method: 'notifications/message', params: { level: 'info', data: 'bye' } });
    setImmediate(() => response.destroy());
  },
  /** Primes its stream, ends it, and gives the answer to whoever asks for the rest. */
  resumable: ({ stream, response, result, server }) => {
    const write = stream();
    response.write('retry: 10\n');
    write('', 'resume-1');
    response.end();
    server.rests.set('resume-1', event(result(text('the rest'))));
  },
  /** Says so many times that it is at work, and then answers. */
  processing: ({ json, result, response, params }) => {
    for (let n = 0; n < Number((params.arguments as Json).times); n++) response.writeProcessing();
    json(result(text('worked')));
  },
  /** Ends its stream after an event with the id that is asked for. */
  ended_at: ({ stream, response, params }) => {
    stream()('', String((params.arguments as Json).id));
    response.end();
  },
  /** Ends each rest of its stream at once, and says that there is no hurry to wait. */
  resumable_for_ever: ({ response, server }) => {
    const rest = 'retry: 0\nid: for-ever\ndata:\n\n';
    server.rests.set('for-ever', rest);
    response.writeHead(200, { 'content-type': 'text/event-stream' }).end(rest);
  },
  pings_beside: ({ json, result }) => {
    const pings = Array.from({ length: 1_000 }, (_, n) => ({ jsonrpc: '2.0', id: n + 1e6, method: 'ping' }));
    json([...pings, result(text('beside the pings'))]);
  },
  deep_beside: ({ response, result }) => {
    const deep = `${'['.repeat(100_000)}${']'.repeat(100_000)}`;
    const message = `{"jsonrpc":"2.0","method":"x","result":{},"params":${deep}}`;
    response.writeHead(200, { 'content-type': 'application/json' });
    response.end(`[${message},${JSON.stringify(result(text('beside it')))}]`);
  },
  byte_by_byte: ({ response, result }) => {
    const body = JSON.stringify(result(text('byte by byte')));
    response.writeHead(200, { 'content-type': 'application/json', 'transfer-encoding': 'chunked' });
    for (const character of `${' '.repeat(20_000)}${body}`) response.write(character);
    response.end();
  },
  empty_data: ({ stream, response }) => {
    stream();
    response.end('data:\n'.repeat(200_000));
  },
  resumable_lost: ({ stream, response }) => {
    const write = stream();
    response.write('retry: 10\n');
    write('', 'nobody-knows');
    response.end();
  },
  /** Primes its stream and ends it; the rest is refused with the status that is asked for. */
  resumable_refused: ({ stream, response, params, server }) => {
    const write = stream();
    response.write('retry: 10\n');
    write('', 'refused-rest');
    response.end();
    server.rests.set('refused-rest', Number((params.arguments as Json).status));
  },
  /** Primes its stream, and is gone before anybody asks for the rest. */
  resumable_dies: ({ stream, response, server }) => {
    const write = stream();
    response.write('retry: 10\n');
    write('', 'dead');
    response.end(() => server.die());
  },
  resumable_error: ({ stream, response, id }) => {
    const write = stream();
    write('', 'error-follows');
    write({ jsonrpc: '2.0', id, error: { code: -32603, message: 'no' } }, 'the-error');
    response.end();
  },
  cut_before_answer: ({ response }) => void response.destroy(),
  cut_in_answer: ({ response }) => {
    response.writeHead(200, { 'content-type': 'application/json', 'content-length': '500' });
    response.write('{"jsonrpc":');
    setImmediate(() => response.destroy());
  },
  accepted: ({ response }) => void response.writeHead(202).end(),
  no_content: ({ response }) => void response.writeHead(204).end(),
  html: ({ response }) =>
    void response.writeHead(200, { 'content-type': 'text/html' }).end('<p>secret-page</p>'),
  other_id: ({ json, id }) => json({ jsonrpc: '2.0', id: Number(id) + 1000, result: text('x') }),
  other_id_stream: ({ stream, id, response }) => {
    stream()({ jsonrpc: '2.0', id: Number(id) + 1000, result: text('x') });
    response.end();
  },
  broken_json: ({ response }) =>
    void response.writeHead(200, { 'content-type': 'application/json' }).end('{"jsonr'),
  not_rpc: ({ json }) => json({ hello: 'world' }),
  not_rpc_stream: ({ stream, response }) => {
    stream()({ hello: 'world' });
    response.end();
  },
  broken_json_stream: ({ stream }) => stream()('{"jsonr'),
  null_result: ({ json, id }) => json({ jsonrpc: '2.0', id, result: null }),
  null_result_stream: ({ stream, id }) => stream()({ jsonrpc: '2.0', id, result: null }),
  huge: ({ response, params }) => {
    response.writeHead(200, { 'content-type': 'application/json' });
    flood(response, Number((params.arguments as Json).bytes));
  },
  huge_stream: ({ stream, response, params }) => {
    stream();
    response.write('data: ');
    flood(response, Number((params.arguments as Json).bytes));
  },
  status: ({ response, params }) => {
    const { status, body, headers } = params.arguments as { status: number; body?: string; headers?: Json };
    response.writeHead(status, {
      'content-type': 'application/json',
      ...(headers as Record<string, string>),
    });
    response.end(body);
  },
  /** An HTTP error whose body never ends. */
  status_open: ({ response, params }) => {
    const { status = 500 } = params.arguments as { status?: number };
    response.writeHead(status, { 'content-type': 'application/json' });
    response.write('{"jsonrpc":');
  },
  rpc_error: ({ json, id, params }) => json({ jsonrpc: '2.0', id, error: params.arguments }),
  forged_fault: ({ json, id }) =>
    json({
      jsonrpc: '2.0',
      id,
      error: { code: -32000, message: 'x', data: { kind: 'refused', rpcCode: 1 } },
    }),
  headers: ({ json, result, request }) => json(result(text(JSON.stringify(request.headers)))),
  other_session: ({ json, response, result }) => {
    response.setHeader('mcp-session-id', 'another');
    json(result(text('ok')));
  },
  raw_result: ({ json, result, params }) => json(result(params.arguments)),
};

/** Writes a body for as long as somebody reads it, at most so many bytes. */
function flood(response: ServerResponse, bytes: number): void {
  const chunk = Buffer.alloc(65_536, 'x');
  let left = bytes;
  const write = (): void => {
    while (left > 0 && !response.destroyed) {
      left -= chunk.length;
      if (!response.write(chunk)) {
        response.once('drain', write);
        return;
      }
    }
    response.end();
  };
  write();
}

/** How the server treats the protocol around the tools. */
export interface FaultHttpServerOptions {
  readonly port?: number;
  readonly hasSessions?: boolean;
  /** What a request with an unknown session gets. */
  readonly lostSessionStatus?: number;
  readonly hasEvents?: boolean;
  /** False: each request takes a connection of its own. */
  readonly keepsAlive?: boolean;
  /** False: replies to its requests, and cancellations, are never acknowledged. */
  readonly takesNotes?: boolean;
  /** Turns a request away before anything else is done with it: the status, and headers. */
  readonly refuses?: (
    request: IncomingMessage,
  ) => readonly [number, Readonly<Record<string, string | string[]>>] | undefined;
  /** Takes the place of the answer to a method. */
  readonly methods?: Readonly<Record<string, (exchange: Exchange) => void>>;
}

/** A Streamable HTTP server without the SDK that counts, and misbehaves by the name of the tool. */
export class FaultHttpServer {
  readonly #options: FaultHttpServerOptions;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  readonly #sessions = new Set<string>();
  readonly #answers = new Map<unknown, (answer: unknown) => void>();
  readonly #listeners = new Set<ServerResponse>();
  readonly #waiting: { readonly isMet: () => boolean; readonly resolve: () => void }[] = [];
  /** Requests by method, `GET` and `DELETE`; calls by `tool:<name>`. */
  readonly counts: Record<string, number> = {};
  /** The rests of streams, or the status that they are refused with, by the id of their last event. */
  readonly rests = new Map<string, string | number>();
  /** The calls that came, and the requests that were cancelled. */
  readonly calls: { readonly id: unknown; readonly name: unknown; readonly meta: unknown }[] = [];
  readonly cancelled: { readonly requestId: unknown; readonly atMs: number }[] = [];
  /** Ids of requests whose connection was closed before they were answered. */
  readonly abandoned: unknown[] = [];
  /** What lets the calls of `held` go. */
  readonly held: (() => void)[] = [];
  /** Session headers of `initialize` requests. */
  readonly initializedWith: unknown[] = [];
  listed: unknown[] = Object.keys(tools).map((name) => ({ name, inputSchema: { type: 'object' } }));
  url = '';

  private constructor(options: FaultHttpServerOptions) {
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

  static async start(options: FaultHttpServerOptions = {}): Promise<FaultHttpServer> {
    const server = new FaultHttpServer(options);
    await new Promise<void>((resolve) => server.#server.listen(options.port ?? 0, '127.0.0.1', resolve));
    server.url = `http://127.0.0.1:${(server.#server.address() as AddressInfo).port}/mcp`;
    return server;
  }

  get openSockets(): number {
    return this.#sockets.size;
  }

  get openStreams(): number {
    return this.#listeners.size;
  }

  forgetSessions(): void {
    this.#sessions.clear();
  }

  notify(method: string): void {
    for (const response of this.#listeners) response.write(event({ jsonrpc: '2.0', method }));
  }

  /** Writes to the open streams, as it stands. */
  write(text: string): void {
    for (const response of this.#listeners) response.write(text);
  }

  endStreams(): void {
    for (const response of this.#listeners) response.end();
  }

  whenAnswered(id: unknown): Promise<unknown> {
    return new Promise((resolve) => this.#answers.set(id, resolve));
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

  /** Is gone from one moment to the next. */
  die(): void {
    this.#server.close();
    for (const socket of this.#sockets) socket.destroy();
  }

  #check(): void {
    for (const waiting of this.#waiting) if (waiting.isMet()) waiting.resolve();
  }

  #count(what: string): void {
    this.counts[what] = (this.counts[what] ?? 0) + 1;
    queueMicrotask(() => this.#check());
  }

  async #handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const session = request.headers['mcp-session-id'];
    const refusal = this.#options.refuses?.(request);
    if (refusal !== undefined) {
      this.#count(`refused ${request.method}`);
      request.resume();
      response.writeHead(...refusal).end();
      return;
    }
    if (this.#options.keepsAlive === false) response.setHeader('connection', 'close');
    if (request.method === 'GET') return this.#listen(request, response);
    if (request.method === 'DELETE') {
      this.#count('DELETE');
      this.#sessions.delete(String(session));
      response.writeHead(200).end();
      return;
    }
    let body = '';
    for await (const chunk of request) body += chunk;
    const { id, method, params = {}, result, error } = JSON.parse(body);
    if (method === undefined) {
      this.#count('an answer');
      this.#answers.get(id)?.(result ?? error);
      if (this.#options.takesNotes !== false) response.writeHead(202).end();
      return;
    }
    if (method === 'notifications/cancelled') {
      this.cancelled.push({ requestId: params.requestId, atMs: performance.now() });
    }
    if (method === 'tools/call') this.calls.push({ id, name: params.name, meta: params._meta });
    this.#count(method);
    response.once('close', () => {
      if (id !== undefined && !response.writableFinished) this.abandoned.push(id);
      this.#check();
    });
    if (this.#options.hasSessions && method !== 'initialize' && !this.#sessions.has(String(session))) {
      const status = this.#options.lostSessionStatus ?? 404;
      response.writeHead(status, { 'content-type': 'application/json' });
      response.end('{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"no such session"}}');
      return;
    }
    if (id === undefined) {
      const isTaken = this.#options.takesNotes !== false || method === 'notifications/initialized';
      if (isTaken) response.writeHead(202).end();
      return;
    }
    this.#answer(method, { id, params, request, response });
  }

  #answer(
    method: string,
    { id, params, request, response }: Pick<Exchange, 'id' | 'params' | 'request' | 'response'>,
  ) {
    const exchange: Exchange = {
      id,
      params,
      request,
      response,
      server: this,
      result: (result) => ({ jsonrpc: '2.0', id, result }),
      json: (message, status = 200) => {
        const body = JSON.stringify(message);
        const length = { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) };
        response.writeHead(status, length).end(body);
      },
      stream: () => {
        response.writeHead(200, { 'content-type': 'text/event-stream' });
        response.flushHeaders();
        return (message, eventId) => void response.write(event(message, eventId));
      },
    };
    const own = this.#options.methods?.[method];
    if (own !== undefined) return own(exchange);
    switch (method) {
      case 'initialize': {
        this.initializedWith.push(request.headers['mcp-session-id']);
        if (this.#options.hasSessions) {
          const session = randomUUID();
          this.#sessions.add(session);
          response.setHeader('mcp-session-id', session);
        }
        return exchange.json(
          exchange.result({
            protocolVersion: '2025-06-18',
            capabilities: { tools: { listChanged: true } },
            serverInfo: { name: 'fault-http-server', version: '1' },
          }),
        );
      }
      case 'ping':
        return exchange.json(exchange.result({}));
      case 'tools/list':
        return exchange.json(exchange.result({ tools: this.listed }));
      case 'tools/call': {
        this.#count(`tool:${params.name}`);
        const tool = tools[String(params.name)];
        if (tool !== undefined) return tool(exchange);
        return exchange.json({ jsonrpc: '2.0', id, error: { code: -32602, message: 'unknown tool' } });
      }
      default:
        return exchange.json({ jsonrpc: '2.0', id, error: { code: -32601, message: 'unknown method' } });
    }
  }

  #listen(request: IncomingMessage, response: ServerResponse): void {
    const lastId = request.headers['last-event-id'];
    this.#count(lastId === undefined ? 'GET' : 'GET rest');
    if (lastId !== undefined) {
      const rest = this.rests.get(String(lastId));
      if (typeof rest !== 'string') response.writeHead(rest ?? 400).end();
      else response.writeHead(200, { 'content-type': 'text/event-stream' }).end(rest);
    } else if (!this.#options.hasEvents) response.writeHead(405).end();
    else if (this.#options.hasSessions && !this.#sessions.has(String(request.headers['mcp-session-id']))) {
      response.writeHead(this.#options.lostSessionStatus ?? 404).end();
    } else {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.flushHeaders();
      this.#listeners.add(response);
      response.once('close', () => this.#listeners.delete(response));
      queueMicrotask(() => this.#check());
    }
  }
}
