import type { Service } from './context.ts';

/** As much of a web `Request` as routes look at, so that a hot route can do without making one. */
export interface IncomingRequest {
  readonly method: string;
  /** Absolute or from the path on; routes look at the query only. */
  readonly url: string;
  readonly headers: { get(name: string): string | null };
  readonly body: unknown;
  arrayBuffer(): Promise<ArrayBuffer | Uint8Array>;
}

/** What a route answers. Its headers belong to this one answer: whoever writes it may add to them. */
export interface Answer {
  readonly status: number;
  readonly headers: Record<string, string>;
  readonly body: string | Uint8Array<ArrayBuffer> | null;
}

/** One resource: from a request to its answer. @throws Problem */
export type Route = (
  request: IncomingRequest,
  requestId: string,
  service: Service,
) => Answer | Promise<Answer>;

/** A value as a JSON answer. */
export const jsonAnswer = (value: unknown, requestId: string, status = 200): Answer => ({
  status,
  headers: { 'content-type': 'application/json', 'cache-control': 'no-store', 'x-request-id': requestId },
  body: JSON.stringify(value),
});
