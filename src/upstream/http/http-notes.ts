import type { JSONRPCMessage } from '@modelcontextprotocol/sdk/types.js';
import { isObject } from '../../core/json.ts';
import { Bulkhead } from '../bulkhead.ts';
import { FloodWatch } from '../flood-watch.ts';
import { ServerRequests } from '../server-requests.ts';
import { discarding } from './http-body.ts';
import { Cancellation, type HttpPool, type OutgoingRequest } from './http-pool.ts';
import type { ReadResponse } from './http-response.ts';
import { statusReader } from './http-status.ts';

export interface HttpNotesOptions {
  /** Calls that run at the same time. */
  readonly callsMax: number;
  /** Takes each message that is not the answer to a request: notifications, requests of the server. */
  readonly onMessage: (message: JSONRPCMessage) => void;
  /** The server sends messages that nobody asked for without end. */
  readonly onFlood: () => void;
}

/** Messages to which no answer belongs (replies to the server, cancellations) that the server has yet to take. */
export const notesMax = 8;
const noteMs = 5_000;
/** How long the rest of a response that has been heeded may take. */
const restMs = 1_000;

/** What passes over one connection beside requests and their answers: what the server says on its own, and the replies. */
export class HttpNotes {
  readonly #pool: HttpPool;
  readonly #options: HttpNotesOptions;
  readonly #serverRequests = new ServerRequests(notesMax);
  readonly #flood = new FloodWatch();
  readonly #places: Bulkhead;

  constructor(pool: HttpPool, options: HttpNotesOptions) {
    this.#pool = pool;
    this.#options = options;
    // As many may wait as there are calls to cancel.
    this.#places = new Bulkhead(notesMax, options.callsMax);
  }

  /**
   * Sends a message to which no answer belongs. A server that takes none of them any more does not get the rest either.
   * @throws HttpFault
   */
  async send(message: JSONRPCMessage, request: OutgoingRequest): Promise<void> {
    try {
      if ((await this.#places.enter(noteMs)) !== 'entered') return;
      try {
        await sendWithin(noteMs, request, this.#pool);
      } finally {
        this.#places.leave();
      }
    } finally {
      if (!('method' in message)) this.#serverRequests.answered(message.id);
    }
  }

  /** Hands on what the server says on its own. Answers to nobody are dropped: the SDK would log them whole. */
  deliver(message: unknown): void {
    this.noteUnasked();
    if (!isObject(message) || !this.#serverRequests.admit(message)) return;
    try {
      this.#options.onMessage(message as unknown as JSONRPCMessage);
    } catch {
      // What the receiver cannot take, nested too deeply for instance, must not cost the answer beside it.
      this.#serverRequests.answered(message.id);
    }
  }

  /** Counts what the server sent without being asked, were it only an empty line. */
  noteUnasked(): void {
    if (this.#flood.note()) this.#options.onFlood();
  }

  /** Sends everybody away who waits. */
  close(): void {
    this.#places.close();
  }
}

/** Sends what needs no answer, and waits so long for it to be taken. @throws HttpFault */
export async function sendWithin(limitMs: number, request: OutgoingRequest, pool: HttpPool): Promise<void> {
  const cancellation = new Cancellation();
  const timer = setTimeout(() => cancellation.cancel(), limitMs);
  try {
    await pool.request(request, readAcceptance(request), cancellation);
  } finally {
    clearTimeout(timer);
  }
}

/** Reads a response that only says whether the message was taken. */
export const readAcceptance =
  (request: OutgoingRequest): ReadResponse<void> =>
  (head, control) => {
    if (head.status >= 300) return statusReader(head, request, control);
    control.settle(undefined);
    control.limit(restMs);
    return discarding(undefined);
  };
