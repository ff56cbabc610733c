import { writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Callgate, type Envelope, startCallgate } from '../support/callgate.ts';
import { checkResponse, eventsOf } from '../support/contract.ts';
import { scriptedServer, scriptFolder } from '../support/scripted.ts';
import { functionCall } from '../support/service.ts';
import { until } from '../support/until.ts';

const faultServer = fileURLToPath(new URL('../support/fault-server.mjs', import.meta.url));

let folder: ReturnType<typeof scriptFolder>;
let gate: Callgate;
let token: string;
let count = 0;

beforeAll(async () => {
  folder = scriptFolder();
  const pay = (name: string) => ({
    definition: { name, inputSchema: { type: 'object' } },
    waitsFor: folder.path(name),
    result: { content: [{ type: 'text', text: `${name} is paid` }] },
  });
  gate = await startCallgate({
    mcpServers: {
      shop: scriptedServer(folder.path('tools.json'), ['gone', 'async', 'stream', 'turn'].map(pay)),
      fault: { command: process.execPath, args: [faultServer] },
      kept: { command: process.execPath, args: [faultServer] },
    },
    callgate: { servers: { fault: { tools: { '*': { class: 'read' } } } } },
  });
  token = await gate.token(['tools:shop:*', 'tools:fault:*', 'tools:kept:*']);
});
afterAll(async () => {
  await gate.stop();
  folder.remove();
});

const send = (
  path: string,
  body: unknown,
  headers: Readonly<Record<string, string>> = {},
  signal?: AbortSignal,
): Promise<Response> =>
  fetch(new URL(path, gate.url), {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json', ...headers },
    body: JSON.stringify(body),
    ...(signal === undefined ? {} : { signal }),
  });

/** What a fault server has got so far. */
async function seenBy(alias: 'fault' | 'kept'): Promise<{ calls: unknown[]; cancelled: unknown[] }> {
  count += 1;
  const { envelope } = await gate.call(token, `seen ${count}`, `${alias}__seen`, {});
  return JSON.parse(envelope.content[0]?.text ?? '');
}

const executions = (name: string): number => gate.executions().filter(({ tool }) => tool === name).length;

describe('a caller that hangs up (O26)', () => {
  test.each([
    ['/v1/calls', 'application/json'],
    ['/v1/calls', 'text/event-stream'],
    ['/v1/turns', 'application/json'],
    ['/v1/turns', 'text/event-stream'],
  ])('ends a call that only reads, at its server (%s, %s)', async (path, accept) => {
    const before = await seenBy('fault');
    const caller = new AbortController();
    const call = functionCall(`${path} ${accept}`, 'fault__never');
    const answer = send(path, call, { accept }, caller.signal).then((response) => response.text());
    const lost = expect(answer).rejects.toThrow();
    await until(async () =>
      JSON.stringify((await seenBy('fault')).calls.slice(before.calls.length)).includes('never'),
    );
    caller.abort();
    await lost;
    await until(async () => (await seenBy('fault')).cancelled.length === before.cancelled.length + 1);
  });

  test('finds a write done when it asks again', async () => {
    const caller = new AbortController();
    const lost = expect(
      send('/v1/calls', functionCall('gone', 'shop__gone'), {}, caller.signal),
    ).rejects.toThrow();
    await until(() => executions('gone') === 1);
    caller.abort();
    await lost;
    writeFileSync(folder.path('gone'), '');
    const again = await gate.call(token, 'gone', 'shop__gone', {});
    expect(again.envelope.content[0]?.text).toBe('gone is paid');
    expect(again.headers.get('callgate-replayed')).toBe('true');
    expect(executions('gone')).toBe(1);
  });
});

describe('a caller that does not wait (O25)', () => {
  test('gets a record at once, and the answer later', async () => {
    const call = functionCall('async', 'shop__async');
    const early = await send('/v1/calls', call, { prefer: 'respond-async' });
    const body = await early.text();
    checkResponse('POST', '/v1/calls', { status: early.status, headers: early.headers, body });
    expect(early.status).toBe(202);
    const location = early.headers.get('location') ?? '';
    const running = await gate.get<Record<string, unknown>>(location, { token });
    expect(running.body).toMatchObject({ id: early.headers.get('callgate-id'), may_have_executed: true });
    expect(running.body.output).toBeUndefined();

    writeFileSync(folder.path('async'), '');
    const late = await gate.call(token, 'async', 'shop__async', {});
    expect(late.envelope.content[0]?.text).toBe('async is paid');
    const { body: record } = await gate.get<Record<string, unknown>>(location, { token });
    expect(record).toMatchObject({ status: 'succeeded', attempts: 1, output: late.item });
    const list = await gate.get<{ calls: unknown[] }>('/v1/calls?call_id=async', { token });
    expect(list.body.calls).toEqual([record]);
    expect(executions('async')).toBe(1);
  });

  test('gets what is known of a turn, and the rest later', async () => {
    const calls = [functionCall('t1', 'shop__turn'), functionCall('t2', 'fault__echo', { text: 'hello' })];
    const early = await gate.post<{ calls: { status: string }[]; append?: unknown }>('/v1/turns', calls, {
      token,
      headers: { prefer: 'wait=0' },
    });
    expect([early.status, early.body.append]).toEqual([202, undefined]);
    writeFileSync(folder.path('turn'), '');
    const late = await gate.post<{ append: { output: string }[] }>('/v1/turns', calls, { token });
    expect(late.status).toBe(200);
    const texts = late.body.append.map(({ output }) => (JSON.parse(output) as Envelope).content[0]?.text);
    expect(texts).toEqual(['turn is paid', 'hello']);
    expect(executions('turn')).toBe(1);
  });
});

