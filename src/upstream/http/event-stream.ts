import { StringDecoder } from 'node:string_decoder';
import { TextGatherer } from './text-gatherer.ts';

/** One event of a server-sent event stream (WHATWG HTML, 9.2). */
export interface ServerEvent {
  /** The id that this event set, empty included; undefined when it set none. */
  readonly id: string | undefined;
  readonly type: string;
  readonly data: string;
  /** How long the server wants a client to wait before it asks for the rest. */
  readonly retryMs: number | undefined;
}

/** An event grew over its bound. */
export class EventTooLarge extends Error {}

/** What is known of an event that was dropped: the first and the last characters of its data. */
export interface OversizeEvent {
  readonly head: string;
  readonly tail: string;
}

/** Whom an event stream tells what came. */
export interface EventHandlers {
  onEvent(event: ServerEvent): void;
  /** Told of each event over the bound, at its end; without it such an event ends the stream. */
  onOversize?(event: OversizeEvent): void;
  /** Told of each line that carries nothing: a comment, or an empty one with no event before it. */
  onNothing?(): void;
}

/** Enough to find the id of an answer in. */
const edgeChars = 512;

/**
 * Cuts a server-sent event stream into events. Unlike the reader inside the SDK it has a bound on the size of one
 * event, however the server cuts its writes (MT-9).
 */
export class EventStream {
  readonly #charsMax: number;
  readonly #handlers: EventHandlers;
  readonly #decoder = new StringDecoder('utf8');
  readonly #unfinished = new TextGatherer();
  #endsWithReturn = false;
  readonly #data = new TextGatherer();
  #hasData = false;
  #id: string | undefined;
  #type = '';
  #retryMs: number | undefined;

  /** The event that is being dropped. */
  #dropped: OversizeEvent | undefined;
  #dropsWithinLine = false;

  constructor(charsMax: number, handlers: EventHandlers) {
    this.#charsMax = charsMax;
    this.#handlers = handlers;
  }

  /** Takes the next bytes. @throws EventTooLarge */
  push(chunk: Buffer): void {
    let text = this.#decoder.write(chunk);
    // A line end of two characters may be cut between them.
    if (this.#endsWithReturn && text.startsWith('\n')) text = text.slice(1);
    if (text === '') return;
    this.#endsWithReturn = text.endsWith('\r');

    const lines = text.split(/\r\n|\n|\r/);
    const unfinished = lines.pop() ?? '';
    for (const line of lines) this.#endLine(line);
    if (unfinished === '') return;
    if (this.#dropped !== undefined) this.#drop(unfinished);
    else {
      this.#unfinished.add(unfinished);
      this.#keepBound();
    }
  }

  #endLine(rest: string): void {
    if (this.#dropped !== undefined) {
      if (rest === '' && !this.#dropsWithinLine) this.#dispatch();
      else this.#drop(rest);
      this.#dropsWithinLine = false;
    } else if (this.#unfinished.chars === 0) this.#line(rest);
    else {
      this.#unfinished.add(rest);
      this.#line(this.#unfinished.take());
    }
  }

  /** @throws EventTooLarge */
  #keepBound(): void {
    if (this.#unfinished.chars + this.#data.chars <= this.#charsMax) return;
    if (this.#handlers.onOversize === undefined) throw new EventTooLarge();
    const line = this.#unfinished.take();
    const data = this.#data.take() + line.replace(/^data: ?/, '');
    this.#dropped = { head: data.slice(0, edgeChars), tail: data.slice(-edgeChars) };
    this.#dropsWithinLine = line !== '';
  }

  #drop(text: string): void {
    if (this.#dropped === undefined) return;
    this.#dropsWithinLine = true;
    const { head, tail } = this.#dropped;
    this.#dropped = { head, tail: (tail + text).slice(-edgeChars) };
  }

  #line(line: string): void {
    if (line === '') {
      this.#dispatch();
      return;
    }
    const colon = line.indexOf(':');
    if (colon === 0) {
      this.#handlers.onNothing?.();
      return;
    }
    const field = colon === -1 ? line : line.slice(0, colon);
    const value = colon === -1 ? '' : line.slice(line[colon + 1] === ' ' ? colon + 2 : colon + 1);
    if (field === 'data') {
      // The line feed counts: lines without a value must not be free.
      if (this.#hasData) this.#data.add('\n');
      this.#data.add(value);
      this.#hasData = true;
      this.#keepBound();
    } else if (field === 'event') this.#type = value;
    else if (field === 'id' && !value.includes('\0')) this.#id = value;
    else if (field === 'retry' && /^\d+$/.test(value)) this.#retryMs = Number(value);
  }

  #dispatch(): void {
    const event = {
      id: this.#id,
      type: this.#type === '' ? 'message' : this.#type,
      data: this.#data.take(),
      retryMs: this.#retryMs,
    };
    const isEmpty = !this.#hasData && this.#id === undefined && this.#retryMs === undefined;
    this.#hasData = false;
    this.#id = undefined;
    this.#type = '';
    this.#retryMs = undefined;
    const dropped = this.#dropped;
    this.#dropped = undefined;
    if (dropped !== undefined) this.#handlers.onOversize?.(dropped);
    else if (isEmpty) this.#handlers.onNothing?.();
    else this.#handlers.onEvent(event);
  }
}
