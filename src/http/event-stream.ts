import type { PendingCall, SettledCall } from '../dispatch/ports.ts';
import type { Service } from './context.ts';
import type { Answer, StreamedBody } from './exchange.ts';
import { unexpected } from './problem.ts';

/** Whatever stands between cuts a line that is silent for long (O27); this is well below 15 s. */
const commentEveryMs = 10_000;
/** Characters that wait for a slow reader before progress is no longer told to it. */
const backlogCharsMax = 65_536;

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
}

/** Answers with server-sent events: `progress`, `output` and, at the end, `done`. */
export function streamedAnswer<T>(
  calls: StreamedCalls<T>,
  headers: Readonly<Record<string, string>>,
  requestId: string,
  service: Service,
): Answer {
  const events = new EventQueue();
  const stops: (() => void)[] = [];
  const running = calls.begin((pending, index) => {
    const { callId } = pending.call;
    stops.push(
      pending.onProgress((progress) => {
        events.offer('progress', { id: pending.snapshot().id, call_id: callId, ...progress });
      }),
    );
    pending.settled.then(
      (settled) => {
        events.send('output', { index, id: settled.id, call_id: callId, item: calls.item(settled) });
      },
      // Told once, by the end of all calls.
      () => {},
    );
  });
  running.settled.then(
    (settled) => {
      events.send('done', calls.whole(settled));
      events.end();
    },
    (error: unknown) => events.fail(unexpected(error, requestId, service.log)),
  );
  const { stream, ended } = events.body(() => running.leave());
  const beat = setInterval(() => events.beat(), commentEveryMs);
  return {
    status: 200,
    headers: {
      'content-type': 'text/event-stream',
      'cache-control': 'no-store',
      'x-accel-buffering': 'no',
      'x-request-id': requestId,
      ...headers,
    },
    body: {
      stream,
      ended: ended.then(() => {
        clearInterval(beat);
        for (const stop of stops) stop();
      }),
    },
  };
}

/** Events on their way to one reader, who takes them at a speed of its own. */
class EventQueue {
  // A first comment, so that the head of the answer goes out before anything has happened.
  #waiting = ':\n\n';
  #isOver = false;
  #isGone = false;
  #failure: Error | undefined;
  #wake: (() => void) | undefined;

  /** An event that has to arrive. */
  send(event: string, data: unknown): void {
    this.#push(`event: ${event}\ndata: ${JSON.stringify(data)}\n\n`);
  }

  /** An event that a reader who does not keep up goes without. */
  offer(event: string, data: unknown): void {
    if (this.#waiting.length < backlogCharsMax) this.send(event, data);
  }

  beat(): void {
    if (this.#waiting === '') this.#push(':\n\n');
  }

  end(): void {
    this.#isOver = true;
    this.#wake?.();
  }

  fail(failure: Error): void {
    this.#failure = failure;
    this.end();
  }

  #push(text: string): void {
    if (this.#isOver) return;
    this.#waiting += text;
    this.#wake?.();
  }

  /** The events as bytes; made when the reader asks for them, so that nothing piles up anywhere else. */
  body(onGone: () => void): StreamedBody {
    let end = (): void => {};
    const ended = new Promise<void>((resolve) => {
      end = resolve;
    });
    const stream = new ReadableStream<Uint8Array>(
      {
        pull: async (controller) => {
          while (this.#waiting === '' && !this.#isOver) {
            await new Promise<void>((resolve) => {
              this.#wake = resolve;
            });
          }
          if (this.#isGone) return;
          if (this.#waiting !== '') {
            controller.enqueue(Buffer.from(this.#waiting));
            this.#waiting = '';
            return;
          }
          if (this.#failure === undefined) controller.close();
          else controller.error(this.#failure);
          end();
        },
        cancel: () => {
          this.#isGone = true;
          this.#waiting = '';
          this.end();
          onGone();
          end();
        },
      },
      { highWaterMark: 0 },
    );
    return { stream, ended };
  }
}
