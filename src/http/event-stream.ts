import { limits } from '../core/limits.ts';
import type { PendingCall, SettledCall } from '../dispatch/ports.ts';
import type { Service } from './context.ts';
import type { Answer, StreamedBody } from './exchange.ts';
import { unexpected } from './problem.ts';

/** Whatever stands between cuts a line that is silent for long (O27); this is well below 15 s. */
const commentEveryMs = 10_000;
/** For how long a reader may take nothing of what waits for it: this, and at most one comment's time more. */
const stalledAfterMs = 60_000;
/** How long calls that have ended are still work in hand when their reader takes nothing. */
const lingerMs = 2_000;
/** Bytes that wait for a slow reader before progress is no longer told to it. */
const backlogBytesMax = 65_536;
/** Bytes handed on at a time, so that a reader who takes a large event slowly is seen to take it. */
const sliceBytesMax = 65_536;
const comment = Buffer.from(':\n\n');

/** Calls on their way, of which a caller is told while they run. */
interface Running<T> {
  readonly settled: Promise<T>;
  leave(): void;
}

/** Is told each call as it begins, and the place of its output among those of the request. */
export type OnBegun = (pending: PendingCall, index: number) => void;

/** The calls of one request, and how their ends are told. */
export interface StreamedCalls<T> {
  begin(onBegun: OnBegun): Running<T>;
  /** The output of one call. */
  item(settled: SettledCall): unknown;
  /** The body that an answer without a stream would have had. */
  whole(settled: T): unknown;
  /** Bytes of outputs over which that body is not made, and the stream breaks off after the last output. */
  readonly bytesMax?: number;
}

/** Answers with server-sent events: `progress`, `output` and, at the end, `done`. */
export function streamedAnswer<T>(
  calls: StreamedCalls<T>,
  headers: Readonly<Record<string, string>>,
  requestId: string,
  service: Service,
): Answer {
  const { log } = service;
  const stops: (() => void)[] = [];
  let outputBytes = 0;
  const events = new EventQueue({
    explain: (error) => unexpected(error, requestId, log),
    onStalled: () => log.warn('stream.stalled', { request_id: requestId }),
    onGone: () => running.leave(),
    onClosed: () => {
      clearInterval(beat);
      for (const stop of stops) stop();
    },
  });
  const running = calls.begin((pending, index) => {
    const { callId } = pending.call;
    stops.push(
      pending.onProgress((progress) => {
        events.offer('progress', () => ({ id: pending.snapshot().id, call_id: callId, ...progress }));
      }),
    );
    pending.settled.then(
      (settled) => {
        outputBytes += events.send('output', () => ({
          index,
          id: settled.id,
          call_id: callId,
          item: calls.item(settled),
        }));
      },
      // Told once, by the end of all calls.
      () => {},
    );
  });
  const beat = setInterval(() => events.beat(), commentEveryMs);
  const { bytesMax = Number.POSITIVE_INFINITY } = calls;
  running.settled.then(
    (settled) => {
      if (events.isOver) return;
      if (outputBytes <= bytesMax) {
        events.end('done', () => calls.whole(settled));
        return;
      }
      log.warn('stream.too_large', { request_id: requestId, bytes: outputBytes, bytes_max: bytesMax });
      events.fail(new Error(`the outputs are more than ${bytesMax} bytes together`));
    },
    (error: unknown) => events.fail(unexpected(error, requestId, log)),
  );
  return {
    status: 200,
    headers: {
      'content-type': 'text/event-stream',
      'cache-control': 'no-store',
      'x-accel-buffering': 'no',
      'x-request-id': requestId,
      ...headers,
    },
    body: events.body,
  };
}

/** What a queue of events tells, and asks. */
interface QueueOwner {
  /** What a reader is told of a fault in writing an event. */
  explain(fault: unknown): Error;
  onStalled(): void;
  /** Nobody takes events any more, though not all had come. */
  onGone(): void;
  onClosed(): void;
}

/** Events on their way to one reader, who takes them at a speed of its own, or not at all. */
class EventQueue {
  readonly body: StreamedBody;
  readonly #owner: QueueOwner;
  // A first comment, so that the head of the answer goes out before anything has happened.
  readonly #waiting: Buffer[] = [comment];
  #waitingBytes = comment.length;
  /** Made when the reader gets to it, since it repeats what waits before it. */
  #last: (() => Buffer) | undefined;
  #failure: Error | undefined;
  #isOver = false;
  #isClosed = false;
  #hasLeft = false;
  /** Comments' times in which the reader has taken nothing of what waited. */
  #idleBeats = 0;
  #lingering: NodeJS.Timeout | undefined;
  #controller: ReadableStreamDefaultController<Uint8Array> | undefined;
  #release = (): void => {};
  #wake = (): void => {};

