import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js';
import {
  type JSONRPCErrorResponse,
  type JSONRPCMessage,
  type JSONRPCResultResponse,
  McpError,
} from '@modelcontextprotocol/sdk/types.js';
import { firstRequestId } from './in-flight.ts';

/** What a server answered to a request. */
export type Answer =
  | { readonly kind: 'result'; readonly result: Readonly<Record<string, unknown>> }
  | { readonly kind: 'error'; readonly error: McpError };

/** The parameters of a request or a notification. */
export type Params = Readonly<Record<string, unknown>>;

/** Whoever sends a message, and wants to hear what came of that. */
export interface Sender {
  /** The message was not sent, and never will be. */
  onUnsent(error: unknown): void;
  /** The message was handed over; where it goes from here nobody knows. */
  onSent?(): void;
}

/** Takes what comes back over a link. */
export interface Receiver {
  /** Takes the answer to a request; false where nobody waits for it any more. */
  takeAnswer(id: number, answer: Answer): boolean;
  /** Takes the parameters of a progress notification. */
  takeProgress(params: Params | undefined): void;
}

/** The way of requests to a server, past the SDK's client, and of their answers back. */
export interface RequestLink {
  /** Set once, before the first request. */
  receiver: Receiver | undefined;
  /** @param headers of the HTTP request that it is sent with, where it is one */
  request(id: number, method: string, params: Params, sender: Sender, headers?: Headers): void;
  /** Sends a notification if that can be done; nobody waits for it. */
  notify(method: string, params: Params): void;
}

type Headers = Readonly<Record<string, string>>;

/** What a link uses of a transport, whichever SDK it comes from. */
export interface Wire extends Pick<Transport, 'onmessage'> {
  send(message: JSONRPCMessage, options?: WireOptions): Promise<void>;
}

/** Those of SDK 1.x, which know no headers, and the headers that SDK 2.x takes. */
type WireOptions = Parameters<Transport['send']>[1] & { readonly headers?: Headers };

/** A link over a transport that has only the interface of the SDK. */
export class TransportLink implements RequestLink {
  receiver: Receiver | undefined;
  readonly #transport: Wire;

  /** @param transport after the client has connected it: the link takes its messages out before the client looks */
  constructor(transport: Wire) {
    this.#transport = transport;
    const toClient = transport.onmessage;
    transport.onmessage = (message, extra) => {
      if ('method' in message) {
        const isProgress = message.method === 'notifications/progress' && !('id' in message);
        if (isProgress) this.receiver?.takeProgress(message.params);
        else toClient?.(message, extra);
      } else if (typeof message.id === 'number' && message.id >= firstRequestId) {
        this.receiver?.takeAnswer(message.id, answerOf(message));
      } else toClient?.(message, extra);
    };
  }

  request(id: number, method: string, params: Params, sender: Sender, headers?: Headers): void {
    this.#transport
      .send({ jsonrpc: '2.0', id, method, params }, headers && { headers })
      .catch((error: unknown) => sender.onUnsent(error));
  }

  notify(method: string, params: Params): void {
    // A server that takes no messages any more will not miss it.
    this.#transport.send({ jsonrpc: '2.0', method, params }).catch(() => {});
  }
}

/** What an answer in the form of the SDK says. */
export const answerOf = (message: JSONRPCResultResponse | JSONRPCErrorResponse): Answer =>
  'result' in message
    ? { kind: 'result', result: message.result }
    : { kind: 'error', error: new McpError(message.error.code, message.error.message, message.error.data) };
