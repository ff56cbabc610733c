import { describe, expect, test } from 'vitest';
import { CallgateError, type ClientOptions, createClient } from '../../../src/client/client.ts';

interface Sent {
  readonly path: string;
  readonly method: string;
  readonly headers: Headers;
  readonly body: string | undefined;
}

type Reaction = Response | Error | ((sent: Sent) => Response);

/** A client whose requests meet these reactions, one after the other, and what it sent. */
function scripted(reactions: readonly Reaction[], options: Partial<ClientOptions> = {}) {
  const sent: Sent[] = [];
  const client = createClient({
    url: 'http://gate.test/base',
    token: 'first',
    fetch: async (input, init) => {
      const url = new URL(String(input));
      const request = {
        path: url.pathname + url.search,
        method: init?.method ?? 'GET',
        headers: new Headers(init?.headers),
        body: init?.body as string | undefined,
      };
      const reaction = reactions[sent.length];
      sent.push(request);
      if (reaction === undefined) throw new Error(`nothing is scripted for request ${sent.length}`);
      if (reaction instanceof Error) throw reaction;
      return typeof reaction === 'function' ? reaction(request) : reaction;
    },
    ...options,
  });
  return { client, sent };
}

const json = (body: unknown, status = 200, headers: Record<string, string> = {}): Response =>
  new Response(JSON.stringify(body), { status, headers: { 'content-type': 'application/json', ...headers } });

const problem = (code: string, status: number, headers: Record<string, string> = {}): Response =>
  new Response(JSON.stringify({ code, detail: `${code} it is`, status, request_id: 'req-1' }), {
    status,
    headers: { 'content-type': 'application/problem+json', 'x-request-id': 'req-1', ...headers },
  });

const cut = (): Error => new TypeError('fetch failed');
const now = { 'retry-after': '0' };
const done = (): Response => json({ append: [], calls: [], left: [] });
const failure = (work: Promise<unknown>): Promise<unknown> =>
  work.then(
    () => undefined,
    (error: unknown) => error,
  );

describe('a request that is sent again', () => {
  test.each([
    ['no answer', () => cut()],
    ['an answer cut off in the middle', () => brokenBody()],
    ['503', () => problem('overloaded', 503, now)],
    ['503 without a time', () => problem('draining', 503)],
    ['429', () => problem('rate_limited', 429, now)],
    ['502 of something in between', () => new Response('<html>', { status: 502 })],
    ['202', () => json({ calls: [] }, 202, now)],
  ])('after %s is the same, byte for byte', async (_, reaction) => {
    const { client, sent } = scripted([reaction(), done()]);
    await client.turn(
      { output: [{ type: 'function_call' }] },
      {
        format: 'openai-responses',
        run: 'r',
        turn: 't',
        revision: 'v',
        order: 'sequential',
        unknown: 'leave',
      },
    );
    expect(sent).toHaveLength(2);
    expect(sent[0]?.path).toBe('/base/v1/turns?format=openai-responses&order=sequential&unknown=leave');
    expect(sent[1]?.path).toBe(sent[0]?.path);
    expect(sent[1]?.body).toBe(sent[0]?.body);
    expect([...(sent[1]?.headers ?? [])]).toEqual([...(sent[0]?.headers ?? [])]);
    expect(Object.fromEntries(sent[0]?.headers ?? [])).toMatchObject({
      'callgate-run': 'r',
      'callgate-turn': 't',
      'callgate-revision': 'v',
      prefer: 'wait=50',
    });
  });

  test('has a token that is asked for anew', async () => {
    let count = 0;
    const token = async (): Promise<string> => `token-${++count}`;
    const { client, sent } = scripted([cut(), done()], { token });
    await client.turn([], { format: 'anthropic' });
    expect(sent.map(({ headers }) => headers.get('authorization'))).toEqual([
      'Bearer token-1',
      'Bearer token-2',
    ]);
  });

  test('is given up as unreachable after a number of tries', async () => {
    const { client } = scripted([cut(), cut()], { timeoutMs: 60 });
    expect(await failure(client.turn([], { format: 'mcp' }))).toMatchObject({
      name: 'CallgateError',
      code: 'unreachable',
      status: undefined,
      cause: { message: 'fetch failed' },
    });
  });

  test('is given up with the last problem when its time is over', async () => {
    const { client, sent } = scripted([problem('draining', 503, { 'retry-after': '5' })], { timeoutMs: 500 });
    expect(await failure(client.declarations({ format: 'mcp' }))).toMatchObject({
      code: 'draining',
      status: 503,
      requestId: 'req-1',
    });
    expect(sent).toHaveLength(1);
  });

  test('is not held longer than there is time', async () => {
    const { client, sent } = scripted([json({ calls: [] }, 202, { 'retry-after': '9' })], {
      timeoutMs: 3_500,
    });
    const error = await failure(client.turn([], { format: 'mcp', wait: 20 }));
    expect(error).toMatchObject({ code: 'unfinished', status: 202 });
    expect(sent[0]?.headers.get('prefer')).toBe('wait=2');
  });

  test('ends at once when its caller gives up', async () => {
    const asked = new AbortController();
    const { client, sent } = scripted([
      () => {
        queueMicrotask(() => asked.abort(new Error('enough')));
        return json({ calls: [] }, 202, { 'retry-after': '60' });
      },
    ]);
    const error = await failure(client.turn([], { format: 'mcp', signal: asked.signal }));
    expect(error).toMatchObject({ message: 'enough' });
    expect(sent).toHaveLength(1);
  });
});

