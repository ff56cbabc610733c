import { setTimeout as sleep } from 'node:timers/promises';
import type { FetchLike } from '@modelcontextprotocol/sdk/shared/transport.js';
import type { JSONRPCMessage } from '@modelcontextprotocol/sdk/types.js';
import { buildConnector, type Dispatcher, Pool } from 'undici';
import { wellFormedAnswer } from './answer-faults.ts';
import { Bulkhead } from './bulkhead.ts';
import { EventStream, EventTooLarge } from './event-stream.ts';
import { HttpFault } from './fault.ts';
import { FloodWatch } from './flood-watch.ts';
import { drain, errorCodeIn, isRecord, mediaType, oversize, readBody, retryAfterMs } from './http-body.ts';
import { readFairly } from './read-fairly.ts';
import { ServerRequests } from './server-requests.ts';

/** What the fetch of one HTTP connection needs to know. */
export interface HttpFetchOptions {
  readonly url: URL;
  /** Configured headers; they win over those of the SDK. */
  readonly headers: Readonly<Record<string, string>>;
  readonly connectTimeoutMs: number;
  readonly messageBytesMax: number;
  /** Calls that run at the same time. */
  readonly callsMax: number;
  /** Takes each message that is not the answer to a request: notifications, requests of the server. */
  readonly onMessage: (message: JSONRPCMessage) => void;
  /** The server no longer knows the session of this connection. */
  readonly onSessionLost: () => void;
  /** The server sends messages that nobody asked for without end. */
  readonly onFlood: () => void;
  /** The stream for messages of the server had a gap, or is gone: some may have been missed (O27). */
  readonly onGap: () => void;
}

type Body = Dispatcher.ResponseData['body'];
type OutgoingHeaders = Readonly<Record<string, string>>;

/** How long a server may keep an answer's stream open after the answer. */
const afterAnswerMs = 250;
const resumeWaitMs = { min: 250, usual: 1_000, max: 30_000 } as const;
/** Messages to which no answer belongs (replies to the server, cancellations) that the server has yet to take. */
const notesMax = 8;
const noteMs = 5_000;
/** Connections beside those of calls and notes: the listening stream, a tool list, a ping, the farewell. */
const otherConnectionsMax = 4;
/** A stream that lasted this long was a good one: the gaps before the next tries start small again. */
const goodStreamMs = 60_000;

/** HTTP statuses that say, by contract, that nothing was run. */
const refusals: Readonly<Record<number, string>> = {
  401: 'it refused the configured credentials (HTTP 401)',
  403: 'it refused the configured credentials (HTTP 403)',
  404: 'there is no MCP endpoint at its URL (HTTP 404)',
  405: 'its URL does not take MCP messages (HTTP 405)',
  406: 'it cannot answer in the media types of MCP (HTTP 406)',
  415: 'it does not read JSON (HTTP 415)',
  429: 'it limits the rate of requests (HTTP 429)',
};

/**
 * The `fetch` of one HTTP connection, made for the SDK's transport. Whatever a server does with a request, and in
 * whichever framing it answers, the transport gets exactly one JSON answer for it: the server's, or one that carries
 * an `HttpFault`. That leaves none of the SDK's calls waiting for a stream that has ended, and none
 * of its handlers behind. It knows one origin, follows no redirect and sends nothing twice.
 */
export class HttpFetch {
  readonly #options: HttpFetchOptions;
  readonly #pool: Pool;
  readonly #path: string;
  readonly #configured: OutgoingHeaders;
  /** Errors of connections that did not come about: proof that nothing was sent. */
  readonly #connectErrors = new WeakSet<Error>();
  /** One per request that waits for its answer, by request id. */
  readonly #exchanges = new Map<unknown, AbortController>();
  readonly #closing = new AbortController();
  readonly #serverRequests = new ServerRequests(notesMax);
  readonly #flood = new FloodWatch();
  readonly #notes: Bulkhead;
  #isListening = false;

