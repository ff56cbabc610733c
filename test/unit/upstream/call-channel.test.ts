import { getEventListeners } from 'node:events';
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js';
import { type JSONRPCMessage, McpError } from '@modelcontextprotocol/sdk/types.js';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import type { Attempt, Progress, ToolCall } from '../../../src/dispatch/ports.ts';
import {
  CallCancelled,
  CallChannel,
  CallTimeout,
  ConnectionEnded,
  type GivenUpCall,
} from '../../../src/upstream/call-channel.ts';
import { Deadline } from '../../../src/upstream/deadline.ts';
import type { Answer } from '../../../src/upstream/request-link.ts';
import { someone } from '../../support/upstream.ts';

/** A transport without a server: it keeps what is sent, and the test plays the answers. */
class FakeTransport implements Transport {
  onmessage: Transport['onmessage'];
  readonly sent: JSONRPCMessage[] = [];
  readonly toClient: JSONRPCMessage[] = [];
  sendFault: Error | undefined;

  constructor() {
    this.onmessage = (message) => void this.toClient.push(message);
  }

  async start(): Promise<void> {}
  async close(): Promise<void> {}

  async send(message: JSONRPCMessage): Promise<void> {
    if (this.sendFault !== undefined) throw this.sendFault;
    this.sent.push(message);
  }

  idOf(index: number): number {
    const message = this.sent[index];
    return message !== undefined && 'id' in message ? Number(message.id) : Number.NaN;
  }

  receive(message: JSONRPCMessage): void {
    this.onmessage?.(message);
  }
}

let transport: FakeTransport;
let channel: CallChannel;
let late: { call: GivenUpCall; answer: Answer }[];
let told: Progress[];
const within = (timeoutMs: number, totalMs = timeoutMs): Deadline =>
  // Whole milliseconds, as timers count them.
  new Deadline(() => Date.now(), timeoutMs, totalMs);
const ask = (timeoutMs = 60_000) => channel.request('tools/list', {}, within(timeoutMs));

function call(deadline: Deadline, more: Partial<ToolCall> = {}) {
  const whole: ToolCall = {
    alias: 'one',
    tool: 'echo',
    arguments: { text: 'a' },
    inputSchema: {},
    caller: someone,
    id: 'call-1',
    timeoutMs: 1,
    timeoutTotalMs: 1,
    mayRepeat: false,
    signal: new AbortController().signal,
    onProgress: (progress) => void told.push(progress),
    onLateAnswer: () => {},
    ...more,
  };
  return channel.call(whole, deadline, 1);
}

const progress = (params: Record<string, unknown>) =>
  transport.receive({ jsonrpc: '2.0', method: 'notifications/progress', params });
const cancels = () =>
  transport.sent.filter((sent) => 'method' in sent && sent.method === 'notifications/cancelled');
const answer = (id: number, result: Record<string, unknown> = {}) =>
  transport.receive({ jsonrpc: '2.0', id, result });

beforeEach(() => {
  vi.useFakeTimers();
  transport = new FakeTransport();
  late = [];
  told = [];
  channel = new CallChannel(transport, {
    redact: (text) => text.replaceAll('T3', '[redacted]'),
    onLateAnswer: (given, answered) => void late.push({ call: given, answer: answered }),
  });
});
afterEach(() => {
  vi.useRealTimers();
});

test('each request has an id of its own, far from those of the client, and gets its own answer', async () => {
  const [first, second] = [ask(), ask()];
  const ids = [transport.idOf(0), transport.idOf(1)];
  expect(new Set(ids).size).toBe(2);
  for (const id of ids) expect(id).toBeGreaterThanOrEqual(1_000_000_000);
  answer(ids[1] ?? 0, { n: 2 });
  answer(ids[0] ?? 0, { n: 1 });
  expect(await first).toEqual({ n: 1 });
  expect(await second).toEqual({ n: 2 });
  expect(transport.toClient).toEqual([]);
  expect(vi.getTimerCount()).toBe(0);
});

test('an error of the server keeps its code, its words and its data', async () => {
  const request = ask();
  const data = { a: 1 };
  transport.receive({ jsonrpc: '2.0', id: transport.idOf(0), error: { code: -32602, message: 'no', data } });
  const error = await request.catch((reason: unknown) => reason);
  expect(error).toBeInstanceOf(McpError);
  expect(error).toMatchObject({ code: -32602, message: expect.stringContaining('no') });
  expect((error as McpError).data).toBe(data);
});

