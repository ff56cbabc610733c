import type { IncomingHttpHeaders } from 'node:http';
import { isObject } from '../../core/json.ts';
import { HttpFault } from '../fault.ts';
import { type EventHandlers, EventStream, EventTooLarge, type ServerEvent } from './event-stream.ts';
import type { BodyReader, ResponseHead } from './http-response.ts';

/** Bytes of a body that is only looked at for a code, or that nobody wants. */
const errorBodyBytesMax = 65_536;

export const oversize = (): HttpFault => new HttpFault('oversize', 'its answer is larger than the limit');

/** The media type of a response, without its parameters. */
export function mediaType({ headers }: ResponseHead): string | undefined {
  const type = headers['content-type'];
  return typeof type === 'string' ? type.split(';', 1)[0]?.trim().toLowerCase() : undefined;
}

/** The longest time that a server is taken at its word for. */
const retryAfterMsMax = 86_400_000;

/** How long the server wants to be left alone (RFC 9110, 10.2.3): so many seconds, or until a date. */
export function retryAfterMs(value: string | string[] | undefined): number | undefined {
  if (typeof value !== 'string') return undefined;
  const ms = /^\d+$/.test(value) ? 1_000 * Number(value) : Date.parse(value) - Date.now();
  return Number.isNaN(ms) ? undefined : Math.min(Math.max(ms, 0), retryAfterMsMax);
}

/** Gathers a body, up to its bound. */
export class BodyText {
  readonly #bytesMax: number;
  #gathered: Buffer | undefined;
  #bytes = 0;

  /** @throws HttpFault when the length that the headers announce is over the bound */
  constructor(headers: IncomingHttpHeaders, bytesMax: number) {
    this.#bytesMax = bytesMax;
    // A length that was announced spares the wait for the first byte too many.
    if (Number(headers['content-length']) > bytesMax) throw oversize();
  }

  /** @throws HttpFault when the body is over the bound */
  take(chunk: Buffer): void {
    const total = this.#bytes + chunk.length;
    if (total > this.#bytesMax) throw oversize();
    if (this.#gathered === undefined) this.#gathered = chunk;
    else {
      // One buffer that doubles: a list of chunks of one byte each would take a hundred times their room.
      if (total > this.#gathered.length || this.#gathered.length === this.#bytes) {
        const grown = Buffer.allocUnsafeSlow(
          Math.min(this.#bytesMax, Math.max(total, 2 * this.#gathered.length)),
        );
        this.#gathered.copy(grown, 0, 0, this.#bytes);
        this.#gathered = grown;
      }
      chunk.copy(this.#gathered, this.#bytes);
    }
    this.#bytes = total;
  }

  /** All that was taken. */
  text(): string {
    return this.#gathered?.toString('utf8', 0, this.#bytes) ?? '';
  }
}

/** Reads away, within bounds, a body that nobody wants, so that its connection can be used again. */
export function discarding<Value>(value: Value): BodyReader<Value> {
  let bytes = 0;
  return {
    take(chunk) {
      bytes += chunk.length;
      if (bytes > errorBodyBytesMax) throw oversize();
    },
    end: () => value,
  };
}

/** Looks in the body of an HTTP error for the code of a JSON-RPC error, and for nothing else (MT-13). */
export function errorCodeReader(
  head: ResponseHead,
  toFault: (rpcCode: number | undefined) => HttpFault,
): BodyReader<never> {
  let body: BodyText;
  try {
    body = new BodyText(head.headers, errorBodyBytesMax);
  } catch {
    throw toFault(undefined);
  }
  return {
    take(chunk) {
      try {
        body.take(chunk);
      } catch {
        throw toFault(undefined);
      }
    },
    end() {
      throw toFault(errorCodeOf(body.text()));
    },
    broken() {
      throw toFault(undefined);
    },
  };
}

function errorCodeOf(text: string): number | undefined {
  try {
    const message: unknown = JSON.parse(text);
    const error = isObject(message) && isObject(message.error) ? message.error : {};
    return Number.isSafeInteger(error.code) ? (error.code as number) : undefined;
  } catch {
    return undefined;
  }
}

/** Ids of events that can be sent back in a header; what follows on others cannot be asked for. */
const sendableId = /^[\x21-\x7e](?:[\x20-\x7e]{0,1022}[\x21-\x7e])?$/;

/** How an event stream ended. A stream that breaks has ended too. */
export interface StreamEnd {
  readonly kind: 'ended';
  readonly lastId: string | undefined;
  readonly retryMs: number | undefined;
}

/**
 * Reads an event stream to its end. A fault that `onEvent` throws breaks it off, as an event over the bound does where
 * there is no `onOversize`.
 */
export function eventReader(bytesMax: number, handlers: EventHandlers): BodyReader<StreamEnd> {
  let lastId: string | undefined;
  let retryMs: number | undefined;
  const onEvent = (event: ServerEvent): void => {
    if (event.id !== undefined && sendableId.test(event.id)) lastId = event.id;
    retryMs = event.retryMs ?? retryMs;
    if (event.data === '') handlers.onNothing?.();
    else handlers.onEvent(event);
  };
  const stream = new EventStream(bytesMax, { ...handlers, onEvent });
  const end = (): StreamEnd => ({ kind: 'ended', lastId, retryMs });
  return {
    take(chunk) {
      try {
        stream.push(chunk);
      } catch (error) {
        throw error instanceof EventTooLarge ? oversize() : error;
      }
    },
    end,
    broken: end,
  };
}