  constructor(options: HttpFetchOptions) {
    this.#options = options;
    this.#path = options.url.pathname + options.url.search;
    this.#configured = inLowerCase(options.headers);
    // As many may wait as there are calls to cancel.
    this.#notes = new Bulkhead(notesMax, options.callsMax);
    const connect = buildConnector({ timeout: options.connectTimeoutMs });
    this.#pool = new Pool(options.url.origin, {
      connect: (target, callback) =>
        connect(target, (...[error, socket]) => {
          if (error !== null) {
            this.#connectErrors.add(error);
            callback(error, null);
          } else callback(null, socket);
        }),
      connections: options.callsMax + notesMax + otherConnectionsMax,
      // Deadlines are the caller's; undici's own would end every call and stream after five minutes.
      headersTimeout: 0,
      bodyTimeout: 0,
    });
  }

  /**
   * To be given to the SDK's transport. The signal in `init` is ignored: the transport hands one signal to all its
   * requests, and a listener per request on it would be reported as a leak; `close` does its work.
   */
  readonly fetch: FetchLike = async (_url, init = {}) => {
    const headers = this.#headers(init.headers);
    switch (init.method) {
      case 'GET':
        // The SDK's way of listening loses streams for good; it is told that there is none.
        if (!this.#isListening && !this.#closing.signal.aborted) void this.#listen(headers);
        return new Response(null, { status: 405 });
      case 'DELETE': {
        const response = await this.#request('DELETE', headers);
        await response.body.dump();
        return new Response(null, { status: response.statusCode === 204 ? 200 : response.statusCode });
      }
      default:
        return this.#post(headers, String(init.body));
    }
  };

  /** Ends everything that is open. */
  async close(): Promise<void> {
    this.#closing.abort();
    this.#notes.close();
    for (const exchange of this.#exchanges.values()) exchange.abort();
    await this.#pool.destroy();
  }

  #headers(init: RequestInit['headers']): OutgoingHeaders {
    const headers: Record<string, string> = { 'accept-encoding': 'identity' };
    if (init instanceof Headers) {
      init.forEach((value, name) => {
        headers[name] = value;
      });
    }
    return Object.assign(headers, this.#configured);
  }

  async #post(headers: OutgoingHeaders, body: string): Promise<Response> {
    const { id, method, params } = JSON.parse(body);
    if (id !== undefined && method !== undefined) {
      return this.#exchange(id, method === 'initialize', headers, body);
    }
    if (method === 'notifications/cancelled') this.#exchanges.get(params.requestId)?.abort();
    try {
      await this.#note(headers, body);
      return accepted();
    } catch (error) {
      throw this.#faultOf(error);
    } finally {
      if (method === undefined) this.#serverRequests.answered(id);
    }
  }

  /** Sends what has no answer. A server that takes none of it any more does not get the rest either. */
  async #note(headers: OutgoingHeaders, body: string): Promise<void> {
    if ((await this.#notes.enter(noteMs)) !== 'entered') return;
    try {
      const response = await this.#request('POST', headers, body, AbortSignal.timeout(noteMs));
      if (response.statusCode >= 300) throw await this.#statusFault(response, headers);
      drain(response.body);
    } finally {
      this.#notes.leave();
    }
  }

  async #exchange(id: number, isFirst: boolean, headers: OutgoingHeaders, body: string): Promise<Response> {
    const controller = new AbortController();
    this.#exchanges.set(id, controller);
    try {
      const response = await this.#request('POST', headers, body, controller.signal);
      const answer = await this.#answer(response, id, headers, controller.signal);
      // Only the first answer names the session; a later header would replace it in the SDK's transport.
      const session = isFirst ? response.headers['mcp-session-id'] : undefined;
      return new AnswerResponse(answer, typeof session === 'string' ? session : undefined);
    } catch (error) {
      // Whoever cancelled has had his answer.
      if (controller.signal.aborted) return accepted();
      const fault = this.#faultOf(error);
      if (fault.kind === 'session_lost') this.#options.onSessionLost();
      const data = { code: -32000, message: fault.message, data: fault };
      return new AnswerResponse({ jsonrpc: '2.0', id, error: data });
    } finally {
      this.#exchanges.delete(id);
    }
  }

  #request(
    method: 'POST' | 'GET' | 'DELETE',
    headers: OutgoingHeaders,
    body: string | null = null,
    signal: AbortSignal | null = null,
  ): Promise<Dispatcher.ResponseData> {
    return this.#pool.request({ method, path: this.#path, headers, body, signal });
  }

  async #answer(
    response: Dispatcher.ResponseData,
    id: number,
    headers: OutgoingHeaders,
    signal: AbortSignal,
  ): Promise<JSONRPCMessage> {
    const { statusCode, body } = response;
    if (statusCode >= 300) throw await this.#statusFault(response, headers);
    switch (mediaType(response)) {
      case 'application/json':
        return this.#answerInBody(await readBody(response, this.#options.messageBytesMax), id);
      case 'text/event-stream':
        return this.#answerInStream(body, id, headers, signal);
      default:
        drain(body);
        throw new HttpFault(
          'malformed',
          `it answered with HTTP ${statusCode} but without a JSON-RPC message`,
        );
    }
  }

  #answerInBody(text: string, id: number): JSONRPCMessage {
    const parsed = parseMessage(text);
    let answer: Readonly<Record<string, unknown>> | undefined;
    for (const message of Array.isArray(parsed) ? parsed : [parsed]) {
      if (isAnswerTo(message, id)) answer ??= message;
      else this.#deliver(message);
    }
    if (answer === undefined)
      throw new HttpFault('malformed', 'its answer belongs to no request of this call');
    return wellFormed(id, answer);
  }

  /** Waits for the answer in an event stream, asking for the rest of the stream where the server allows it. */
  #answerInStream(
    body: Body,
    id: number,
    headers: OutgoingHeaders,
    signal: AbortSignal,
  ): Promise<JSONRPCMessage> {
    return new Promise((resolve, reject) => {
      let isAnswered = false;
      const onMessage = (message: unknown, stream: Body): void => {
        if (!isAnswerTo(message, id)) this.#deliver(message);
        else if (!isAnswered) settle(message, stream);
      };
      const settle = (message: Readonly<Record<string, unknown>>, stream: Body): void => {
        isAnswered = true;
        const timer = setTimeout(() => stream.destroy(), afterAnswerMs);
        stream.once('close', () => clearTimeout(timer));
        resolve(wellFormed(id, message));
      };
      const follow = async (): Promise<void> => {
        let stream = body;
        let retryMs: number = resumeWaitMs.usual;
        let gapMs: number = resumeWaitMs.min;
        let lastId: string | undefined;
        for (;;) {
          const end = await this.#follow(stream, onMessage);
          if (isAnswered) return;
          // Without an event id there is nothing to ask for: the answer is lost with the stream.
          if (end.lastId === undefined)
            throw end.error ?? new HttpFault('cut', 'its answer ended before the result');
          retryMs = end.retryMs ?? retryMs;
          // A stream that brings nothing new is asked for less and less often, whatever the server says.
          gapMs = end.lastId === lastId ? 2 * gapMs : resumeWaitMs.min;
          lastId = end.lastId;
          await sleep(Math.min(Math.max(retryMs, gapMs), resumeWaitMs.max), undefined, { signal });
          stream = await this.#resume(headers, end.lastId, signal);
        }
      };
      follow().catch(reject);
    });
  }

  /** Hands on what the server says on its own. Answers to nobody are dropped: the SDK would log them whole. */
  #deliver(message: unknown): void {
    if (this.#flood.note()) this.#options.onFlood();
    if (!isRecord(message) || !this.#serverRequests.admit(message)) return;
    try {
      this.#options.onMessage(message as JSONRPCMessage);
    } catch {
      // What the receiver cannot take, nested too deeply for instance, must not cost the answer beside it.
      this.#serverRequests.answered(message.id);
    }
  }

  async #resume(headers: OutgoingHeaders, lastId: string, signal: AbortSignal): Promise<Body> {
    const response = await this.#request('GET', listeningHeaders(headers, lastId), null, signal);
    if (response.statusCode === 200 && mediaType(response) === 'text/event-stream') return response.body;
    drain(response.body);
    throw new HttpFault('cut', `the rest of its answer could not be fetched (HTTP ${response.statusCode})`);
  }

  /** Reads an event stream to its end. A stream that breaks is an end too; a fault of what it carries is thrown. */
  #follow(body: Body, onMessage: (message: unknown, stream: Body) => void): Promise<StreamEnd> {
    return new Promise((resolve, reject) => {
      let lastId: string | undefined;
      let retryMs: number | undefined;
      const stream = new EventStream(this.#options.messageBytesMax, (event) => {
        if (event.id !== undefined && event.id !== '') lastId = event.id;
        retryMs = event.retryMs ?? retryMs;
        if (event.data !== '' && event.type === 'message') onMessage(parseMessage(event.data), body);
      });
      let error: unknown;
      readFairly(body, (chunk) => {
        try {
          stream.push(chunk);
        } catch (fault) {
          reject(fault instanceof EventTooLarge ? oversize() : fault);
          body.destroy();
        }
      });
      body.once('error', (cause) => {
        error = cause;
      });
      body.once('close', () => resolve({ lastId, retryMs, error }));
    });
  }

  /** Keeps a stream open for what the server has to say on its own, as long as the server offers one. */
  async #listen(headers: OutgoingHeaders): Promise<void> {
    this.#isListening = true;
    const { signal } = this.#closing;
    let gapMs = 0;
    let lastId: string | undefined;
    let hasListened = false;
    try {
      while (!signal.aborted) {
        let openedMs: number | undefined;
        let retryMs: number | undefined;
        try {
          const response = await this.#request('GET', listeningHeaders(headers, lastId));
          const { statusCode, body } = response;
          if (statusCode !== 200 || mediaType(response) !== 'text/event-stream') {
            drain(body);
            if (statusCode === 404 && 'mcp-session-id' in headers) return this.#options.onSessionLost();
            if (hasListened) this.#options.onGap();
            // 405 is the usual way to offer no stream; a server in trouble (5xx, 429) may offer one later.
            if (statusCode < 500 && statusCode !== 429) return;
          } else {
            if (hasListened) this.#options.onGap();
            hasListened = true;
            openedMs = performance.now();
            const end = await this.#follow(body, (message) => this.#deliver(message));
            lastId = end.lastId ?? lastId;
            retryMs = end.retryMs;
          }
        } catch {
          // A stream that could not be opened, or carried nonsense, is tried again after a longer gap.
          if (hasListened) this.#options.onGap();
        }
        const wasGood = openedMs !== undefined && performance.now() - openedMs > goodStreamMs;
        gapMs = wasGood
          ? resumeWaitMs.usual
          : Math.min(Math.max(gapMs * 2, resumeWaitMs.usual), resumeWaitMs.max);
        await sleep(Math.max(gapMs, Math.min(retryMs ?? 0, resumeWaitMs.max)), undefined, { signal });
      }
    } catch {
      // The connection was closed during a gap.
    }
  }

  async #statusFault(response: Dispatcher.ResponseData, headers: OutgoingHeaders): Promise<HttpFault> {
    const { statusCode } = response;
    const isSessionLost = statusCode === 404 && 'mcp-session-id' in headers;
    const isRedirect = statusCode < 400;
    const facts = { status: statusCode, retryAfterMs: retryAfterMs(response) };
    const refusal = isRedirect
      ? `it redirects to another URL (HTTP ${statusCode}), which is not followed`
      : refusals[statusCode];
    if (!isSessionLost && refusal === undefined) {
      const rpcCode = await errorCodeIn(response);
      return new HttpFault('status', `it answered with HTTP ${statusCode}`, { ...facts, rpcCode });
    }
    drain(response.body);
    return isSessionLost
      ? new HttpFault('session_lost', 'it no longer knows the session')
      : new HttpFault('refused', refusal ?? '', facts);
  }

  #faultOf(error: unknown): HttpFault {
    if (error instanceof HttpFault) return error;
    if (error instanceof Error && this.#connectErrors.has(error)) {
      return new HttpFault('unreachable', connectReason(error));
    }
    return new HttpFault('cut', `the connection broke${codeOf(error)}`);
  }
}