test('what is not an answer to the channel reaches the client', () => {
  const messages: JSONRPCMessage[] = [
    { jsonrpc: '2.0', id: 0, result: {} },
    { jsonrpc: '2.0', id: 7, error: { code: 1, message: 'x' } },
    { jsonrpc: '2.0', id: 1_000_000_000, method: 'roots/list' },
    { jsonrpc: '2.0', id: '1000000000', result: {} },
    { jsonrpc: '2.0', method: 'notifications/tools/list_changed' },
  ];
  for (const message of messages) transport.receive(message);
  expect(transport.toClient).toEqual(messages);
});

test('a timeout tells the server, and the answer that comes later is dropped quietly', async () => {
  const request = expect(ask(250)).rejects.toBeInstanceOf(CallTimeout);
  const requestId = transport.idOf(0);
  vi.advanceTimersByTime(249);
  expect(transport.sent.length).toBe(1);
  vi.advanceTimersByTime(1);
  await request;
  expect(transport.sent[1]).toMatchObject({ method: 'notifications/cancelled', params: { requestId } });
  answer(requestId);
  answer(requestId);
  expect(transport.toClient).toEqual([]);
});

test('requests with different limits share one timer, and each is given up in its time', async () => {
  const ended: number[] = [];
  const limits = [300, 100, 200, 100, 60_000];
  for (const ms of limits) ask(ms).catch(() => ended.push(ms));
  expect(vi.getTimerCount()).toBe(1);
  for (const [passed, expected] of [
    [99, []],
    [1, [100, 100]],
    [100, [100, 100, 200]],
    [100, [100, 100, 200, 300]],
  ] as const) {
    vi.advanceTimersByTime(passed);
    // Microtasks only: in a turn of the event loop other tests of this thread could set timers of their own.
    for (let step = 0; step < 10; step++) await Promise.resolve();
    expect(ended).toEqual(expected);
    expect(vi.getTimerCount()).toBe(1);
  }
  answer(transport.idOf(4));
  expect(vi.getTimerCount()).toBe(0);
});

test('a server that no longer takes messages makes a timeout no worse', async () => {
  const request = expect(ask(10)).rejects.toBeInstanceOf(CallTimeout);
  transport.sendFault = new Error('closed');
  vi.advanceTimersByTime(10);
  await request;
});

test('a message that could not be sent fails its request with the reason of the transport', async () => {
  transport.sendFault = new Error('not sent');
  await expect(ask()).rejects.toBe(transport.sendFault);
  expect(vi.getTimerCount()).toBe(0);
});

test('the end of the connection ends all that waits', async () => {
  const requests = [ask(), ask(), ask()].map((request) =>
    expect(request).rejects.toBeInstanceOf(ConnectionEnded),
  );
  channel.end();
  await Promise.all(requests);
  expect(vi.getTimerCount()).toBe(0);
});

test('a call carries its id and asks for its progress under the id of its request', async () => {
  const request = call(within(60_000));
  expect(transport.sent[0]).toMatchObject({
    method: 'tools/call',
    params: {
      name: 'echo',
      arguments: { text: 'a' },
      _meta: { progressToken: transport.idOf(0), 'callgate/call': 'call-1' },
    },
  });
  answer(transport.idOf(0), { n: 1 });
  expect(await request).toEqual({ n: 1 });
});

