import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js';
import { type JSONRPCMessage, type JSONRPCRequest, McpError } from '@modelcontextprotocol/sdk/types.js';

/** The time of a request is over; the server was told that nobody waits for its answer any more. */
export class CallTimeout extends Error {}

/** The connection ended before the answer. */
export class ConnectionEnded extends Error {}

interface Pending {
  readonly resolve: (result: Readonly<Record<string, unknown>>) => void;
  readonly reject: (error: unknown) => void;
  readonly timer: NodeJS.Timeout;
}

/** Far from the ids of the SDK's client, which counts from 0 on the same connection, and within 31 bits. */
const firstId = 1_000_000_000;

/**
 * Sends requests beside the SDK's client, on its transport, once that has shaken hands.
 *
 * The client checks each answer against its schemas three times and keeps two timers and a signal for each request,
 * which costs more than all else that a call needs; and it tells a timeout, a lost connection and a server's own
 * error -32000 or -32001 apart by nothing. Here one timer and one entry in a table belong to a request.
 */
export class CallChannel {
  readonly #transport: Transport;
  readonly #pending = new Map<number, Pending>();
  #nextId = firstId;

  /** @param transport after the client has connected it: the channel takes its answers out before the client looks */
  constructor(transport: Transport) {
    this.#transport = transport;
    const toClient = transport.onmessage;
    transport.onmessage = (message, extra) => {
      if (!this.#takeAnswer(message)) toClient?.(message, extra);
    };
  }

  /**
   * The result of a request.
   * @throws CallTimeout, ConnectionEnded, McpError (the server's error), or whatever the transport says about a message
   * that it did not send
   */
  request(
    method: string,
    params: JSONRPCRequest['params'],
    timeoutMs: number,
  ): Promise<Readonly<Record<string, unknown>>> {
    const id = this.#nextId++;
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => this.#giveUp(id), timeoutMs);
      this.#pending.set(id, { resolve, reject, timer });
      this.#transport
        .send({ jsonrpc: '2.0', id, method, params })
        .catch((error: unknown) => this.#take(id)?.reject(error));
    });
  }

  /** The connection is over: nothing that still waits will be answered. */
  end(): void {
    for (const id of [...this.#pending.keys()]) {
      this.#take(id)?.reject(new ConnectionEnded());
    }
  }

  #takeAnswer(message: JSONRPCMessage): boolean {
    if ('method' in message || typeof message.id !== 'number' || message.id < firstId) return false;
    // Without an entry it comes too late, and nobody waits for it.
    const pending = this.#take(message.id);
    if ('result' in message) pending?.resolve(message.result);
    else pending?.reject(new McpError(message.error.code, message.error.message, message.error.data));
    return true;
  }

  #take(id: number): Pending | undefined {
    const pending = this.#pending.get(id);
    if (pending === undefined) return undefined;
    this.#pending.delete(id);
    clearTimeout(pending.timer);
    return pending;
  }

  #giveUp(requestId: number): void {
    const pending = this.#take(requestId);
    const params = { requestId, reason: 'the time for this call is over' };
    // Nobody waits for this; a server that does not read any more will not miss it either.
    this.#transport.send({ jsonrpc: '2.0', method: 'notifications/cancelled', params }).catch(() => {});
    pending?.reject(new CallTimeout());
  }
}
