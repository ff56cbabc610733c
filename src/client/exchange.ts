import { CallgateError, type CallgateErrorCode, type ProblemError } from './error.ts';

/** How much longer than it is held a request may take before it is taken for lost. */
const graceMs = 30_000;
/** What is left of the time for the answer of a request that is held to the end. */
const reserveMs = 1_000;
/** How often in a row a request may stay without any answer. */
const lostMax = 12;
const pauseMinMs = 100;
const pauseMaxMs = 5_000;
/** Answers that say nothing about the request itself: it may be sent again as it is. */
const passing: ReadonlySet<number> = new Set([429, 502, 503, 504]);

/** One request, the same each time it is sent. */
export interface Exchange {
  readonly method: 'GET' | 'POST' | 'DELETE';
  readonly url: URL;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string;
  /** How long callgate may hold it until its calls have ended; undefined where it waits for none. */
  readonly holdMs: number | undefined;
  readonly timeoutMs: number;
  readonly signal: AbortSignal | undefined;
}

/** An answer, read whole. */
export interface Reply {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
}

/** How requests are sent. */
export interface Sender {
  readonly fetch: typeof fetch;
  readonly token: () => string | Promise<string>;
}

/**
 * Sends a request until it has its result. It is repeated byte for byte where its answer was lost, where callgate asks
 * for it to come later, and while calls run: callgate knows it again by the ids in it, so nothing runs twice.
 * @throws CallgateError, or the reason of the caller's signal
 */
export async function exchange(request: Exchange, sender: Sender): Promise<Reply> {
  const endMs = performance.now() + request.timeoutMs;
  let lost = 0;
  for (let tries = 0; ; tries += 1) {
    const attempt = await send(request, sender, endMs - performance.now());
    if (attempt.reply !== undefined && isResult(attempt.reply, request)) return attempt.reply;
    lost = attempt.reply === undefined ? lost + 1 : 0;
    const pauseMs = Math.max(pauseMinMs, askedPauseMs(attempt.reply) ?? backOffMs(tries));
    if (lost === lostMax || performance.now() + pauseMs >= endMs) throw givenUp(attempt, request);
    await pause(pauseMs, request.signal);
  }
}

/** An answer, or what came instead of one. */
type Attempt = { readonly reply: Reply } | { readonly reply?: undefined; readonly cause: unknown };

async function send(request: Exchange, { fetch, token }: Sender, leftMs: number): Promise<Attempt> {
  const { method, url, headers, body, holdMs, signal } = request;
  signal?.throwIfAborted();
  const wait =
    holdMs === undefined ? undefined : Math.floor(Math.max(0, Math.min(holdMs, leftMs - reserveMs)) / 1_000);
  // Asked for each time, since a token may run out before the calls have.
  const sent = new Headers({ ...headers, authorization: `Bearer ${bearer(await token())}` });
  if (wait !== undefined) sent.set('prefer', `wait=${wait}`);
  const limit = AbortSignal.timeout(Math.max(1, Math.ceil(Math.min(leftMs, (holdMs ?? 0) + graceMs))));
  try {
    const response = await fetch(url, {
      method,
      headers: sent,
      ...(body === undefined ? {} : { body }),
      // callgate sends none, and one of somebody else could lead the token elsewhere.
      redirect: 'manual',
      signal: signal === undefined ? limit : AbortSignal.any([signal, limit]),
    });
    const { status, headers: received } = response;
    return { reply: { status, headers: received, text: await response.text() } };
  } catch (cause) {
    signal?.throwIfAborted();
    return { cause };
  }
}

/** A token that was read from a file may end with a newline. @throws TypeError, which tells nothing of the token */
function bearer(token: string): string {
  const text = token.trim();
  if (!/^[\x21-\x7e]+$/.test(text))
    throw new TypeError('the token for callgate is empty, or has characters that no bearer token has');
  return text;
}

/** Whether sending the request again would bring nothing else. @throws CallgateError where it was refused */
function isResult(reply: Reply, { holdMs }: Exchange): boolean {
  if (passing.has(reply.status)) return false;
  if (reply.status >= 300 && reply.status !== 304) throw refusal(reply);
  return reply.status !== 202 || holdMs === undefined;
}

function givenUp(attempt: Attempt, { timeoutMs, url }: Exchange): CallgateError {
  if (attempt.reply === undefined) {
    const hint = 'is callgate there? The same request again is safe, whatever became of this one';
    const message = `${url.origin} gives no answer: ${hint}`;
    return new CallgateError('unreachable', message, { cause: attempt.cause });
  }
  if (attempt.reply.status !== 202) return refusal(attempt.reply);
  const message = `calls have not ended in ${timeoutMs} ms; they run on, and the same request again collects them`;
  return new CallgateError('unfinished', message, factsOf(attempt.reply));
}

/** The error that an answer tells of. */
function refusal(reply: Reply): CallgateError {
  const facts = factsOf(reply);
  const isProblem = (reply.headers.get('content-type') ?? '').startsWith('application/problem+json');
  if (!isProblem) return unexpected(reply);
  const problem = parse(reply) as {
    code: CallgateErrorCode;
    detail: string;
    errors?: readonly ProblemError[];
  };
  return new CallgateError(problem.code, problem.detail, { ...facts, errors: problem.errors });
}

/** The JSON of an answer. @throws CallgateError where it is none */
export function parse(reply: Reply, reviver?: (key: string, value: unknown) => unknown): unknown {
  try {
    return JSON.parse(reply.text, reviver);
  } catch (cause) {
    throw unexpected(reply, cause);
  }
}

const unexpected = (reply: Reply, cause?: unknown): CallgateError =>
  new CallgateError(
    'unexpected_answer',
    `the answer, with status ${reply.status}, is none of callgate's: check the URL, and what stands in between`,
    { ...factsOf(reply), cause },
  );

const factsOf = ({ status, headers }: Reply): { status: number; requestId: string | undefined } => ({
  status,
  requestId: headers.get('x-request-id') ?? undefined,
});

/** Whole seconds, as callgate writes them; a date, which others may write, is passed over. */
function askedPauseMs(reply: Reply | undefined): number | undefined {
  const header = reply?.headers.get('retry-after') ?? '';
  return /^\d{1,6}$/.test(header) ? Number(header) * 1_000 : undefined;
}

// Spread, so that callers who were cut off together do not come back together.
const backOffMs = (tries: number): number =>
  Math.min(pauseMaxMs, pauseMinMs * 2 ** Math.min(tries, 10)) * (0.5 + Math.random() / 2);

const pause = (ms: number, signal: AbortSignal | undefined): Promise<void> =>
  new Promise((resolve, reject) => {
    const aborted = (): void => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', aborted);
      resolve();
    }, ms);
    if (signal?.aborted === true) aborted();
    else signal?.addEventListener('abort', aborted, { once: true });
  });