describe('a caller that listens', () => {
  test('hears the progress that the server tells, and the end', async () => {
    const call = functionCall('work', 'fault__work', { times: 3, everyMs: 5 });
    const response = await send('/v1/calls', call, { accept: 'text/event-stream' });
    const body = await response.text();
    checkResponse('POST', '/v1/calls', { status: response.status, headers: response.headers, body });
    const events = eventsOf(body);
    expect(events.map(({ event }) => event)).toEqual(['progress', 'progress', 'progress', 'output', 'done']);
    expect(events.slice(0, 3).map(({ data }) => [data.call_id, data.progress, data.message])).toEqual([
      ['work', 1, 'step 1'],
      ['work', 2, 'step 2'],
      ['work', 3, 'step 3'],
    ]);
    expect(events.at(-1)?.data).toEqual(events.at(-2)?.data.item);
  });

  test('gets each output of a turn as it is ready', async () => {
    const calls = [functionCall('s1', 'shop__stream'), functionCall('s2', 'fault__echo', { text: 'first' })];
    const response = await send('/v1/turns', calls, { accept: 'text/event-stream' });
    let body = '';
    for await (const part of (response.body as ReadableStream<Uint8Array>).pipeThrough(
      new TextDecoderStream(),
    )) {
      body += part;
      if (body.includes('"call_id":"s2"')) writeFileSync(folder.path('stream'), '');
    }
    checkResponse('POST', '/v1/turns', { status: response.status, headers: response.headers, body });
    expect(eventsOf(body).map(({ event, data }) => [event, data.index])).toEqual([
      ['output', 1],
      ['output', 0],
      ['done', undefined],
    ]);
  });
});

describe('a caller that cancels', () => {
  test('ends its call at the server, whether it only reads or not', async () => {
    for (const alias of ['fault', 'kept'] as const) {
      const before = await seenBy(alias);
      const call = functionCall(`cancel ${alias}`, `${alias}__never`);
      const early = await gate.post<{ id: string }>('/v1/calls', call, {
        token,
        headers: { prefer: 'wait=0' },
      });
      expect(early.status).toBe(202);
      await until(async () =>
        JSON.stringify((await seenBy(alias)).calls.slice(before.calls.length)).includes('never'),
      );
      const path = `/v1/calls/${early.body.id}/cancel`;
      const cancelled = await send(path, undefined);
      const body = await cancelled.text();
      checkResponse('POST', path, { status: cancelled.status, headers: cancelled.headers, body });
      expect([cancelled.status, JSON.parse(body)]).toMatchObject([
        200,
        { status: 'unknown', code: 'cancelled' },
      ]);
      await until(async () => (await seenBy(alias)).cancelled.length === before.cancelled.length + 1);
      expect((await gate.post<{ code: string }>(path, '', { token })).status).toBe(409);
    }
  });
});

describe('the end of the service (RL-8)', () => {
  const startWith = async (limits: { drainMs?: number }) => {
    const ending = await startCallgate({
      mcpServers: { kept: { command: process.execPath, args: [faultServer] } },
      callgate: { limits },
    });
    const granted = await ending.token(['tools:kept:*']);
    const authorization = `Bearer ${granted}`;
    const post = (path: string, headers: Readonly<Record<string, string>>): Promise<Response> =>
      fetch(new URL(path, ending.url), {
        method: 'POST',
        headers: { authorization, 'content-type': 'application/json', ...headers },
        body: JSON.stringify(functionCall('c1', 'kept__never')),
      });
    return { ending, granted, post };
  };

  test('leaves records to be read and calls to be cancelled while it waits for what runs', async () => {
    const { ending, granted, post } = await startWith({ drainMs: 60_000 });
    const early = await post('/v1/calls', { prefer: 'wait=0' });
    const location = early.headers.get('location') ?? '';
    const stream = await post('/v1/turns', { accept: 'text/event-stream' });
    const heard = stream.text();
    const stopped = ending.stop('SIGTERM');
    await until(async () => (await ending.get('/readyz')).status === 503);
    expect((await post('/v1/calls', {})).status).toBe(503);
    const running = await ending.get<{ status: string }>(location, { token: granted });
    expect(running.body.status).toMatch(/^(received|started)$/);
    const cancelled = await ending.post<{ status: string }>(`${location}/cancel`, '', { token: granted });
    expect([cancelled.status, cancelled.body.status]).toEqual([
      200,
      expect.stringMatching(/^(unknown|not_sent)$/),
    ]);
    expect(eventsOf(await heard).map(({ event }) => event)).toEqual(['output', 'done']);
    expect(await stopped).toBe(0);
  });

  test('gives a caller that listens the end of its call, when that does not end by itself', async () => {
    const { ending, post } = await startWith({ drainMs: 100 });
    const stream = await post('/v1/calls', { accept: 'text/event-stream' });
    const heard = stream.text();
    const stopped = ending.stop('SIGTERM');
    const events = eventsOf(await heard);
    expect(events.map(({ event }) => event)).toEqual(['output', 'done']);
    expect(JSON.parse(events.at(-1)?.data.output).error.code).toBe('cancelled');
    expect(await stopped).toBe(0);
  });
});
