import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js';
import { type JSONRPCMessage, McpError } from '@modelcontextprotocol/sdk/types.js';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { CallChannel, CallTimeout, ConnectionEnded } from '../../../src/upstream/call-channel.ts';

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
const ask = (timeoutMs = 60_000) => channel.request('tools/call', { name: 'echo' }, timeoutMs);
const answer = (id: number, result: Record<string, unknown> = {}) =>
  transport.receive({ jsonrpc: '2.0', id, result });

beforeEach(() => {
  vi.useFakeTimers();
  transport = new FakeTransport();
  channel = new CallChannel(transport);
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