describe('a request that is refused', () => {
  test('throws the problem, and is not sent again', async () => {
    const { client, sent } = scripted([problem('invalid_request', 400)]);
    const error = await failure(
      client.call({ type: 'function_call', call_id: 'a', name: 'b', arguments: {} }),
    );
    expect(error).toBeInstanceOf(CallgateError);
    expect(error).toMatchObject({
      code: 'invalid_request',
      message: 'invalid_request it is',
      requestId: 'req-1',
    });
    expect(sent).toHaveLength(1);
  });

  test.each([
    ['a page of something else', new Response('<html>', { status: 404 })],
    ['a redirect', new Response('', { status: 302, headers: { location: 'http://elsewhere.test/' } })],
    ['text that is no JSON', new Response('fine', { status: 200 })],
  ])('by %s says so', async (_, response) => {
    const { client } = scripted([response]);
    expect(await failure(client.declarations({ format: 'mcp' }))).toMatchObject({
      code: 'unexpected_answer',
    });
  });

  test('never leaves where its headers cannot be written', async () => {
    const { client, sent } = scripted([]);
    await expect(client.turn([], { format: 'mcp', run: 'line\nbreak' })).rejects.toThrow(TypeError);
    expect(sent).toHaveLength(0);
  });

  test.each(['ftp://gate.test', 'localhost:8787', '127.0.0.1:8787', '', 'http://me:hidden@gate.test'])(
    'is one to %j',
    (url) => {
      const make = () => createClient({ url, token: 'x' });
      expect(make).toThrow(TypeError);
      expect(make).toThrow(/^the URL of callgate must be like http:[^@]+$/);
    },
  );

  test.each(['', '  ', 'hid den', 'hid\nden'])(
    'never leaves with the token %j, which is not told',
    async (token) => {
      const { client, sent } = scripted([], { token: async () => token });
      const error = (await failure(client.declarations({ format: 'mcp' }))) as Error;
      expect(error).toBeInstanceOf(TypeError);
      expect(error.message).toMatch(/^the token for callgate is empty, or has characters/);
      expect(error.message).not.toContain('hid');
      expect(sent).toHaveLength(0);
    },
  );

  test('leaves with a token that was read from a file, newline and all', async () => {
    const { client, sent } = scripted([done()], { token: 'read\n' });
    await client.turn([], { format: 'mcp' });
    expect(sent[0]?.headers.get('authorization')).toBe('Bearer read');
  });
});

