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

/**
 * Cuts a server-sent event stream into events. Unlike the reader inside the SDK it has a bound on the size of one
 * event, however the server cuts its writes (MT-9).
 */
export class EventStream {
  readonly #charsMax: number;
  readonly #onEvent: (event: ServerEvent) => void;
  readonly #decoder = new StringDecoder('utf8');
  readonly #unfinished = new TextGatherer();
  #endsWithReturn = false;
  readonly #data = new TextGatherer();
  #hasData = false;
  #id: string | undefined;
  #type = '';
  #retryMs: number | undefined;

  constructor(charsMax: number, onEvent: (event: ServerEvent) => void) {
    this.#charsMax = charsMax;
    this.#onEvent = onEvent;
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
    for (const line of lines) {
      if (this.#unfinished.chars === 0) this.#line(line);
      else {
        this.#unfinished.add(line);
        this.#line(this.#unfinished.take());
      }
    }
    if (unfinished !== '') this.#unfinished.add(unfinished);
    if (this.#unfinished.chars + this.#data.chars > this.#charsMax) throw new EventTooLarge();
  }

  #line(line: string): void {
    if (line === '') {
      this.#dispatch();
      return;
    }
    const colon = line.indexOf(':');
    if (colon === 0) return;
    const field = colon === -1 ? line : line.slice(0, colon);
    const value = colon === -1 ? '' : line.slice(line[colon + 1] === ' ' ? colon + 2 : colon + 1);
    if (field === 'data') {
      // The line feed counts: lines without a value must not be free.
      if (this.#hasData) this.#data.add('\n');
      this.#data.add(value);
      this.#hasData = true;
      if (this.#data.chars > this.#charsMax) throw new EventTooLarge();
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
    if (!isEmpty) this.#onEvent(event);
  }
}
