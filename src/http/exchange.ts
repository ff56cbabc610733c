import type { Service } from './context.ts';

/** As much of a web `Request` as routes look at, so that a hot route can do without making one. */
export interface IncomingRequest {
  readonly method: string;
  /** Absolute or from the path on; routes look at the query only. */
  readonly url: string;
  readonly headers: { get(name: string): string | null };
  readonly body: unknown;
  /** Aborted when the caller hangs up before the answer is finished. */
  readonly signal: {
    readonly aborted: boolean;
    addEventListener(type: 'abort', listener: () => void): void;
  };
  arrayBuffer(): Promise<ArrayBuffer | Uint8Array>;
}

/** A body that is written while its calls run. */
export interface StreamedBody {
  readonly stream: ReadableStream<Uint8Array>;
  /** Resolves when its calls have ended and it has been taken, or when nobody takes it any more, or for a while. */
  readonly ended: Promise<void>;
}

/** What a route answers. Its headers belong to this one answer: whoever writes it may add to them. */
export interface Answer {
  readonly status: number;
  readonly headers: Record<string, string>;
  readonly body: string | Uint8Array<ArrayBuffer> | StreamedBody | null;
}

/** One resource: from a request, and the id in its path where it has one, to its answer. @throws Problem */
export type Route = (
  request: IncomingRequest,
  requestId: string,
  service: Service,
  id: string,
) => Answer | Promise<Answer>;

export const isStreamed = (body: Answer['body']): body is StreamedBody =>
  body !== null && typeof body === 'object' && 'stream' in body;

/** Gives something back that an answer needs until the last of it: at once for one that is there, or never came. */
export function afterAnswer(answer: Answer | undefined, release: () => void): void {
  if (answer !== undefined && isStreamed(answer.body)) void answer.body.ended.then(release);
  else release();
}

/** An answer that says all with its status. */
export const emptyAnswer = (requestId: string): Answer => ({
  status: 204,
  headers: { 'cache-control': 'no-store', 'x-request-id': requestId },
  body: null,
});

/** A value as a JSON answer. The headers, if any are given, become the answer's own. */
export const jsonAnswer = (
  value: unknown,
  requestId: string,
  status = 200,
  headers: Record<string, string> = {},
): Answer => jsonTextAnswer(JSON.stringify(value), requestId, status, headers);

/** As `jsonAnswer`, of JSON that has been written already. */
export function jsonTextAnswer(
  text: string,
  requestId: string,
  status: number,
  headers: Record<string, string>,
): Answer {
  headers['content-type'] = 'application/json';
  headers['cache-control'] = 'no-store';
  headers['x-request-id'] = requestId;
  return { status, headers, body: text };
}