describe('the name of a turn', () => {
  const sentTurn = async (answer: object, format: 'gemini' | 'mistral' | 'ollama' | 'anthropic') => {
    const { client, sent } = scripted([cut(), done()]);
    await client.turn(answer, { format });
    const [first, second] = sent.map(({ headers }) => headers.get('callgate-turn'));
    expect(second).toBe(first);
    return first;
  };

  test('is that of the answer where calls may come without ids', async () => {
    expect(await sentTurn({ responseId: 'r1', candidates: [] }, 'gemini')).toBe('r1');
    expect(await sentTurn({ id: 'c1', choices: [] }, 'mistral')).toBe('c1');
  });

  test('is made once for all tries where the answer has none', async () => {
    const first = await sentTurn({ message: {} }, 'ollama');
    expect(first).toMatch(/^[0-9a-f-]{36}$/);
    expect(await sentTurn({ message: {} }, 'ollama')).not.toBe(first);
  });

  test('is left out where ids are always there', async () => {
    expect(await sentTurn({ id: 'msg_1', content: [] }, 'anthropic')).toBeNull();
  });
});

describe('declarations', () => {
  test('that have not changed are not sent again, and each caller gets its own copy', async () => {
    const list = { format: 'mcp', revision: 'x', tools: [{ name: 'docs__a' }] };
    const { client, sent } = scripted([
      json(list, 200, { etag: '"1"' }),
      new Response(null, { status: 304, headers: { etag: '"1"' } }),
      json(list, 200, { etag: '"2"' }),
    ]);
    const first = await client.declarations({ format: 'mcp', server: 'docs', tool: ['a', 'b*'] });
    first.tools.length = 0;
    const second = await client.declarations({ format: 'mcp', server: 'docs', tool: ['a', 'b*'] });
    await client.declarations({ format: 'mcp', strict: 'lossless', namespaces: true, defer: true });

    expect(second.tools).toEqual(list.tools);
    expect(sent.map(({ headers }) => headers.get('if-none-match'))).toEqual([null, '"1"', null]);
    expect(sent.map(({ path }) => path)).toEqual([
      '/base/v1/declarations?format=mcp&server=docs&tool=a&tool=b*',
      '/base/v1/declarations?format=mcp&server=docs&tool=a&tool=b*',
      '/base/v1/declarations?format=mcp&strict=lossless&namespaces=1&defer=1',
    ]);
  });
});

test('a call that has ended already is no failure of a cancel', async () => {
  const record = { id: 'a/b', status: 'succeeded' };
  const { client, sent } = scripted([problem('conflict', 409), json(record)]);
  expect(await client.cancel('a/b')).toEqual(record);
  expect(sent.map(({ method, path }) => `${method} ${path}`)).toEqual([
    'POST /base/v1/calls/a%2Fb/cancel',
    'GET /base/v1/calls/a%2Fb',
  ]);
});

test('media for Bedrock come as the bytes that its SDK takes', async () => {
  const block = { image: { format: 'png', source: { bytes: 'AP8B' } } };
  const content = [{ toolResult: { toolUseId: 'a', content: [{ text: 'bytes' }, block] } }];
  const { client } = scripted([json({ append: [{ role: 'user', content }], calls: [], left: [] })]);
  const { append } = await client.turn({}, { format: 'bedrock' });
  expect(append[0]?.content[0]?.toolResult.content).toEqual([
    { text: 'bytes' },
    { image: { format: 'png', source: { bytes: new Uint8Array([0, 255, 1]) } } },
  ]);
});

/** An answer that breaks off. */
const brokenBody = (): Response =>
  new Response(
    new ReadableStream({
      start(controller) {
        controller.enqueue(new TextEncoder().encode('{"append":['));
        controller.error(new TypeError('terminated'));
      },
    }),
    { status: 200 },
  );
