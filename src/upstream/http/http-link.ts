import type { JSONRPCMessage } from '@modelcontextprotocol/sdk/types.js';
import type { Credentials } from '../credentials.ts';
import { HttpFault } from '../fault.ts';
import { eventReader, mediaType, type StreamEnd } from './http-body.ts';
import {
  type Answered,
  type ExchangeDeps,
  exchange,
  listeningRequest,
  parseMessage,
  pause,
  resumeWaitMs,
} from './http-exchange.ts';
import { HttpNotes, type HttpNotesOptions, notesMax, sendWithin } from './http-notes.ts';
import { Cancellation, HttpPool, type OutgoingHeaders, type OutgoingRequest } from './http-pool.ts';
import type { ReadResponse } from './http-response.ts';
import { statusReader } from './http-status.ts';

/** What one connection over HTTP needs to know, in every era of the protocol. */
export interface HttpLinkOptions extends HttpNotesOptions {
  readonly url: URL;
  /** Configured headers; they win over those of a request. */
  readonly headers: Readonly<Record<string, string>>;
  readonly credentials: Credentials | undefined;
  readonly connectTimeoutMs: number;
  readonly messageBytesMax: number;
}

/** What a stream that is listened on tells of itself. */
export interface ListeningOptions {
  /** The stream had a gap, or is gone: messages may have been missed (O27). */
  readonly onGap: () => void;
  /** The server no longer knows the session. */
  readonly onSessionLost: () => void;
}

/** Connections beside those of calls and notes: the listening stream, a tool list, a ping, the farewell. */
const otherConnectionsMax = 4;
/** Bytes of a message on the listening stream: to parse one as large as an answer would only hold everybody up. */
const noticeBytesMax = 262_144;
/** A stream that lasted this long was a good one: the gaps before the next tries start small again. */
const goodStreamMs = 60_000;

/** The connections to a server, as many as its calls need. */
export const openPool = (options: HttpLinkOptions): HttpPool =>
  new HttpPool({ ...options, connectionsMax: options.callsMax + notesMax + otherConnectionsMax });

/**
 * The exchanges of one connection over HTTP. Whatever a server does with a request, its sender gets exactly one answer
 * or an `HttpFault`. It knows one origin, and sends nothing twice but what was refused for its credentials.
 */
export class HttpLink {
  readonly #path: string;
  readonly #pool: HttpPool;
  readonly #notes: HttpNotes;
  readonly #exchangeDeps: ExchangeDeps;
  /** One per request that waits for its answer, by request id. */
  readonly #exchanges = new Map<unknown, Cancellation>();
  readonly #listening = new Cancellation();

  /** @param mayResume whether the rest of an answer that was cut off may be asked for */
  constructor(options: HttpLinkOptions, { mayResume }: Pick<ExchangeDeps, 'mayResume'>) {
    const { url, messageBytesMax } = options;
    this.#path = url.pathname + url.search;
    this.#pool = openPool(options);
    this.#notes = new HttpNotes(this.#pool, options);
    const deliver = (message: unknown): void => this.#notes.deliver(message);
    const noteUnasked = (): void => this.#notes.noteUnasked();
    this.#exchangeDeps = { pool: this.#pool, messageBytesMax, mayResume, deliver, noteUnasked };
  }

  /** The answer to a request; undefined when it was cancelled. @throws HttpFault */
  async exchange(id: number | string, headers: OutgoingHeaders, body: string): Promise<Answered | undefined> {
    const cancellation = new Cancellation();
    this.#exchanges.set(id, cancellation);
    try {
      return await exchange(id, this.#post(headers, body), cancellation, this.#exchangeDeps);
    } catch (error) {
      // Whoever cancelled has had his answer.
      if (cancellation.isCancelled) return undefined;
      throw error;
    } finally {
      this.#exchanges.delete(id);
    }
  }

  /** Ends a request that waits for its answer. */
  cancel(id: unknown): void {
    this.#exchanges.get(id)?.cancel();
  }

  /** Sends a message to which no answer belongs; one that cancels a request ends that too. @throws HttpFault */
  async note(message: JSONRPCMessage, headers: OutgoingHeaders, body: string): Promise<void> {
    if ('method' in message && message.method === 'notifications/cancelled')
      this.cancel(message.params?.requestId);
    await this.#notes.send(message, this.#post(headers, body));
  }

  /** Tells the server that the session of these headers is over. @throws HttpFault */
  async farewell(headers: OutgoingHeaders, limitMs: number): Promise<void> {
    const { 'content-type': _, ...rest } = headers;
    await sendWithin(limitMs, { method: 'DELETE', path: this.#path, headers: rest }, this.#pool);
  }

  #post(headers: OutgoingHeaders, body: string): OutgoingRequest {
    return { method: 'POST', path: this.#path, headers, body };
  }

  /** Keeps a stream open for what the server has to say on its own, as long as the server offers one. */
  async listen(headers: OutgoingHeaders, { onGap, onSessionLost }: ListeningOptions): Promise<void> {
    const stop = this.#listening;
    let gapMs = 0;
    let lastId: string | undefined;
    let hasListened = false;
    while (!stop.isCancelled) {
      let openedMs: number | undefined;
      let end: StreamEnd | undefined;
      const onOpen = (): void => {
        openedMs = performance.now();
        if (hasListened) onGap();
        hasListened = true;
      };
      try {
        const request = listeningRequest(this.#path, headers, lastId);
        end = await this.#pool.request(request, this.#listenTo(request, onOpen), stop);
        lastId = end.lastId ?? lastId;
      } catch (error) {
        if (stop.isCancelled) return;
        const fault = error as HttpFault;
        // Where there never was a stream, 404 may only say that this server has none: not all of them say 405.
        if (fault.kind === 'session_lost') return hasListened ? onSessionLost() : undefined;
        // A stream that could not be opened, or carried nonsense, is tried again after a longer gap.
        if (hasListened) onGap();
        if (openedMs === undefined && offersNone(fault)) return;
      }
      const wasGood = openedMs !== undefined && performance.now() - openedMs > goodStreamMs;
      gapMs = wasGood
        ? resumeWaitMs.usual
        : Math.min(Math.max(gapMs * 2, resumeWaitMs.usual), resumeWaitMs.max);
      await pause(Math.max(gapMs, Math.min(end?.retryMs ?? 0, resumeWaitMs.max)), stop);
    }
  }

  #listenTo(request: OutgoingRequest, onOpen: () => void): ReadResponse<StreamEnd> {
    return (head, control) => {
      if (head.status >= 300) return statusReader(head, request, control);
      if (head.status !== 200 || mediaType(head) !== 'text/event-stream')
        throw new HttpFault('malformed', 'it offers no event stream', { status: head.status });
      onOpen();
      const { messageBytesMax, deliver, noteUnasked } = this.#exchangeDeps;
      return eventReader(Math.min(messageBytesMax, noticeBytesMax), {
        onEvent: ({ type, data }) => (type === 'message' ? deliver(parseMessage(data)) : noteUnasked()),
        onOversize: noteUnasked,
        onNothing: noteUnasked,
      });
    };
  }

  /** Ends everything that is open. */
  async close(): Promise<void> {
    this.#listening.cancel();
    this.#notes.close();
    for (const exchange of this.#exchanges.values()) exchange.cancel();
    await this.#pool.close();
  }
}

/** Whether a refusal of the stream is for good: a server in trouble (5xx, 429) may offer one later. */
const offersNone = ({ facts: { status } }: HttpFault): boolean =>
  status !== undefined && status < 500 && status !== 429;
