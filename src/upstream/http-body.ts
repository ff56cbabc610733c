import type { Dispatcher } from 'undici';
import { HttpFault } from './fault.ts';
import { readFairly } from './read-fairly.ts';

/** Bytes of a body that is only looked at for a code. */
const errorBodyBytesMax = 65_536;
/** How long a body that nobody wants may take to its end. */
const drainMs = 1_000;

export const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null;

export const oversize = (): HttpFault => new HttpFault('oversize', 'its answer is larger than the limit');

/** Reads a body away that nobody wants, so that its connection can be used again; a long or slow one is broken off. */
export const drain = (body: Dispatcher.ResponseData['body']): void =>
  void body.dump({ limit: errorBodyBytesMax, signal: AbortSignal.timeout(drainMs) }).catch(() => {});

/** The media type of a response, without its parameters. */
export function mediaType({ headers }: Dispatcher.ResponseData): string | undefined {
  const type = headers['content-type'];
  return typeof type === 'string' ? type.split(';', 1)[0]?.trim().toLowerCase() : undefined;
}

/** The longest time that a server is taken at its word for. */
const retryAfterMsMax = 86_400_000;

/** How long the server wants to be left alone (RFC 9110, 10.2.3): so many seconds, or until a date. */
export function retryAfterMs({ headers }: Pick<Dispatcher.ResponseData, 'headers'>): number | undefined {
  const value = headers['retry-after'];
  if (typeof value !== 'string') return undefined;
  const ms = /^\d+$/.test(value) ? 1_000 * Number(value) : Date.parse(value) - Date.now();
  return Number.isNaN(ms) ? undefined : Math.min(Math.max(ms, 0), retryAfterMsMax);
}

/** The text of a body, read no further than its bound. */
export function readBody({ headers, body }: Dispatcher.ResponseData, bytesMax: number): Promise<string> {
  return new Promise((resolve, reject) => {
    // One buffer that doubles: a list of chunks of one byte each would take a hundred times their room.
    let gathered = Buffer.alloc(0);
    let bytes = 0;
    const refuse = (): void => {
      reject(oversize());
      body.destroy();
    };
    body.once('error', reject);
    readFairly(body, (chunk) => {
      const total = bytes + chunk.length;
      if (total > bytesMax) return refuse();
      if (total > gathered.length) {
        const grown = Buffer.allocUnsafeSlow(Math.min(bytesMax, Math.max(total, 2 * gathered.length)));
        gathered.copy(grown, 0, 0, bytes);
        gathered = grown;
      }
      chunk.copy(gathered, bytes);
      bytes = total;
    });
    body.once('end', () => resolve(gathered.toString('utf8', 0, bytes)));
    // A length that was announced spares the wait for the first byte too many.
    if (Number(headers['content-length']) > bytesMax) refuse();
  });
}

/** The code of a JSON-RPC error in the body of an HTTP error, if there is one. */
export async function errorCodeIn(response: Dispatcher.ResponseData): Promise<number | undefined> {
  if (mediaType(response) !== 'application/json') {
    drain(response.body);
    return undefined;
  }
  try {
    const message: unknown = JSON.parse(await readBody(response, errorBodyBytesMax));
    const error = isRecord(message) && isRecord(message.error) ? message.error : {};
    return Number.isSafeInteger(error.code) ? (error.code as number) : undefined;
  } catch {
    return undefined;
  }
}
