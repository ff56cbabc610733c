import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import {
  createServer,
  type IncomingMessage,
  type Server,
  type ServerResponse,
  STATUS_CODES,
} from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Duplex } from 'node:stream';
import { getRequestListener, RequestError } from '@hono/node-server';
import { problemCodes } from '../core/errors.ts';
import { createApp, responseOf } from './app.ts';
import type { Service } from './context.ts';
import { serveHot } from './hot-path.ts';
import { Problem, problemAnswer, problemBody } from './problem.ts';

const headersTimeoutMs = 10_000;
const headerBytesMax = 16_384;
const connectionsMax = 10_000;
const keepAliveMs = 65_000;
/** How long a refused connection stays open for its client to read why. */
const lingerMs = 1_000;

/** A listening socket with its server. */
export interface Listener {
  readonly url: string;
  /** Stops listening; resolves when every connection has ended. */
  close(): Promise<void>;
  /** Ends every connection once the answers that are finished are written. */
  closeNow(): void;
}

/** Serves the API. Slow and oversized requests are ended by the bounds of MT-15. @throws the error of `listen` */
export function listen(
  service: Service,
  address: { host: string; port: number },
  bounds: { bodyTimeoutMs: number },
): Promise<Listener> {
  const answerRequest = getRequestListener(createApp(service).fetch, { errorHandler: refuseUnreadable });
  const serve = (request: IncomingMessage, response: ServerResponse): void => {
    if (!serveHot(request, response, service)) void answerRequest(request, response);
  };
  const server = createServer(
    {
      headersTimeout: Math.min(headersTimeoutMs, bounds.bodyTimeoutMs),
      requestTimeout: bounds.bodyTimeoutMs,
      maxHeaderSize: headerBytesMax,
      keepAliveTimeout: keepAliveMs,
      connectionsCheckingInterval: 1_000,
      // Refused below, with words.
      requireHostHeader: false,
    },
    serve,
  );
  server.maxConnections = connectionsMax;
  // RFC 9110 10.1.1: an expectation that is not known may be ignored.
  server.on('checkExpectation', serve);
  server.on('connect', (_request, socket: Duplex) => refuse(socket, noProxy));
  const answers = new WeakMap<Duplex, ServerResponse>();
  server.on('request', (request, response) => answers.set(request.socket, response));
  const givenUp = new WeakSet<Duplex>();
  server.on('clientError', (error, socket) => {
    // The parser complains again about all that still comes on a socket that it has given up on.
    if (givenUp.has(socket)) return;
    givenUp.add(socket);
    const answer = answers.get(socket);
    // What comes after a whole request does not take its answer away: its call may have run.
    if (answer?.req.complete && !answer.closed) answer.once('close', () => socket.destroy());
    // A body that never came, for a request that was answered without it.
    else if (codeOf(error) === 'ERR_HTTP_REQUEST_TIMEOUT' && answer?.writableEnded) socket.destroy();
    else if (socket.writable && codeOf(error) !== 'ECONNRESET') refuse(socket, clientProblem(codeOf(error)));
    else socket.destroy();
  });
  return start(server, address);
}

/** Serves one text, such as metrics, at one path; for listeners apart from the API. */
export function listenPlain(
  handler: (request: IncomingMessage, response: ServerResponse) => void,
  address: { host: string; port: number },
): Promise<Listener> {
  return start(
    createServer({ maxHeaderSize: headerBytesMax, headersTimeout: headersTimeoutMs }, handler),
    address,
  );
}

async function start(server: Server, { host, port }: { host: string; port: number }): Promise<Listener> {
  server.listen(port, host);
  await once(server, 'listening');
  const bound = server.address() as AddressInfo;
  const name = bound.family === 'IPv6' ? `[${bound.address}]` : bound.address;
  return {
    url: `http://${name}:${bound.port}`,
    close: async () => {
      const closed = once(server, 'close');
      server.close();
      await closed;
    },
    // Not at once: an answer that has just been finished is still to be written.
    closeNow: () => void setImmediate(() => server.closeAllConnections()),
  };
}

/** The answer to a request whose target or Host header makes no URL. */
const refuseUnreadable = (error: unknown): Response =>
  responseOf(
    problemAnswer(
      error instanceof RequestError
        ? new Problem('invalid_request', 'the request target or the Host header is missing or cannot be read')
        : new Problem('internal', 'callgate failed on this request'),
      randomUUID(),
    ),
  );

const noProxy = new Problem('method_not_allowed', 'callgate is no proxy; send the request to it as it is', {
  headers: { allow: 'GET, HEAD, POST' },
});

const codeOf = (error: Error): unknown => (error as { code?: unknown }).code;

function clientProblem(code: unknown): Problem {
  switch (code) {
    case 'HPE_HEADER_OVERFLOW':
      return new Problem('headers_too_large', `send at most ${headerBytesMax} bytes of headers`);
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return new Problem('invalid_request', 'the request did not arrive in time; send it again, faster');
    default:
      return new Problem('invalid_request', 'this is not an HTTP/1.1 request that can be read');
  }
}

/** Answers on a socket what the HTTP parser gave up on, which never becomes a Request. */
function refuse(socket: Duplex, problem: Problem): void {
  const { status } = problemCodes[problem.code];
  const requestId = randomUUID();
  const body = problemBody(problem, requestId);
  const headers = {
    ...problem.headers,
    'content-type': 'application/problem+json',
    'content-length': String(Buffer.byteLength(body)),
    'x-request-id': requestId,
    connection: 'close',
  };
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  socket.end(`HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n${lines.join('')}\r\n${body}`);
  // Closed at once, the socket would be reset by what is still on its way, and the answer lost with it.
  socket.resume();
  setTimeout(() => socket.destroy(), lingerMs).unref();
}
