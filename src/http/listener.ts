import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { getRequestListener } from '@hono/node-server';
import type { Hono } from 'hono';
import { Problem, problemBody } from './problem.ts';

const headersTimeoutMs = 10_000;
const headerBytesMax = 16_384;
const connectionsMax = 10_000;
const keepAliveMs = 65_000;

/** A listening socket with its server. */
export interface Listener {
  readonly url: string;
  /** Stops listening and waits for the requests in work; idle connections are closed at once. */
  close(): Promise<void>;
  /** Ends every connection, whatever is going on in it. */
  closeNow(): void;
}

/** Serves the app. Slow and oversized requests are ended by the bounds of MT-15. @throws the error of `listen` */
export function listen(
  app: Hono,
  address: { host: string; port: number },
  bounds: { bodyTimeoutMs: number },
): Promise<Listener> {
  const server = createServer(
    {
      headersTimeout: headersTimeoutMs,
      requestTimeout: bounds.bodyTimeoutMs,
      maxHeaderSize: headerBytesMax,
      keepAliveTimeout: keepAliveMs,
      connectionsCheckingInterval: 1_000,
    },
    getRequestListener(app.fetch, { overrideGlobalObjects: true }),
  );
  server.maxConnections = connectionsMax;
  server.on('clientError', refuseRawRequest);
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
      server.closeIdleConnections();
      await closed;
    },
    closeNow: () => server.closeAllConnections(),
  };
}

// What the HTTP parser refuses never becomes a Request; its answer is written by hand.
function refuseRawRequest(error: Error & { code?: string }, socket: Socket): void {
  if (!socket.writable || error.code === 'ECONNRESET') {
    socket.destroy();
    return;
  }
  const [statusLine, problem] =
    error.code === 'HPE_HEADER_OVERFLOW'
      ? [
          '431 Request Header Fields Too Large',
          new Problem('headers_too_large', `send at most ${headerBytesMax} bytes of headers`),
        ]
      : error.code === 'ERR_HTTP_REQUEST_TIMEOUT'
        ? [
            '400 Bad Request',
            new Problem('invalid_request', 'the request did not arrive in time; send it again, faster'),
          ]
        : [
            '400 Bad Request',
            new Problem('invalid_request', 'this is not an HTTP/1.1 request that can be read'),
          ];
  const body = problemBody(problem, '');
  socket.end(
    `HTTP/1.1 ${statusLine}\r\nContent-Type: application/problem+json\r\nContent-Length: ${Buffer.byteLength(body)}\r\n` +
      `Connection: close\r\n\r\n${body}`,
  );
}