  constructor(owner: QueueOwner) {
    this.#owner = owner;
    const ended = new Promise<void>((resolve) => {
      this.#release = resolve;
    });
    // The events as bytes; handed on when the reader asks for them, so that nothing piles up anywhere else.
    const stream = new ReadableStream<Uint8Array>(
      {
        start: (controller) => {
          this.#controller = controller;
        },
        pull: () => this.#pull(),
        cancel: () => {
          this.#close();
          this.#leave();
        },
      },
      { highWaterMark: 0 },
    );
    this.body = { stream, ended };
  }

  /** Whether no event is taken any more. */
  get isOver(): boolean {
    return this.#isOver;
  }

  /** An event that has to arrive; gives its size. */
  send(event: string, data: () => unknown): number {
    if (this.#isOver) return 0;
    try {
      const bytes = written(event, data());
      this.#push(bytes);
      return bytes.length;
    } catch (error) {
      this.#failAndLeave(error);
      return 0;
    }
  }

  /** An event that a reader who does not keep up goes without. */
  offer(event: string, data: () => unknown): void {
    if (this.#waitingBytes < backlogBytesMax) this.send(event, data);
  }

  beat(): void {
    if (this.#waitingBytes === 0 && !this.#isOver) this.#push(comment);
    else this.#idleBeats += 1;
    if (this.#idleBeats * commentEveryMs > stalledAfterMs) this.#cutStalled();
  }

  /** The last event; nothing comes after it. */
  end(event: string, data: () => unknown): void {
    this.#last = () => written(event, data());
    this.#finish();
  }

  /** Breaks off after what has been sent. */
  fail(failure: Error): void {
    if (this.#isOver) return;
    this.#failure = failure;
    this.#finish();
  }

  #failAndLeave(fault: unknown): void {
    this.fail(this.#owner.explain(fault));
    this.#leave();
  }

  // Calls count those who wait for them: one reader leaves once.
  #leave(): void {
    if (this.#hasLeft) return;
    this.#hasLeft = true;
    this.#owner.onGone();
  }

  #finish(): void {
    this.#isOver = true;
    this.#lingering = setTimeout(this.#release, lingerMs);
    this.#wake();
  }

  #push(bytes: Buffer): void {
    // What one event takes is not held against the reader, only what it has left lying before.
    if (this.#waitingBytes > limits.turnOutputBytesMax) {
      this.#cutStalled();
      return;
    }
    this.#waiting.push(bytes);
    this.#waitingBytes += bytes.length;
    this.#wake();
  }

  async #pull(): Promise<void> {
    while (this.#waitingBytes === 0 && !this.#isOver) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
    if (this.#isClosed) return;
    this.#idleBeats = 0;
    this.#lingering?.refresh();
    if (this.#waitingBytes === 0) this.#writeLast();
    const next = this.#take();
    if (next !== undefined) {
      this.#controller?.enqueue(next);
      return;
    }
    if (this.#failure === undefined) this.#controller?.close();
    else this.#controller?.error(this.#failure);
    this.#close();
  }

  #writeLast(): void {
    const last = this.#last;
    this.#last = undefined;
    if (last === undefined) return;
    try {
      const bytes = last();
      this.#waiting.push(bytes);
      this.#waitingBytes += bytes.length;
    } catch (error) {
      this.#failure = this.#owner.explain(error);
    }
  }

  #take(): Buffer | undefined {
    const [first] = this.#waiting;
    if (first === undefined) return undefined;
    const slice = first.subarray(0, sliceBytesMax);
    if (slice.length < first.length) this.#waiting[0] = first.subarray(sliceBytesMax);
    else this.#waiting.shift();
    this.#waitingBytes -= slice.length;
    return slice;
  }

  #cutStalled(): void {
    if (this.#isClosed) return;
    this.#owner.onStalled();
    this.#controller?.error(new Error('the reader of the stream takes nothing'));
    this.#close();
    this.#leave();
  }

  #close(): void {
    this.#isClosed = true;
    this.#isOver = true;
    this.#waiting.length = 0;
    this.#waitingBytes = 0;
    this.#last = undefined;
    clearTimeout(this.#lingering);
    this.#release();
    this.#wake();
    this.#owner.onClosed();
  }
}

const written = (event: string, data: unknown): Buffer =>
  Buffer.from(`event: ${event}\ndata: ${JSON.stringify(data)}\n\n`);
