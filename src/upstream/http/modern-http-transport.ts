import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js';
import type { JSONRPCMessage, JSONRPCRequest } from '@modelcontextprotocol/sdk/types.js';
import { headerValue } from '../mirrored-headers.ts';
import type { Wire } from '../request-link.ts';
import { NotSentError } from '../stdio/batch-writer.ts';
import { HttpLink, type HttpLinkOptions } from './http-link.ts';
import type { OutgoingHeaders } from './http-pool.ts';

/**
 * A connection over HTTP as protocol 2026-07-28 has it: there is no session and no stream to listen on, each request
 * says in its headers what it is, and who gives up a request closes it.
 */
export class ModernHttpTransport implements Transport, Wire {
  onmessage: Transport['onmessage'];
  onerror: Transport['onerror'];
  onclose: Transport['onclose'];

  readonly #link: HttpLink;
  readonly #headers: OutgoingHeaders;
  #isClosed = false;

  constructor(revision: string, options: Omit<HttpLinkOptions, 'onMessage'>) {
    this.#headers = {
      accept: 'application/json, text/event-stream',
      'content-type': 'application/json',
      'accept-encoding': 'identity',
      'mcp-protocol-version': revision,
    };
    const onMessage = (message: JSONRPCMessage): void => this.onmessage?.(message);
    this.#link = new HttpLink({ ...options, onMessage }, { mayResume: false });
  }

  /** There is nothing to start: the first message opens the first connection. */
  start(): Promise<void> {
    return Promise.resolve();
  }

  /**
   * Resolves when the message was taken: a request when its answer was handed on, or it was cancelled.
   * @throws HttpFault, and NotSentError after `close`
   */
  async send(message: JSONRPCMessage, options?: Parameters<Wire['send']>[1]): Promise<void> {
    if (this.#isClosed) throw new NotSentError('the connection is closed');
    if ('method' in message && 'id' in message) await this.#exchange(message, options?.headers);
    else if ('method' in message && message.method === 'notifications/cancelled')
      this.#link.cancel(message.params?.requestId);
    else await this.#link.note(message, this.#headers, JSON.stringify(message));
  }

  async #exchange(request: JSONRPCRequest, more: OutgoingHeaders | undefined): Promise<void> {
    const { id, method, params } = request;
    const name = method === 'tools/call' ? params?.name : undefined;
    const headers = {
      ...this.#headers,
      'mcp-method': method,
      ...(typeof name === 'string' ? { 'mcp-name': headerValue(name) } : {}),
      ...more,
    };
    const answered = await this.#link.exchange(id, headers, JSON.stringify(request));
    if (answered !== undefined) this.onmessage?.(answered.message);
  }

  /** Ends everything that is open. */
  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    await this.#link.close();
    this.onclose?.();
  }
}
