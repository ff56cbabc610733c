import type { IncomingMessage, ServerResponse } from 'node:http';
import { pipeline, Readable } from 'node:stream';
import { answer, type Endpoint, endpoints } from './app.ts';
import type { Service } from './context.ts';
import { type Answer, type IncomingRequest, isStreamed } from './exchange.ts';

/** The routes that calls come in by. */
const hotEndpoints: ReadonlyMap<string, Endpoint> = new Map(
  endpoints.filter(({ takesCalls }) => takesCalls).map((endpoint) => [endpoint.path, endpoint]),
);

/**
 * Serves a call straight from Node's request and says whether it does. Making a web `Request` and `Response` of it and
 * routing them takes a sixth of what a call costs. Whatever is unusual goes the way of all other requests.
 */
export function serveHot(incoming: IncomingMessage, outgoing: ServerResponse, service: Service): boolean {
  const { url = '', method, headers } = incoming;
  if (method !== 'POST' || headers['content-length'] === undefined || headers.host === undefined)
    return false;
  const query = url.indexOf('?');
  const endpoint = hotEndpoints.get(query === -1 ? url : url.slice(0, query));
  if (endpoint === undefined) return false;
  void answer(new NodeRequest(incoming, outgoing), service, endpoint).then((answered) =>
    write(answered, outgoing),
  );
  return true;
}

function write({ status, headers, body }: Answer, outgoing: ServerResponse): void {
  if (isStreamed(body)) {
    outgoing.writeHead(status, headers);
    // A reader who has gone ends the stream, which is told of that by itself.
    pipeline(Readable.fromWeb(body.stream), outgoing, () => {});
    return;
  }
  headers['content-length'] = String(body === null ? 0 : Buffer.byteLength(body));
  outgoing.writeHead(status, headers).end(body);
}

/** Node's request as a route sees it. */
class NodeRequest implements IncomingRequest {
  readonly #incoming: IncomingMessage;
  readonly #outgoing: ServerResponse;

  constructor(incoming: IncomingMessage, outgoing: ServerResponse) {
    this.#incoming = incoming;
    this.#outgoing = outgoing;
  }

  /** The headers, by itself. */
  get headers(): this {
    return this;
  }

  /** The signal, by itself. */
  get signal(): this {
    return this;
  }

  get aborted(): boolean {
    return this.#outgoing.destroyed;
  }

  addEventListener(_type: 'abort', listener: () => void): void {
    const outgoing = this.#outgoing;
    outgoing.on('close', () => {
      if (!outgoing.writableFinished) listener();
    });
  }

  get(name: string): string | null {
    const { headers, rawHeaders } = this.#incoming;
    if (name === 'authorization') return allOf(name, rawHeaders);
    const value = headers[name];
    return typeof value === 'string' ? value : null;
  }

  get method(): string {
    return this.#incoming.method ?? '';
  }

  get url(): string {
    return this.#incoming.url ?? '';
  }

  get body(): IncomingMessage {
    return this.#incoming;
  }

  arrayBuffer(): Promise<Uint8Array> {
    const incoming = this.#incoming;
    return new Promise((resolve, reject) => {
      const chunks: Uint8Array[] = [];
      incoming.on('data', (chunk: Uint8Array) => chunks.push(chunk));
      incoming.on('end', () =>
        resolve(chunks.length === 1 ? (chunks[0] as Uint8Array) : Buffer.concat(chunks)),
      );
      incoming.on('error', reject);
    });
  }
}

// Of several Authorization headers Node keeps the first; two credentials are to be seen as two (AUTH-20).
function allOf(name: string, rawHeaders: readonly string[]): string | null {
  let value: string | null = null;
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const other = rawHeaders[index] as string;
    if (other.length !== name.length || other.toLowerCase() !== name) continue;
    const part = rawHeaders[index + 1] as string;
    value = value === null ? part : `${value}, ${part}`;
  }
  return value;
}
