import { Agent, request } from 'undici';
import type { Plan, Post, ToolKind } from './check.ts';
import type { Gate, Site } from './gate.ts';

/** One content under a call id: what is asked for, and the canary in it. */
export interface Content {
  readonly name: string;
  readonly canary: string;
  readonly arguments: Readonly<Record<string, unknown>>;
}

/** A call that is posted again and again, now and then with another content. */
export interface ChaosCall {
  readonly key: string;
  readonly actor: string;
  readonly run: string | undefined;
  readonly turn: string | undefined;
  readonly callId: string;
  readonly kind: ToolKind;
  readonly contents: readonly Content[];
}

export interface PostOptions {
  /** Which content of the call. */
  readonly content?: number;
  readonly prefer?: string;
  /** Asks for an event stream, and takes its last event for the answer. */
  readonly isStreamed?: boolean;
  /** Ends the connection before the answer is there. */
  readonly hangUpMs?: number;
}

/** The plan of a call, as the check wants it. */
export const planOf = ({ key, kind, contents }: ChaosCall): Plan => ({
  key,
  kind,
  canaries: contents.map(({ canary }) => canary),
});

const canaries = /canary-[0-9a-z]+/g;

/** What an answer of `POST /v1/turns` says. */
interface TurnBody {
  readonly append?: readonly { readonly call_id: string; readonly output: unknown }[];
  readonly calls: readonly {
    readonly id: string;
    readonly call_id: string;
    readonly status: string;
    readonly code?: string;
    readonly may_have_executed: boolean;
    readonly replayed: boolean;
    readonly replay_protected: boolean;
  }[];
}

/** A back-end that posts calls and writes down every answer. */
export class ChaosCaller {
  posts: Post[] = [];
  /** How many posts got an answer that tells the state of a call which was sent, or may have been. */
  answers = 0;
  /** Answers that no back-end should get, whatever happens. */
  readonly surprises: string[] = [];
  readonly #tokens = new Map<string, string>();
  readonly #agent = new Agent({ connections: 256, pipelining: 1, connectTimeout: 5_000 });

  /** Gets a token for each of these actors. */
  async signIn(site: Site, actors: readonly string[]): Promise<void> {
    for (const actor of actors) this.#tokens.set(actor, await site.token(actor));
  }

