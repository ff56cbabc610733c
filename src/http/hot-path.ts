import type { IncomingMessage, ServerResponse } from 'node:http';
import { answer, routes } from './app.ts';
import type { Service } from './context.ts';
import type { IncomingRequest, Route } from './exchange.ts';

/** The routes that calls come in by. */
const hotRoutes: ReadonlyMap<string, Route> = new Map(
  routes.filter(({ method }) => method === 'POST').map(({ path, route }) => [path, route]),
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
  const route = hotRoutes.get(query === -1 ? url : url.slice(0, query));
  if (route === undefined) return false;
  void answer(new NodeRequest(incoming), service, route).then(({ status, headers: answered, body }) => {
    answered['content-length'] = String(body === null ? 0 : Buffer.byteLength(body));
    outgoing.writeHead(status, answered).end(body);
  });
  return true;
}

/** Node's request as a route sees it. */
class NodeRequest implements IncomingRequest {
  readonly #incoming: IncomingMessage;

  constructor(incoming: IncomingMessage) {
    this.#incoming = incoming;
  }

  /** The headers, by itself. */
  get headers(): this {
    return this;
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
