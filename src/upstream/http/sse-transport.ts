import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js';
import type { JSONRPCMessage, RequestId } from '@modelcontextprotocol/sdk/types.js';
import { isObject } from '../../core/json.ts';
import { edgeId, faultAnswer, wellFormedAnswer } from '../answer-faults.ts';
import { HttpFault } from '../fault.ts';
import { NotSentError } from '../stdio/batch-writer.ts';
import type { ServerEvent } from './event-stream.ts';
import { eventReader, mediaType, type StreamEnd } from './http-body.ts';
import { type HttpLinkOptions, openPool } from './http-link.ts';
import { HttpNotes, readAcceptance } from './http-notes.ts';
import { Cancellation, type HttpPool, type OutgoingHeaders, type OutgoingRequest } from './http-pool.ts';
import type { ReadResponse } from './http-response.ts';
import { statusReader } from './http-status.ts';

export type SseTransportOptions = Omit<HttpLinkOptions, 'onMessage'> & {
  /** The server no longer knows the session. */
  readonly onSessionLost: () => void;
};

const baseHeaders: OutgoingHeaders = { 'accept-encoding': 'identity' };

/**
 * A connection over HTTP+SSE (protocol 2024-11-05) for the SDK's client: one event stream brings all that the server
 * says, and each message to it is a POST to the endpoint that the stream names first. The connection lasts as long as
 * its stream.
 */
export class SseTransport implements Transport {
  onmessage: Transport['onmessage'];
  onerror: Transport['onerror'];
  onclose: Transport['onclose'];

  readonly #options: SseTransportOptions;
  readonly #pool: HttpPool;
  readonly #notes: HttpNotes;
  readonly #stream = new Cancellation();
  /** One per request that waits for its answer: what ends the POST that it is sent with. */
  readonly #pending = new Map<RequestId, Cancellation>();
  #headers: OutgoingHeaders = { ...baseHeaders, 'content-type': 'application/json' };
  #endpoint: string | undefined;
  #closing: Promise<void> | undefined;

  constructor(options: SseTransportOptions) {
    this.#options = options;
    const onMessage = (message: JSONRPCMessage): void => this.onmessage?.(message);
    const linkOptions = { ...options, onMessage };
    this.#pool = openPool(linkOptions);
    this.#notes = new HttpNotes(this.#pool, linkOptions);
  }

  setProtocolVersion(version: string): void {
    this.#headers = { ...this.#headers, 'mcp-protocol-version': version };
  }

  /** Opens the stream; resolves when the server has named its endpoint. @throws HttpFault */
  start(): Promise<void> {
    return new Promise((resolve, reject) => {
      const { pathname, search } = this.#options.url;
      const headers = { ...baseHeaders, accept: 'text/event-stream' };
      const request = { method: 'GET', path: pathname + search, headers } as const;
      this.#pool
        .request(request, this.#readStream(request, resolve), this.#stream)
        .then(
          () => reject(new HttpFault('cut', 'its event stream ended before it named an endpoint')),
          reject,
        )
        .finally(() => void this.close());
    });
  }

  #readStream(request: OutgoingRequest, onEndpoint: () => void): ReadResponse<StreamEnd> {
    return (head, control) => {
      if (head.status >= 300) return statusReader(head, request, control);
      if (mediaType(head) !== 'text/event-stream')
        throw new HttpFault('malformed', 'it answered without an event stream', { status: head.status });
      return eventReader(this.#options.messageBytesMax, {
        onEvent: (event) => this.#onEvent(event, onEndpoint),
        onOversize: ({ head: first, tail }) => this.#failOversize(edgeId(first, tail)),
        onNothing: () => this.#notes.noteUnasked(),
      });
    };
  }

  #onEvent({ type, data }: ServerEvent, onEndpoint: () => void): void {
    if (type === 'endpoint' && this.#endpoint === undefined) {
      this.#endpoint = this.#pathOf(data);
      onEndpoint();
    } else if (type === 'message') this.#onMessage(data);
    else this.#notes.noteUnasked();
  }

  /** @throws HttpFault for an endpoint that is not on the server's own origin: messages carry credentials (MT-8) */
  #pathOf(endpoint: string): string {
    const { url } = this.#options;
    const target = URL.canParse(endpoint, url.href) ? new URL(endpoint, url) : undefined;
    if (target?.origin !== url.origin)
      throw new HttpFault('malformed', 'it named an endpoint that is not on its own origin');
    return target.pathname + target.search;
  }

  #onMessage(data: string): void {
    try {
      this.#take(JSON.parse(data));
    } catch (error) {
      this.#notes.noteUnasked();
      // What a server sent must not end the stream that all calls share.
      this.onerror?.(error instanceof Error ? error : new Error('a message could not be handled'));
    }
  }

  #take(message: unknown): void {
    const id = isObject(message) && !('method' in message) ? this.#pendingId(message.id) : undefined;
    if (!isObject(message) || id === undefined) {
      this.#notes.deliver(message);
      return;
    }
    this.#pending.delete(id);
    this.onmessage?.(wellFormedAnswer(id, message) ?? faultAnswer(id, 'malformed_answer'));
  }

  /** The id of the request that an answer belongs to. Some servers send it back as a string. */
  #pendingId(id: unknown): RequestId | undefined {
    if (typeof id !== 'number' && typeof id !== 'string') return undefined;
    if (this.#pending.has(id)) return id;
    return this.#pending.has(Number(id)) ? Number(id) : undefined;
  }

  #failOversize(id: number | undefined): void {
    if (id !== undefined && this.#pending.delete(id)) this.onmessage?.(faultAnswer(id, 'oversize'));
  }

  /** Resolves when the server has taken the message. @throws HttpFault, and NotSentError where there is no stream */
  async send(message: JSONRPCMessage): Promise<void> {
    if (this.#endpoint === undefined || this.#closing !== undefined)
      throw new NotSentError('the connection is not open');
    const body = JSON.stringify(message);
    const headers = this.#headers;
    const request = { method: 'POST', path: this.#endpoint, headers, body, isSession: true } as const;
    if ('method' in message && 'id' in message) {
      await this.#post(message.id, request);
      return;
    }
    if ('method' in message && message.method === 'notifications/cancelled')
      this.#cancel(message.params?.requestId as RequestId);
    await this.#notes.send(message, request);
  }

  async #post(id: RequestId, request: OutgoingRequest): Promise<void> {
    const cancellation = new Cancellation();
    this.#pending.set(id, cancellation);
    try {
      await this.#pool.request(request, readAcceptance(request), cancellation);
    } catch (error) {
      // An answer may overtake the response to its own request; and whoever cancelled has had his.
      if (!this.#pending.delete(id)) return;
      if (error instanceof HttpFault && error.kind === 'session_lost') this.#options.onSessionLost();
      throw error;
    }
  }

  #cancel(id: RequestId): void {
    const cancellation = this.#pending.get(id);
    this.#pending.delete(id);
    cancellation?.cancel();
  }

  /** Ends the stream, which is the end of the session, and everything that is open. */
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    this.#stream.cancel();
    this.#notes.close();
    for (const id of [...this.#pending.keys()]) this.#cancel(id);
    await this.#pool.close();
    this.onclose?.();
  }
}
