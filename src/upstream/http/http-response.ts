import type { IncomingHttpHeaders } from 'node:http';
import type { Dispatcher } from 'undici';
import { HttpFault } from '../fault.ts';
import { Turn } from '../read-fairly.ts';
import { discarding } from './http-body.ts';

/** The status line and the headers of a response. */
export interface ResponseHead {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
}

/** Takes the body of one response, piece by piece, and says what it comes to. */
export interface BodyReader<Value> {
  /** @throws when the rest is of no use: the response is broken off, and what was thrown is its outcome */
  take(chunk: Buffer): void;
  /** The body is complete. @throws what is the outcome instead of a value */
  end(): Value;
  /** The connection broke within the body; without this, the break is the outcome. @throws as `end` */
  broken?(error: Error): Value;
}

/** What a reader can do with the response that it reads. */
export interface ResponseControl<Value> {
  /** Tells the outcome now. What follows is still read. */
  settle(value: Value): void;
  /** Breaks the response off after so long, unless it has ended by then. */
  limit(ms: number): void;
}

/**
 * Chooses how a response is read.
 * @throws when it is of no use: what was thrown is its outcome, and its body is read away
 */
export type ReadResponse<Value> = (head: ResponseHead, control: ResponseControl<Value>) => BodyReader<Value>;

/** Far more interim responses (1xx) than a server has to say before its answer. */
const interimMax = 1_000;
/** How long a body that nobody wants may take to its end. */
const discardMs = 1_000;

/**
 * Reads one response straight from the parser: without a stream, whose events and buffers cost more than all else that
 * a small answer needs.
 */
export class ResponseHandler<Value> implements Dispatcher.DispatchHandler, ResponseControl<Value> {
  readonly #read: ReadResponse<Value>;
  readonly #resolve: (value: Value) => void;
  readonly #reject: (error: unknown) => void;
  #controller: Dispatcher.DispatchController | undefined;
  #reader: BodyReader<Value> | undefined;
  #abortedWith: Error | undefined;
  #limitTimer: NodeJS.Timeout | undefined;
  #isSettled = false;
  #interim = 0;
  readonly #turn = new Turn();

  constructor(read: ReadResponse<Value>, resolve: (value: Value) => void, reject: (error: unknown) => void) {
    this.#read = read;
    this.#resolve = resolve;
    this.#reject = reject;
  }

  /** Whether anything of the request can have reached the server. */
  get isSent(): boolean {
    return this.#controller !== undefined;
  }

  /** Ends the request, whether it was sent already or still waits for a connection. */
  abort(error: Error): void {
    this.#fail(error);
    this.#abortedWith = error;
    this.#controller?.abort(error);
  }

  settle(value: Value): void {
    if (this.#isSettled) return;
    this.#isSettled = true;
    this.#resolve(value);
  }

  limit(ms: number): void {
    clearTimeout(this.#limitTimer);
    this.#limitTimer = setTimeout(() => this.#controller?.abort(new Error('its time is over')), ms);
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    if (this.#abortedWith !== undefined) controller.abort(this.#abortedWith);
  }

  onResponseStart(
    _controller: Dispatcher.DispatchController,
    status: number,
    headers: IncomingHttpHeaders,
  ): void {
    if (status < 200) {
      this.#interim += 1;
      if (this.#interim > interimMax)
        this.abort(new HttpFault('malformed', 'it sends interim responses without end'));
      return;
    }
    try {
      this.#reader = this.#read({ status, headers }, this);
    } catch (error) {
      this.#fail(error);
      this.#reader = discarding(undefined as Value);
      this.limit(discardMs);
    }
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    this.#turn.begin();
    try {
      this.#reader?.take(chunk);
    } catch (error) {
      this.#fail(error);
      controller.abort(error instanceof Error ? error : new Error('its body is of no use'));
      return;
    }
    if (!this.#turn.end()) return;
    controller.pause();
    setImmediate(() => controller.resume());
  }

  onResponseEnd(): void {
    this.#finish((reader) => reader?.end());
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    this.#finish((reader) => {
      if (reader?.broken === undefined) throw error;
      return reader.broken(error);
    });
  }

  #finish(outcomeOf: (reader: BodyReader<Value> | undefined) => Value | undefined): void {
    clearTimeout(this.#limitTimer);
    try {
      const value = outcomeOf(this.#reader) as Value;
      this.settle(value);
    } catch (error) {
      this.#fail(error);
    }
  }

  #fail(error: unknown): void {
    if (this.#isSettled) return;
    this.#isSettled = true;
    this.#reject(error);
  }
}
