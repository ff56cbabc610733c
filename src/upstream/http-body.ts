import type { Dispatcher } from 'undici';
import { HttpFault } from './fault.ts';

/** Bytes of a body that is only looked at for a code. */
const errorBodyBytesMax = 65_536;

export const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null;

export const oversize = (): HttpFault => new HttpFault('oversize', 'its answer is larger than the limit');

/** Reads a body away that nobody wants, so that its connection can be used again; a long one is broken off. */
export const drain = (body: Dispatcher.ResponseData['body']): void => void body.dump().catch(() => {});

/** The media type of a response, without its parameters. */
export function mediaType({ headers }: Dispatcher.ResponseData): string | undefined {
  const type = headers['content-type'];
  return typeof type === 'string' ? type.split(';', 1)[0]?.trim().toLowerCase() : undefined;
}

/** The text of a body, read no further than its bound. */
export function readBody({ headers, body }: Dispatcher.ResponseData, bytesMax: number): Promise<string> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let bytes = 0;
    const take = (length: number): void => {
      bytes += length;
      if (bytes <= bytesMax) return;
      reject(oversize());
      body.destroy();
    };
    body.once('error', reject);
    body.on('data', (chunk: Buffer) => {
      chunks.push(chunk);
      take(chunk.length);
    });
    body.once('end', () => resolve(Buffer.concat(chunks).toString('utf8')));
    // A length that was announced spares the wait for the first byte too many.
    if (Number(headers['content-length']) > bytesMax) take(Number(headers['content-length']));
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
