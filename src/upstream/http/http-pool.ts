import { Pool } from 'undici';
import { type Credentials, CredentialsRefused } from '../credentials.ts';
import { HttpFault } from '../fault.ts';
import { type ReadResponse, ResponseHandler } from './http-response.ts';
import { Unauthorized } from './http-status.ts';
import { AddressRefused, outboundConnector } from './outbound.ts';

export type OutgoingHeaders = Readonly<Record<string, string>>;

/** One request to the server's own origin. */
export interface OutgoingRequest {
  readonly method: 'POST' | 'GET' | 'DELETE';
  readonly path: string;
  readonly headers: OutgoingHeaders;
  readonly body?: string;
  /** Whether the path is one of a session; else a header says that. */
  readonly isSession?: boolean;
}

export interface HttpPoolOptions {
  /** The URL of the server; requests go to no other origin. */
  readonly url: URL;
  /** Configured headers; they win over those of a request. */
  readonly headers: OutgoingHeaders;
  /** What is sent on top of them; undefined where nothing is. */
  readonly credentials: Credentials | undefined;
  readonly connectTimeoutMs: number;
  readonly connectionsMax: number;
}

/** Ends one request, or whatever takes its place: a second sending, a wait. At most one thing is under way at a time. */
export class Cancellation {
  #isCancelled = false;
  #undo: (() => void) | undefined;

  get isCancelled(): boolean {
    return this.#isCancelled;
  }

  /** Sets what ends the thing that is now under way. */
  during(undo: (() => void) | undefined): void {
    this.#undo = undo;
    if (this.#isCancelled) undo?.();
  }

  cancel(): void {
    this.#isCancelled = true;
    this.#undo?.();
  }
}

/**
 * The connections to one origin. Requests carry the configured headers and the credentials, follow no redirect, and
 * are sent a second time only when the server wanted other credentials; what goes wrong is an `HttpFault`.
 */
export class HttpPool {
  readonly #pool: Pool;
  readonly #configured: OutgoingHeaders;
  readonly #credentials: Credentials | undefined;

  constructor(options: HttpPoolOptions) {
    this.#configured = inLowerCase(options.headers);
    this.#credentials = options.credentials;
    this.#pool = new Pool(options.url.origin, {
      connect: outboundConnector({
        rules: { writtenBy: 'operator', allowLoopback: true },
        connectTimeoutMs: options.connectTimeoutMs,
      }),
      connections: options.connectionsMax,
      // Deadlines are the caller's; undici's own would end every call and stream after five minutes.
      headersTimeout: 0,
      bodyTimeout: 0,
    });
  }

  /** What the response to a request comes to, as `read` sees it. @throws HttpFault */
  async request<Value>(
    request: OutgoingRequest,
    read: ReadResponse<Value>,
    cancellation: Cancellation,
  ): Promise<Value> {
    const credentials = this.#credentials;
    if (credentials === undefined) return this.#send(request, undefined, read, cancellation);
    const first = await headersOf(credentials);
    try {
      return await this.#send(request, first, read, cancellation);
    } catch (fault) {
      // A refusal of credentials proves that nothing was run.
      if (!(fault instanceof Unauthorized) || cancellation.isCancelled) throw fault;
      if (!(await renewed(credentials, first, fault))) throw fault;
    }
    return this.#send(request, await headersOf(credentials), read, cancellation);
  }

  #send<Value>(
    { method, path, headers, body }: OutgoingRequest,
    credentials: OutgoingHeaders | undefined,
    read: ReadResponse<Value>,
    cancellation: Cancellation,
  ): Promise<Value> {
    return new Promise<Value>((resolve, reject) => {
      const handler = new ResponseHandler(read, resolve, (error) => reject(faultOf(error, handler)));
      cancellation.during(() => handler.abort(new HttpFault('cut', 'the request was ended from this side')));
      if (cancellation.isCancelled) return;
      this.#pool.dispatch(
        {
          method,
          path,
          headers: { ...headers, ...this.#configured, ...(credentials && inLowerCase(credentials)) },
          body: body ?? null,
        },
        handler,
      );
    });
  }

  /** Ends everything that is open. */
  async close(): Promise<void> {
    await this.#pool.destroy();
  }
}

const inLowerCase = (headers: OutgoingHeaders): OutgoingHeaders =>
  Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]));

/** @throws HttpFault */
async function headersOf(credentials: Credentials): Promise<OutgoingHeaders> {
  try {
    const headers = credentials.headers();
    return headers instanceof Promise ? await headers : headers;
  } catch (error) {
    throw asFault(error);
  }
}

/** @throws HttpFault */
async function renewed(
  credentials: Credentials,
  refused: OutgoingHeaders,
  { challenge }: Unauthorized,
): Promise<boolean> {
  try {
    return await credentials.renew(refused, challenge);
  } catch (error) {
    throw asFault(error);
  }
}

/** Whatever kept the credentials away, nothing was sent; what it was stays with the fault, for operators. */
function asFault(error: unknown): HttpFault {
  const reason =
    error instanceof CredentialsRefused ? error.message : 'the credentials for it could not be got';
  const fault = new HttpFault('refused', reason);
  fault.cause = error;
  return fault;
}

function faultOf(error: unknown, { isSent }: { readonly isSent: boolean }): HttpFault {
  if (error instanceof HttpFault) return error;
  return isSent
    ? new HttpFault('cut', `the connection broke${codeOf(error)}`)
    : new HttpFault('unreachable', unsentReason(error));
}

const codeOf = (error: unknown): string =>
  error instanceof Error && 'code' in error && typeof error.code === 'string' ? ` (${error.code})` : '';

/** Why nothing was sent, in words that name no address (O24). */
function unsentReason(error: unknown): string {
  if (error instanceof AddressRefused) return error.message;
  const code = error instanceof Error && 'code' in error ? error.code : undefined;
  switch (code) {
    case 'ECONNREFUSED':
      return 'it refused the connection (ECONNREFUSED)';
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return `its host name could not be resolved (${code})`;
    case 'UND_ERR_CONNECT_TIMEOUT':
    case 'ETIMEDOUT':
      return `it did not accept a connection in time (${code})`;
    case 'UND_ERR_INVALID_ARG':
      return 'its URL, or the headers for it, cannot be sent over HTTP';
    default:
      return `no connection came about${codeOf(error)}`;
  }
}