  /** Posts one call through `POST /v1/calls`. */
  async post(gate: Gate, call: ChaosCall, options: PostOptions = {}): Promise<Post> {
    const content = contentOf(call, options.content);
    const post = await this.#send(gate, '/v1/calls', call, itemOf(call, content), options, (answer) => {
      const { headers, body } = answer;
      const output = typeof body.output === 'string' ? body.output : undefined;
      return {
        id: headers['callgate-id'] as string | undefined,
        status: headers['callgate-status'] as string | undefined,
        code: headers['callgate-code'] as string | undefined,
        mayHaveExecuted: mayHaveExecuted(output),
        output,
        isReplayed: headers['callgate-replayed'] === 'true',
        isRecorded: headers['callgate-recorded'] !== 'false',
      };
    });
    const told: Post = { ...post.common, key: call.key, canary: content.canary, ...post.facts };
    this.#keep(told);
    return told;
  }

  /** Posts calls of one actor, run and turn through `POST /v1/turns`. */
  async postTurn(
    gate: Gate,
    calls: readonly ChaosCall[],
    options: PostOptions = {},
  ): Promise<readonly Post[]> {
    const [first] = calls;
    if (first === undefined) return [];
    const items = calls.map((call) => itemOf(call, contentOf(call, 0)));
    let turn: TurnBody | undefined;
    const post = await this.#send(gate, '/v1/turns', first, items, options, ({ body }) => {
      turn = body as unknown as TurnBody;
      return {};
    });
    return calls.map((call, index) => {
      const { canary } = contentOf(call, 0);
      const entry = turn?.calls[index];
      const appended = turn?.append?.find(({ call_id }) => call_id === call.callId);
      const output = typeof appended?.output === 'string' ? appended.output : undefined;
      const isFinal = entry !== undefined && entry.status !== 'received' && entry.status !== 'started';
      const told: Post = {
        ...post.common,
        key: call.key,
        canary,
        ...(entry === undefined
          ? {}
          : {
              kind: isFinal ? ('answered' as const) : ('waiting' as const),
              id: entry.id,
              status: entry.status,
              code: entry.code,
              mayHaveExecuted: entry.may_have_executed,
              output,
              isReplayed: entry.replayed,
              isRecorded: entry.replay_protected,
            }),
        // The answer to a turn holds the outputs of all its calls; each output by itself must be clean.
        canariesSeen: output === undefined ? [] : canariesIn(output),
      };
      this.#keep(told);
      return told;
    });
  }

  /** `POST /v1/calls/{id}/cancel`; whether the call still runs by then is left to chance. */
  async cancel(gate: Gate, call: ChaosCall, id: string): Promise<void> {
    try {
      const { statusCode, body } = await request(`${gate.url}/v1/calls/${id}/cancel`, {
        method: 'POST',
        headers: this.#headers(call, {}),
        dispatcher: this.#agent,
      });
      const text = await body.text();
      if (![200, 202, 204, 404, 409, 503].includes(statusCode))
        this.#surprise(`cancel: ${statusCode} ${text}`);
    } catch {
      // The process is gone.
    }
  }

  /** The record of a call by its id, as `GET /v1/calls/{id}` gives it. */
  async record(
    gate: Gate,
    call: ChaosCall,
    id: string,
  ): Promise<Readonly<Record<string, unknown>> | undefined> {
    try {
      const { statusCode, body } = await request(`${gate.url}/v1/calls/${id}`, {
        headers: this.#headers(call, {}),
        dispatcher: this.#agent,
      });
      const text = await body.text();
      if (statusCode === 200) return JSON.parse(text) as Readonly<Record<string, unknown>>;
      if (![404, 503].includes(statusCode)) this.#surprise(`get: ${statusCode} ${text}`);
    } catch {
      // The process is gone.
    }
    return undefined;
  }

  async close(): Promise<void> {
    await this.#agent.destroy();
  }

  async #send(
    gate: Gate,
    path: string,
    call: ChaosCall,
    sent: unknown,
    options: PostOptions,
    read: (answer: {
      headers: Readonly<Record<string, string | string[] | undefined>>;
      body: Readonly<Record<string, unknown>>;
    }) => Partial<Post>,
  ): Promise<{ readonly common: Omit<Post, 'key' | 'canary'>; readonly facts: Partial<Post> }> {
    const startMs = Date.now();
    const done = (kind: Post['kind'], httpStatus?: number): Omit<Post, 'key' | 'canary'> => ({
      process: gate.name,
      startMs,
      endMs: Date.now(),
      kind,
      httpStatus,
    });
    try {
      const { statusCode, headers, body } = await request(gate.url + path, {
        method: 'POST',
        headers: this.#headers(call, options),
        body: JSON.stringify(sent),
        dispatcher: this.#agent,
        headersTimeout: 120_000,
        ...(options.hangUpMs === undefined ? {} : { signal: AbortSignal.timeout(options.hangUpMs) }),
      });
      const text = await body.text();
      const answer = headers['content-type'] === 'text/event-stream' ? lastEventOf(text) : text;
      // A stream that ends without its last event was cut.
      if (answer === undefined) return { common: done('broken'), facts: {} };
      const parsed = JSON.parse(answer) as Readonly<Record<string, unknown>>;
      const canariesSeen = canariesIn(text + JSON.stringify(headers));
      switch (statusCode) {
        case 200:
          return {
            common: done('answered', 200),
            facts: { canariesSeen, ...read({ headers, body: parsed }) },
          };
        case 202:
          return {
            common: done('waiting', 202),
            facts: { canariesSeen, ...read({ headers, body: parsed }), id: idOf(headers, parsed) },
          };
        default:
          if (statusCode !== 503 && !cameTooLate(parsed)) this.#surprise(`${path}: ${statusCode} ${text}`);
          return {
            common: done('refused', statusCode),
            facts: { canariesSeen, code: parsed.code as string | undefined },
          };
      }
    } catch (error) {
      if (error instanceof SyntaxError) this.#surprise(`${path}: an answer that is no JSON`);
      return { common: done('broken'), facts: {} };
    }
  }

  #headers(call: ChaosCall, { prefer, isStreamed }: PostOptions): Record<string, string> {
    return {
      authorization: `Bearer ${this.#tokens.get(call.actor) ?? ''}`,
      'content-type': 'application/json',
      ...(call.run === undefined ? {} : { 'callgate-run': call.run }),
      ...(call.turn === undefined ? {} : { 'callgate-turn': call.turn }),
      ...(prefer === undefined ? {} : { prefer }),
      ...(isStreamed === true ? { accept: 'text/event-stream' } : {}),
    };
  }

  #keep(post: Post): void {
    this.posts.push(post);
    if (post.kind === 'answered' && post.status !== 'not_sent' && post.status !== 'rejected')
      this.answers += 1;
  }

  #surprise(text: string): void {
    if (this.surprises.length < 100) this.surprises.push(text);
  }
}

function contentOf(call: ChaosCall, index = 0): Content {
  const content = call.contents[index];
  if (content === undefined) throw new Error(`the call ${call.key} has no content ${index}`);
  return content;
}

const itemOf = ({ callId }: ChaosCall, { name, arguments: input }: Content): object => ({
  type: 'function_call',
  call_id: callId,
  name,
  arguments: JSON.stringify(input),
});

const lastEventOf = (stream: string): string | undefined => /^event: done\ndata: (.*)$/m.exec(stream)?.[1];

/** What a process says that was stopped while the request came in. */
const cameTooLate = ({ detail }: Readonly<Record<string, unknown>>): boolean =>
  detail === 'the request did not arrive in time; send it again, faster';

const canariesIn = (text: string): readonly string[] => [...new Set(text.match(canaries) ?? [])];

const idOf = (
  headers: Readonly<Record<string, string | string[] | undefined>>,
  body: Readonly<Record<string, unknown>>,
): string | undefined => {
  const id = headers['callgate-id'] ?? body.id;
  return typeof id === 'string' ? id : undefined;
};

/** What an envelope says about the effect of a failed call. */
function mayHaveExecuted(output: string | undefined): boolean | undefined {
  if (output === undefined || output.startsWith('{"ok":true')) return undefined;
  const { error } = JSON.parse(output) as { error?: { may_have_executed?: boolean } };
  return error?.may_have_executed;
}
