import { CallgateError } from './error.ts';
import { type Exchange, exchange, parse, type Reply, type Sender } from './exchange.ts';
import type {
  CallRecord,
  CallStatus,
  Declarations,
  FormatName,
  FunctionCallOutput,
  OutcomeCode,
  Shapes,
  TurnResult,
} from './shapes.ts';

export * from './error.ts';
export * from './shapes.ts';

/** Where callgate is, and who calls it. */
export interface ClientOptions {
  /** Such as `http://127.0.0.1:8787`. */
  readonly url: string | URL;
  /** A bearer token, or what gives one that is still good; it is asked before each request is sent. */
  readonly token: string | (() => string | Promise<string>);
  /** Instead of the global `fetch`. */
  readonly fetch?: typeof fetch;
  /** How long a request may take with all its repetitions; 600,000 ms unless said. */
  readonly timeoutMs?: number;
}

/** What may be said of any request. */
export interface RequestOptions {
  /** Gives up waiting. Calls that run then are not waited for by anyone: those that only read are cancelled. */
  readonly signal?: AbortSignal | undefined;
  readonly timeoutMs?: number | undefined;
}

/** Which declarations are wanted. */
export interface DeclarationOptions<Format extends FormatName> extends RequestOptions {
  readonly format: Format;
  /** Aliases, or the beginning of some followed by `*`. */
  readonly server?: string | readonly string[] | undefined;
  /** Names of tools, or the beginning of some followed by `*`. */
  readonly tool?: string | readonly string[] | undefined;
  readonly strict?: 'off' | 'lossless' | undefined;
  readonly namespaces?: boolean | undefined;
  readonly defer?: boolean | undefined;
}

/** What may be said of calls. */
export interface CallOptions extends RequestOptions {
  /** The caller's own name of the conversation or agent run. Like `turn` it goes into a header: ASCII is safe. */
  readonly run?: string | undefined;
  /** The caller's own name of this model answer: another one for each answer, the same where it is sent again. */
  readonly turn?: string | undefined;
  /** The revision of the declarations that the model was shown. */
  readonly revision?: string | undefined;
  readonly render?: 'envelope' | 'text' | undefined;
  /** Seconds for which callgate is to hold each request; 50 unless said. Calls may take longer than that. */
  readonly wait?: number | undefined;
}

/** How a turn is to be taken. */
export interface TurnOptions<Format extends FormatName> extends CallOptions {
  readonly format: Format;
  readonly order?: 'parallel' | 'sequential' | undefined;
  /** `leave`: calls of tools that are not callgate's are listed in `left` and answered by the caller. */
  readonly unknown?: 'answer' | 'leave' | undefined;
}

/** A function call of the Responses API, as the model emitted it. */
export interface FunctionCall {
  readonly type: 'function_call';
  readonly call_id: string;
  readonly name: string;
  readonly arguments: string | object | null;
}

/** The item that answers a call, and what became of it. */
export interface CallResult {
  readonly output: FunctionCallOutput;
  /** callgate's own id of the call. */
  readonly id: string;
  readonly status: CallStatus;
  readonly code: OutcomeCode | undefined;
  /** Whether another post of the same call made it run. */
  readonly replayed: boolean;
}

/** callgate, for the back-end of a model. Whatever is asked of it is safe to ask again. */
export interface Client {
  /** The tools that the caller may use. Unchanged ones are not sent again. */
  declarations<Format extends FormatName>(
    options: DeclarationOptions<Format>,
  ): Promise<Declarations<Shapes[Format]['tool']>>;
  /**
   * Runs the calls of a model's answer, as its SDK returned it, and waits for their end. The answer of a model whose
   * calls may come without ids is given a name, so that it is known again when it has to be sent more than once.
   */
  turn<Format extends FormatName>(
    answer: object,
    options: TurnOptions<Format>,
  ): Promise<TurnResult<Shapes[Format]['appended']>>;
  /** Runs one call of the Responses API and waits for its end. */
  call(intent: FunctionCall, options?: CallOptions): Promise<CallResult>;
  /** One of the caller's own calls, by callgate's id of it. */
  record(id: string, options?: RequestOptions): Promise<CallRecord>;
  /** Asks for the end of a call, and gives its record as it stands then; that of one which has ended is no error. */
  cancel(id: string, options?: RequestOptions): Promise<CallRecord>;
  /** Closes the connections that a run has of its own. */
  endRun(run: string, options?: RequestOptions): Promise<void>;
}

const timeoutMsDefault = 600_000;
const waitDefault = 50;
/** Lists of declarations that are kept. */
const keptMax = 32;
/** Formats in which calls may come without ids. */
const idsOptional: ReadonlySet<FormatName> = new Set<FormatName>(['gemini', 'mistral', 'ollama']);