describe('progress', () => {
  test('begins the time anew, up to the whole time, with one timer (RL-5)', async () => {
    const request = call(within(100, 350)).catch((error: unknown) => error);
    const token = transport.idOf(0);
    for (let n = 1; n <= 4; n++) {
      vi.advanceTimersByTime(80);
      progress({ progressToken: token, progress: n });
      expect(vi.getTimerCount()).toBe(1);
    }
    vi.advanceTimersByTime(29);
    expect(transport.sent.length).toBe(1);
    vi.advanceTimersByTime(1);
    expect(await request).toMatchObject({ limit: { ms: 350, kind: 'total' } });
    expect(told).toEqual([1, 2, 3, 4].map((n) => ({ progress: n })));
    expect(cancels()).toMatchObject([{ params: { requestId: token } }]);
    expect(vi.getTimerCount()).toBe(0);
  });

  test('that stops leaves its call the usual time', async () => {
    const request = call(within(100, 10_000)).catch((error: unknown) => error);
    vi.advanceTimersByTime(60);
    progress({ progressToken: transport.idOf(0), progress: 1 });
    vi.advanceTimersByTime(99);
    expect(cancels()).toEqual([]);
    vi.advanceTimersByTime(2);
    expect(await request).toMatchObject({ limit: { ms: 100, kind: 'silence' } });
  });

  test('is told with what fits its form, its text made harmless', () => {
    void call(within(60_000));
    const progressToken = transport.idOf(0);
    progress({ progressToken, progress: 1, total: 5, message: 'key T3\r\n\u001b[2Jat work' });
    progress({ progressToken, progress: 2, total: null, message: null, more: 'x' });
    progress({ progressToken, progress: 3, total: 'many', message: 'x'.repeat(9_000) });
    expect(told.slice(0, 2)).toEqual([
      { progress: 1, total: 5, message: 'key [redacted] [2Jat work' },
      { progress: 2 },
    ]);
    expect(told[2]?.message?.length).toBeLessThanOrEqual(500);
    expect(told[2]).not.toHaveProperty('total');
  });

  test('of another form, of a foreign token or of a call that is over is nothing', async () => {
    const request = call(within(100)).catch((error: unknown) => error);
    const token = transport.idOf(0);
    void ask();
    vi.advanceTimersByTime(90);
    progress({ progressToken: token + 7, progress: 1 });
    progress({ progressToken: String(token), progress: 1 });
    progress({ progressToken: transport.idOf(1), progress: 1 });
    progress({ progressToken: token, progress: 'half' });
    progress({ progressToken: token });
    transport.receive({ jsonrpc: '2.0', method: 'notifications/progress' });
    vi.advanceTimersByTime(10);
    expect(await request).toBeInstanceOf(CallTimeout);
    progress({ progressToken: token, progress: 2 });
    expect(told).toEqual([]);
    expect(transport.toClient).toEqual([]);
  });

  test('in a flood is told a few times a second, and each message still counts as a sign of life', () => {
    void call(within(100, 60_000));
    const progressToken = transport.idOf(0);
    for (let ms = 0; ms < 3_000; ms += 50) {
      for (let n = 0; n < 100; n++) progress({ progressToken, progress: ms, message: 'x' });
      vi.advanceTimersByTime(50);
    }
    expect(told.length).toBe(60);
    expect(cancels()).toEqual([]);
  });
});

describe('a call that is cancelled', () => {
  test('ends at once with its reason, and its server is told once', async () => {
    const controller = new AbortController();
    const request = call(within(60_000), { signal: controller.signal }).catch((error: unknown) => error);
    controller.abort('its caller asked for that');
    expect(cancels()).toMatchObject([{ params: { requestId: transport.idOf(0) } }]);
    const error = await request;
    expect(error).toBeInstanceOf(CallCancelled);
    expect(error).toMatchObject({ reason: 'its caller asked for that' });
    vi.advanceTimersByTime(60_000);
    expect(cancels().length).toBe(1);
    expect(vi.getTimerCount()).toBe(0);
  });

  test('after its answer is told to nobody, and no call leaves a listener', async () => {
    const controller = new AbortController();
    const { signal } = controller;
    const answered = call(within(60_000), { signal });
    const refused = expect(call(within(60_000), { signal })).rejects.toThrow();
    const timedOut = expect(call(within(50), { signal })).rejects.toThrow();
    answer(transport.idOf(0));
    transport.receive({ jsonrpc: '2.0', id: transport.idOf(1), error: { code: 1, message: 'no' } });
    vi.advanceTimersByTime(50);
    await Promise.all([answered, refused, timedOut]);
    const cut = expect(call(within(50), { signal })).rejects.toThrow();
    channel.end();
    await cut;
    transport.sendFault = new Error('closed');
    await expect(call(within(50), { signal })).rejects.toThrow('closed');
    expect(getEventListeners(signal, 'abort')).toEqual([]);
    controller.abort('its caller asked for that');
    expect(cancels().length).toBe(1);
  });
});

describe('an answer to a call that was given up', () => {
  const giveUp = async (onLateAnswer: (attempt: Attempt) => void = () => {}): Promise<number> => {
    const request = expect(call(within(50), { onLateAnswer })).rejects.toBeInstanceOf(CallTimeout);
    const id = transport.idOf(transport.sent.length - 1);
    vi.advanceTimersByTime(50);
    await request;
    return id;
  };
  const result = { n: 1 };

  test('is told once, with whom it belongs to', async () => {
    const onLateAnswer = (): void => {};
    const id = await giveUp(onLateAnswer);
    for (let n = 0; n < 2; n++) answer(id, result);
    expect(late).toEqual([
      { call: expect.objectContaining({ onLateAnswer, attempts: 1 }), answer: { kind: 'result', result } },
    ]);
  });

  test('is nothing after the end of the connection, for a request that is no call, and for any other id', async () => {
    const id = await giveUp();
    const listed = expect(ask(10)).rejects.toBeInstanceOf(CallTimeout);
    const listId = transport.idOf(transport.sent.length - 1);
    vi.advanceTimersByTime(10);
    await listed;
    for (const other of [listId, 7]) answer(other, result);
    transport.receive({ jsonrpc: '2.0', id: String(id), result });
    channel.end();
    answer(id, result);
    expect(late).toEqual([]);
  });
});