interface StreamEnd {
  readonly lastId: string | undefined;
  readonly retryMs: number | undefined;
  readonly error: unknown;
}

/** The one answer to a request, already parsed. */
class AnswerResponse extends Response {
  readonly #answer: JSONRPCMessage;

  constructor(answer: JSONRPCMessage, sessionId?: string) {
    super(null, {
      headers: {
        'content-type': 'application/json',
        ...(sessionId === undefined ? {} : { 'mcp-session-id': sessionId }),
      },
    });
    this.#answer = answer;
  }

  override readonly json = (): Promise<unknown> => Promise.resolve(this.#answer);
}

const accepted = (): Response => new Response(null, { status: 202 });

const inLowerCase = (headers: OutgoingHeaders): OutgoingHeaders =>
  Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]));

function listeningHeaders(headers: OutgoingHeaders, lastId: string | undefined): OutgoingHeaders {
  const { 'content-type': _, ...rest } = headers;
  return {
    ...rest,
    accept: 'text/event-stream',
    ...(lastId === undefined ? {} : { 'last-event-id': lastId }),
  };
}

function parseMessage(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new HttpFault('malformed', 'its answer is not JSON');
  }
}

/** Some servers send the id back as a string. */
const isAnswerTo = (message: unknown, id: number): message is Readonly<Record<string, unknown>> =>
  isRecord(message) && (message.id === id || message.id === String(id)) && !('method' in message);

function wellFormed(id: number, message: Readonly<Record<string, unknown>>): JSONRPCMessage {
  const answer = wellFormedAnswer(id, message);
  if (answer !== undefined) return answer;
  throw new HttpFault('malformed', 'its answer has neither a result nor an error in the form of JSON-RPC');
}

const codeOf = (error: unknown): string =>
  error instanceof Error && 'code' in error && typeof error.code === 'string' ? ` (${error.code})` : '';

/** Why no connection came about, in words that name no address (O24). */
function connectReason(error: Error): string {
  const code = 'code' in error ? error.code : undefined;
  switch (code) {
    case 'ECONNREFUSED':
      return 'it refused the connection (ECONNREFUSED)';
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return `its host name could not be resolved (${code})`;
    case 'UND_ERR_CONNECT_TIMEOUT':
    case 'ETIMEDOUT':
      return `it did not accept a connection in time (${code})`;
    default:
      return `no connection came about${codeOf(error)}`;
  }
}
