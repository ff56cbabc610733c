import type { JSONRPCMessage } from '@modelcontextprotocol/sdk/types.js';
import { isObject } from '../../core/json.ts';
import { wellFormedAnswer } from '../answer-faults.ts';
import { HttpFault } from '../fault.ts';
import { BodyText, eventReader, mediaType, type StreamEnd } from './http-body.ts';
import type { Cancellation, HttpPool, OutgoingHeaders, OutgoingRequest } from './http-pool.ts';
import type { BodyReader, ReadResponse } from './http-response.ts';
import { statusReader } from './http-status.ts';

/** What the exchanges of one connection share. */
export interface ExchangeDeps {
  readonly pool: HttpPool;
  readonly messageBytesMax: number;
  /** Whether the rest of an answer that was cut off may be asked for (until protocol 2025-11-25). */
  readonly mayResume: boolean;
  /** Takes each message that comes beside the answer. */
  readonly deliver: (message: unknown) => void;
  /** Told of all else that comes beside the answer. */
  readonly noteUnasked: () => void;
}

/** The answer to a request, and the session that the server named with it. */
export interface Answered {
  readonly kind: 'answered';
  readonly message: JSONRPCMessage;
  readonly sessionId: string | undefined;
}

type Id = number | string;

/** How long a server may keep an answer's stream open after the answer. */
const afterAnswerMs = 250;
/** How long a client waits before it asks for the rest of a stream, or opens it again. */
export const resumeWaitMs = { min: 250, usual: 1_000, max: 30_000 } as const;

/**
 * Sends one JSON-RPC request and waits for its answer, in whichever framing it comes, asking for the rest of an event
 * stream where the server allows it. A stream that has ended leaves nobody waiting.
 * @throws HttpFault
 */
export async function exchange(
  id: Id,
  request: OutgoingRequest,
  cancellation: Cancellation,
  deps: ExchangeDeps,
): Promise<Answered> {
  const { pool, mayResume } = deps;
  let outcome = await pool.request(request, answerTo(id, request, deps), cancellation);
  let retryMs: number = resumeWaitMs.usual;
  let gapMs: number = resumeWaitMs.min;
  let lastId: string | undefined;
  while (outcome.kind === 'ended') {
    // Without an event id there is nothing to ask for: the answer is lost with the stream.
    if (outcome.lastId === undefined || !mayResume)
      throw new HttpFault('cut', 'its answer ended before the result');
    retryMs = outcome.retryMs ?? retryMs;
    // A stream that brings nothing new is asked for less and less often, whatever the server says.
    gapMs = outcome.lastId === lastId ? 2 * gapMs : resumeWaitMs.min;
    lastId = outcome.lastId;
    await pause(Math.min(Math.max(retryMs, gapMs), resumeWaitMs.max), cancellation);
    const rest = listeningRequest(request.path, request.headers, lastId);
    outcome = await pool.request(rest, restReader(id, rest, deps), cancellation).catch(restFault);
  }
  return outcome;
}

/** The request that opens an event stream, or asks for the rest of one. */
export function listeningRequest(
  path: string,
  headers: OutgoingHeaders,
  lastId: string | undefined,
): OutgoingRequest {
  const { 'content-type': _, ...rest } = headers;
  const resumed = lastId === undefined ? {} : { 'last-event-id': lastId };
  return { method: 'GET', path, headers: { ...rest, accept: 'text/event-stream', ...resumed } };
}

/** @throws HttpFault when the text is not JSON */
export function parseMessage(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new HttpFault('malformed', 'its answer is not JSON');
  }
}

const answerTo =
  (id: Id, request: OutgoingRequest, deps: ExchangeDeps): ReadResponse<Answered | StreamEnd> =>
  (head, control) => {
    if (head.status >= 300) return statusReader(head, request, control);
    const named = head.headers['mcp-session-id'];
    const sessionId = typeof named === 'string' && named !== '' ? named : undefined;
    switch (mediaType(head)) {
      case 'application/json': {
        const body = new BodyText(head.headers, deps.messageBytesMax);
        return {
          take: (chunk) => body.take(chunk),
          end: () => ({ kind: 'answered', message: answerInBody(body.text(), id, deps), sessionId }),
        };
      }
      case 'text/event-stream':
        return streamReader(id, deps, (message) => {
          control.settle({ kind: 'answered', message, sessionId });
          control.limit(afterAnswerMs);
        });
      default:
        throw new HttpFault(
          'malformed',
          `it answered with HTTP ${head.status} but without a JSON-RPC message`,
        );
    }
  };

const restReader =
  (id: Id, request: OutgoingRequest, deps: ExchangeDeps): ReadResponse<Answered | StreamEnd> =>
  (head, control) => {
    // Through the status reader for the sake of credentials that have run out.
    if (head.status >= 300) return statusReader(head, request, control);
    if (head.status !== 200 || mediaType(head) !== 'text/event-stream') throw lostRest(head.status);
    return streamReader(id, deps, (message) => {
      control.settle({ kind: 'answered', message, sessionId: undefined });
      control.limit(afterAnswerMs);
    });
  };

/** The call was sent long ago: no fault of asking for the rest of its answer proves that it did not run. */
function restFault(fault: HttpFault): never {
  if (fault.kind === 'malformed' || fault.kind === 'oversize' || fault.kind === 'cut') throw fault;
  throw lostRest(fault.facts.status);
}

const lostRest = (status: number | undefined): HttpFault =>
  new HttpFault(
    'cut',
    `the rest of its answer could not be fetched${status === undefined ? '' : ` (HTTP ${status})`}`,
  );

function answerInBody(text: string, id: Id, { deliver }: ExchangeDeps): JSONRPCMessage {
  const parsed = parseMessage(text);
  let answer: Readonly<Record<string, unknown>> | undefined;
  for (const message of Array.isArray(parsed) ? parsed : [parsed]) {
    if (isAnswerTo(message, id)) answer ??= message;
    else deliver(message);
  }
  if (answer === undefined) throw new HttpFault('malformed', 'its answer belongs to no request of this call');
  return wellFormed(id, answer);
}

function streamReader(
  id: Id,
  { messageBytesMax, deliver, noteUnasked }: ExchangeDeps,
  onAnswer: (message: JSONRPCMessage) => void,
): BodyReader<StreamEnd> {
  let isAnswered = false;
  return eventReader(messageBytesMax, {
    onEvent({ type, data }) {
      if (type !== 'message') return noteUnasked();
      const message = parseMessage(data);
      if (!isAnswerTo(message, id)) deliver(message);
      else if (!isAnswered) {
        isAnswered = true;
        onAnswer(wellFormed(id, message));
      }
    },
    onNothing: noteUnasked,
  });
}

/** Some servers send the id back as a string. */
const isAnswerTo = (message: unknown, id: Id): message is Readonly<Record<string, unknown>> =>
  isObject(message) && (message.id === id || message.id === String(id)) && !('method' in message);

function wellFormed(id: Id, message: Readonly<Record<string, unknown>>): JSONRPCMessage {
  const answer = wellFormedAnswer(id, message);
  if (answer !== undefined) return answer;
  throw new HttpFault('malformed', 'its answer has neither a result nor an error in the form of JSON-RPC');
}

/** Waits; ends at once when the wait is cancelled. */
export function pause(ms: number, cancellation: Cancellation): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    cancellation.during(() => {
      clearTimeout(timer);
      resolve();
    });
  });
}