/** Makes a client for one callgate and one caller. */
export function createClient({ url, token, fetch: ownFetch, timeoutMs }: ClientOptions): Client {
  const base = baseOf(url);
  const sender: Sender = {
    fetch: ownFetch ?? ((input, init) => fetch(input, init)),
    token: typeof token === 'string' ? () => token : token,
  };
  const kept = new Map<string, { etag: string; text: string }>();

  const request = (
    method: Exchange['method'],
    path: string,
    options: RequestOptions,
    more: Partial<Pick<Exchange, 'headers' | 'body' | 'holdMs'>> & { query?: URLSearchParams } = {},
  ): Promise<Reply> => {
    const target = new URL(path, base);
    target.search = String(more.query ?? '');
    return exchange(
      {
        method,
        url: target,
        headers: { accept: 'application/json', ...more.headers },
        ...(more.body === undefined ? {} : { body: more.body }),
        holdMs: more.holdMs,
        timeoutMs: options.timeoutMs ?? timeoutMs ?? timeoutMsDefault,
        signal: options.signal,
      },
      sender,
    );
  };
  const post = (path: string, body: object, query: URLSearchParams, options: CallOptions): Promise<Reply> => {
    const headers = {
      'content-type': 'application/json',
      ...named('callgate-run', options.run),
      ...named('callgate-turn', options.turn),
      ...named('callgate-revision', options.revision),
    };
    if (options.render !== undefined) query.set('render', options.render);
    const holdMs = (options.wait ?? waitDefault) * 1_000;
    return request('POST', path, options, { headers, body: JSON.stringify(body), query, holdMs });
  };

  const record: Client['record'] = async (id, options = {}) =>
    parse(await request('GET', pathOf(id), options)) as CallRecord;

  return {
    async declarations(options) {
      const query = declarationQuery(options);
      const key = String(query);
      const known = kept.get(key);
      const headers = named('if-none-match', known?.etag);
      const reply = await request('GET', 'v1/declarations', options, { headers, query });
      const etag = reply.headers.get('etag');
      const text = reply.status === 304 && known !== undefined ? known.text : reply.text;
      const declarations = parse({ ...reply, text }) as Declarations<never>;
      if (etag !== null) {
        const [oldest] = kept.keys();
        if (known === undefined && kept.size >= keptMax && oldest !== undefined) kept.delete(oldest);
        kept.set(key, { etag, text });
      }
      return declarations;
    },

    async turn(answer, options) {
      const { format, order, unknown } = options;
      const query = new URLSearchParams({ format });
      if (order !== undefined) query.set('order', order);
      if (unknown !== undefined) query.set('unknown', unknown);
      const turn = options.turn ?? (idsOptional.has(format) ? nameOf(answer) : undefined);
      const reply = await post('v1/turns', answer, query, { ...options, turn });
      return parse(reply, format === 'bedrock' ? withRawBytes : undefined) as TurnResult<never>;
    },

    async call(intent, options = {}) {
      const reply = await post('v1/calls', intent, new URLSearchParams(), options);
      const fact = (name: string): string | undefined => reply.headers.get(`callgate-${name}`) ?? undefined;
      return {
        output: parse(reply) as FunctionCallOutput,
        id: fact('id') ?? '',
        status: fact('status') as CallStatus,
        code: fact('code') as OutcomeCode | undefined,
        replayed: fact('replayed') === 'true',
      };
    },

    record,

    async cancel(id, options = {}) {
      try {
        return parse(await request('POST', `${pathOf(id)}/cancel`, options)) as CallRecord;
      } catch (error) {
        // It has ended: by itself, or by an earlier try whose answer was lost.
        if (error instanceof CallgateError && error.code === 'conflict') return record(id, options);
        throw error;
      }
    },

    async endRun(run, options = {}) {
      await request('DELETE', `v1/runs/${encodeURIComponent(run)}`, options);
    },
  };
}

function baseOf(url: string | URL): URL {
  const base = URL.canParse(`${url}`) ? new URL(url) : undefined;
  // Not repeated in the text: it may hold a password.
  if (base === undefined || !/^https?:$/.test(base.protocol) || base.username !== '' || base.password !== '')
    throw new TypeError('the URL of callgate must be like http://127.0.0.1:8787, without user and password');
  if (!base.pathname.endsWith('/')) base.pathname += '/';
  return base;
}

const pathOf = (id: string): string => `v1/calls/${encodeURIComponent(id)}`;

const named = (header: string, value: string | undefined): Record<string, string> =>
  value === undefined ? {} : { [header]: value };

function declarationQuery({
  format,
  server = [],
  tool = [],
  strict,
  namespaces,
  defer,
}: DeclarationOptions<FormatName>): URLSearchParams {
  const query = new URLSearchParams({ format });
  for (const pattern of [server].flat()) query.append('server', pattern);
  for (const pattern of [tool].flat()) query.append('tool', pattern);
  if (strict !== undefined) query.set('strict', strict);
  if (namespaces === true) query.set('namespaces', '1');
  if (defer === true) query.set('defer', '1');
  return query;
}

/** The provider's own name of an answer, which is the same whenever that is sent; a new one where it has none. */
function nameOf(answer: object): string {
  if ('responseId' in answer && typeof answer.responseId === 'string') return answer.responseId;
  return 'choices' in answer && 'id' in answer && typeof answer.id === 'string'
    ? answer.id
    : crypto.randomUUID();
}

/** On the wire the bytes of media are base64. The SDK takes raw ones, and encodes them itself. */
function withRawBytes(key: string, value: unknown): unknown {
  if (key !== 'bytes' || typeof value !== 'string') return value;
  const binary = atob(value);
  const bytes = new Uint8Array(binary.length);
  for (let index = 0; index < bytes.length; index += 1) bytes[index] = binary.charCodeAt(index);
  return bytes;
}
