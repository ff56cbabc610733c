import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js';
import type { JSONRPCMessage } from '@modelcontextprotocol/sdk/types.js';
import { HttpFault } from '../fault.ts';
import { NotSentError } from '../stdio/batch-writer.ts';
import { HttpLink, type HttpLinkOptions, type ListeningOptions } from './http-link.ts';
import type { OutgoingHeaders } from './http-pool.ts';

export type HttpTransportOptions = Omit<HttpLinkOptions, 'onMessage'> & ListeningOptions;

/** How long a server may take to hear that its session is over. */
const farewellMs = 2_000;

/**
 * A connection over Streamable HTTP (protocol 2025-03-26 to 2025-11-25) for the SDK's client, which keeps the protocol;
 * this class keeps the session, and `HttpLink` the requests.
 */
export class HttpTransport implements Transport {
  onmessage: Transport['onmessage'];
  onerror: Transport['onerror'];
  onclose: Transport['onclose'];

  readonly #options: HttpTransportOptions;
  readonly #link: HttpLink;
  #headers: OutgoingHeaders = {
    accept: 'application/json, text/event-stream',
    'content-type': 'application/json',
    'accept-encoding': 'identity',
  };
  #isClosed = false;

  constructor(options: HttpTransportOptions) {
    this.#options = options;
    const onMessage = (message: JSONRPCMessage): void => this.onmessage?.(message);
    this.#link = new HttpLink({ ...options, onMessage }, { mayResume: true });
  }

  get sessionId(): string | undefined {
    return this.#headers['mcp-session-id'];
  }

  setProtocolVersion(version: string): void {
    this.#headers = { ...this.#headers, 'mcp-protocol-version': version };
  }

  /** There is nothing to start: the first message opens the first connection. */
  start(): Promise<void> {
    return Promise.resolve();
  }

  /**
   * Resolves when the message was taken: a request when its answer was handed on, or it was cancelled.
   * @throws HttpFault, and NotSentError after `close`
   */
  async send(message: JSONRPCMessage): Promise<void> {
    if (this.#isClosed) throw new NotSentError('the connection is closed');
    const body = JSON.stringify(message);
    if ('method' in message && 'id' in message) {
      await this.#exchange(message.id, message.method === 'initialize', body);
      return;
    }
    await this.#link.note(message, this.#headers, body);
    // From here on the server may have something to say on its own.
    if ('method' in message && message.method === 'notifications/initialized')
      void this.#link.listen(this.#headers, this.#options);
  }

  async #exchange(id: number | string, isFirst: boolean, body: string): Promise<void> {
    try {
      const answered = await this.#link.exchange(id, this.#headers, body);
      if (answered === undefined) return;
      // Only the first answer names the session.
      if (isFirst && answered.sessionId !== undefined)
        this.#headers = { ...this.#headers, 'mcp-session-id': answered.sessionId };
      this.onmessage?.(answered.message);
    } catch (error) {
      if (error instanceof HttpFault && error.kind === 'session_lost') this.#options.onSessionLost();
      throw error;
    }
  }

  /** Tells the server that the session is over. A server that does not listen any more will not miss it. */
  async endSession(): Promise<void> {
    if (this.sessionId === undefined || this.#isClosed) return;
    await this.#link.farewell(this.#headers, farewellMs).catch((fault: HttpFault) => this.onerror?.(fault));
  }

  /** Ends everything that is open. */
  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    await this.#link.close();
    this.onclose?.();
  }
}
