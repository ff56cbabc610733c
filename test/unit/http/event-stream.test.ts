import { once } from 'node:events';
import { connect } from 'node:net';
import { afterEach, describe, expect, test, vi } from 'vitest';
import type { PendingCall, Progress, SettledCall } from '../../../src/dispatch/ports.ts';
import { streamedAnswer } from '../../../src/http/event-stream.ts';
import { isStreamed } from '../../../src/http/exchange.ts';
import { listen } from '../../../src/http/listener.ts';
import { checkResponse, eventsOf } from '../../support/contract.ts';
import {
  createTestService,
  functionCall,
  heldTool,
  mintToken,
  type TestRequest,
  type TestServer,
  type TestService,
  textResult,
  tool,
} from '../../support/service.ts';
import { until } from '../../support/until.ts';

const lab: TestServer = { alias: 'lab', tools: [tool('pay'), tool('ping')] };
const reading: TestServer = { alias: 'docs', tools: [tool('look')], policy: { class: 'read' } };
const scopes = ['tools:lab:*', 'tools:docs:*'];
const mayAll: TestRequest = { scopes };
const asEvents: TestRequest = { scopes, headers: { accept: 'text/event-stream' } };
const pay = functionCall('c1', 'lab__pay');
const ping = functionCall('c2', 'lab__ping');
const look = functionCall('c3', 'docs__look');

function slowService() {
  const paying = heldTool(textResult('paid'));
  const looking = heldTool(textResult('seen'));
  const service = createTestService({
    servers: [lab, reading],
    behaviours: { 'lab:pay': paying.behaviour, 'docs:look': looking.behaviour },
  });
  return { service, paying, looking };
}

/** A service with a tool whose output no connection holds at once. */
const largeService = () =>
  createTestService({
    servers: [{ ...lab, policy: { outputCharsMax: 20_000_000 } }],
    behaviours: { 'lab:pay': () => textResult('x'.repeat(16_777_216)) },
  });

/** A stream of events as it comes. */
async function openStream(service: TestService, path: string, body: unknown) {
  const headers = { ...asEvents.headers, 'content-type': 'application/json' };
  const response = await service.open('POST', path, { scopes, headers }, JSON.stringify(body));
  expect(response.status).toBe(200);
  const reader = (response.body as ReadableStream<Uint8Array>).getReader();
  const decoder = new TextDecoder();
  let text = '';
  return {
    reader,
    response,
    text: () => text,
    /** The next piece; false at the end. */
    async read(): Promise<boolean> {
      const { done, value } = await reader.read();
      text += decoder.decode(value);
      return !done;
    },
    async readAll(): Promise<ReturnType<typeof eventsOf>> {
      while (await this.read());
      checkResponse('POST', path, { status: 200, headers: response.headers, body: text });
      return eventsOf(text);
    },
  };
}

/** Lets everything happen that is ready to; for a test whose timers stand still. */
async function nextLoopTurns(): Promise<void> {
  for (let count = 0; count < 20; count += 1) await new Promise((resolve) => setImmediate(resolve));
}

afterEach(() => void vi.useRealTimers());

describe('an event stream', () => {
  test('of a call ends with the body of the plain answer', async () => {
    const service = createTestService({ servers: [lab] });
    const { status, headers, text } = await service.post('/v1/calls', pay, asEvents);
    expect([status, headers.get('content-type')]).toEqual([200, 'text/event-stream']);
    expect(headers.get('cache-control')).toBe('no-store');
    expect(headers.get('x-accel-buffering')).toBe('no');
    expect(headers.get('callgate-revision')).toMatch(/^.{22}$/);
    const plain = await service.post('/v1/calls', pay, mayAll);
    const id = plain.headers.get('callgate-id');
    expect(eventsOf(text)).toEqual([
      { event: 'output', data: { index: 0, id, call_id: 'c1', item: plain.json } },
      { event: 'done', data: plain.json },
    ]);
  });

  test('of a turn gives each output as it is ready, and all of them at the end', async () => {
    const { service, paying } = slowService();
    const stream = await openStream(service, '/v1/turns', [pay, ping]);
    while (!stream.text().includes('event: output')) await stream.read();
    expect(eventsOf(stream.text())).toMatchObject([{ event: 'output', data: { index: 1, call_id: 'c2' } }]);
    paying.finish();
    const events = await stream.readAll();
    expect(events.map(({ event }) => event)).toEqual(['output', 'output', 'done']);
    expect(events[1]?.data).toMatchObject({ index: 0, call_id: 'c1' });
    const [second, first] = events.map(({ data }) => data.item);
    expect(events[2]?.data.append).toEqual([first, second]);
    expect(events[2]?.data.calls).toMatchObject([{ call_id: 'c1' }, { call_id: 'c2' }]);
    expect(service.service.admission.running).toBe(0);
  });

  test('of a turn without calls, and of one in another format, is the same', async () => {
    const service = createTestService({ servers: [lab] });
    const empty = await service.post('/v1/turns', [], asEvents);
    expect(eventsOf(empty.text)).toEqual([{ event: 'done', data: { append: [], calls: [], left: [] } }]);
    const call = [{ id: 'm1', name: 'lab__ping' }];
    const mcp = await service.post('/v1/turns?format=mcp', call, asEvents);
    expect(eventsOf(mcp.text)[0]?.data.item).toMatchObject({ id: 'm1', result: { isError: false } });
  });

  test('tells the progress of each call', async () => {
    const { service, paying } = slowService();
    const stream = await openStream(service, '/v1/turns', [pay]);
    const other = await openStream(service, '/v1/calls', pay);
    await paying.called;
    paying.calls[0]?.onProgress({ progress: 1 });
    paying.calls[0]?.onProgress({ progress: 2, total: 3, message: 'two\nlines\u2028' });
    paying.finish();
    for (const events of [await stream.readAll(), await other.readAll()]) {
      const id = service.finished[0]?.settled.id;
      expect(events.slice(0, 2)).toEqual([
        { event: 'progress', data: { id, call_id: 'c1', progress: 1 } },
        {
          event: 'progress',
          data: { id, call_id: 'c1', progress: 2, total: 3, message: 'two\nlines\u2028' },
        },
      ]);
      expect(events.at(-1)?.event).toBe('done');
    }
  });

  test('loses progress and nothing else where its reader does not keep up', async () => {
    const { service, paying } = slowService();
    const stream = await openStream(service, '/v1/turns', [pay, ping]);
    await paying.called;
    const told: Progress = { progress: 1, message: 'x'.repeat(1_000) };
    for (let count = 0; count < 10_000; count += 1) paying.calls[0]?.onProgress(told);
    paying.finish();
    await until(() => service.finished.length === 2);
    const events = await stream.readAll();
    const progress = events.filter(({ event }) => event === 'progress');
    expect(progress.length).toBeGreaterThan(10);
    expect(progress.length).toBeLessThan(100);
    expect(events.slice(progress.length).map(({ event }) => event)).toEqual(
      expect.arrayContaining(['output', 'done']),
    );
    expect(events.filter(({ event }) => event === 'output')).toHaveLength(2);
  });

  test('sends comments while nothing happens, for at most 15 s of silence (O27)', async () => {
    const { service, paying } = slowService();
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
    const stream = await openStream(service, '/v1/calls', pay);
    await stream.read();
    expect(stream.text()).toBe(':\n\n');
    for (let count = 2; count < 6; count += 1) {
      vi.advanceTimersByTime(15_000);
      await stream.read();
      expect(stream.text()).toMatch(/^(:\n\n){2,9}$/);
    }
    paying.finish();
    const events = await stream.readAll();
    expect(events.map(({ event }) => event)).toEqual(['output', 'done']);
    expect(vi.getTimerCount()).toBe(0);
  });

  test('is not cut where a plain answer would be 202, and Prefer changes nothing', async () => {
    const { service, paying } = slowService();
    Object.assign(service.service, { limits: { ...service.service.limits, waitMaxMs: 0 } });
    expect((await service.post('/v1/calls', pay, mayAll)).status).toBe(202);
    const stream = await openStream(service, '/v1/calls', pay);
    paying.finish();
    expect((await stream.readAll()).map(({ event }) => event)).toEqual(['output', 'done']);
  });

  test('ends calls that only read when its reader leaves, and no others', async () => {
    const { service, paying, looking } = slowService();
    const stream = await openStream(service, '/v1/turns', [look, pay]);
    await Promise.all([looking.called, paying.called]);
    await stream.reader.cancel();
    expect(looking.calls[0]?.signal.reason).toBe('its caller has left');
    expect(paying.calls[0]?.signal.aborted).toBe(false);
    expect(service.service.admission.running).toBe(0);
    paying.finish();
    await until(() => service.finished.length === 2);
    expect((await service.post('/v1/calls', pay, mayAll)).headers.get('callgate-replayed')).toBe('true');
  });

  test('counts as a request in work until it is read', async () => {
    const { service, paying } = slowService();
    const stream = await openStream(service, '/v1/calls', pay);
    await paying.called;
    expect(service.service.admission.running).toBe(1);
    let isDrained = false;
    const drained = service.service.admission.close(60_000).then(() => {
      isDrained = true;
    });
    paying.finish();
    await until(() => service.finished.length === 1);
    expect(isDrained).toBe(false);
    await stream.readAll();
    await drained;
  });

  test('is no work in hand any more when only its reader is missing, and can still be read', async () => {
    const { service, paying } = slowService();
    const { admission } = service.service;
    const stream = await openStream(service, '/v1/calls', pay);
    await paying.called;
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    const drained = admission.close(60_000);
    vi.advanceTimersByTime(10_000);
    await nextLoopTurns();
    expect(admission.running).toBe(1);
    paying.finish();
    await nextLoopTurns();
    vi.advanceTimersByTime(1_000);
    expect(await stream.read()).toBe(true);
    vi.advanceTimersByTime(1_500);
    await nextLoopTurns();
    expect(admission.running).toBe(1);
    vi.advanceTimersByTime(1_000);
    await drained;
    expect((await stream.readAll()).map(({ event }) => event)).toEqual(['output', 'done']);
    expect(vi.getTimerCount()).toBe(0);
  });

  test('of which nothing is taken for a minute is cut, as if its reader had left', async () => {
    const { service, paying, looking } = slowService();
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
    const path = '/v1/turns';
    const headers = { ...asEvents.headers, 'content-type': 'application/json', 'x-request-id': 'lazy' };
    const body = JSON.stringify([look, pay]);
    const response = await service.open('POST', path, { scopes, headers }, body);
    const attentive = await openStream(service, path, [look, pay]);
    await Promise.all([looking.called, paying.called]);
    for (let count = 0; count < 6; count += 1) {
      vi.advanceTimersByTime(10_000);
      await attentive.read();
    }
    expect(service.service.admission.running).toBe(2);
    vi.advanceTimersByTime(10_000);
    await nextLoopTurns();
    expect(service.service.admission.running).toBe(1);
    expect(service.events).toContainEqual({ event: 'stream.stalled', fields: { request_id: 'lazy' } });
    await expect(response.text()).rejects.toThrow('takes nothing');
    // The other reader still waits for the call.
    expect(looking.calls[0]?.signal.aborted).toBe(false);
    await attentive.reader.cancel();
    expect(looking.calls[0]?.signal.reason).toBe('its caller has left');
    expect(vi.getTimerCount()).toBe(0);
    paying.finish();
    await until(() => service.finished.length === 2);
  });

  test('that is not taken from its connection is cut with it', async () => {
    const service = largeService();
    const listener = await listen(service.service, { host: '127.0.0.1', port: 0 }, { bodyTimeoutMs: 30_000 });
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
    const body = JSON.stringify(pay);
    const head = [
      'POST /v1/calls HTTP/1.1',
      'host: 127.0.0.1',
      `authorization: Bearer ${await mintToken(...scopes)}`,
      'accept: text/event-stream',
      'content-type: application/json',
      `content-length: ${body.length}`,
    ];
    const socket = connect(Number(new URL(listener.url).port), '127.0.0.1');
    socket.on('error', () => {});
    socket.write(`${head.join('\r\n')}\r\n\r\n${body}`);
    await until(() => service.finished.length === 1);
    vi.advanceTimersByTime(70_000);
    const closed = once(socket, 'close');
    socket.resume();
    await closed;
    expect(service.events.at(-1)?.event).toBe('stream.stalled');
    expect(service.service.admission.running).toBe(0);
    listener.closeNow();
    await listener.close();
  });

  test('of which a little is taken every minute is not cut', async () => {
    const service = largeService();
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
    const stream = await openStream(service, '/v1/calls', pay);
    await until(() => service.finished.length === 1);
    for (let count = 0; count < 12; count += 1) {
      vi.advanceTimersByTime(60_000);
      expect(await stream.read()).toBe(true);
    }
    const events = await stream.readAll();
    expect(events.map(({ event }) => event)).toEqual(['output', 'done']);
    expect(events[0]?.data.item).toEqual(events[1]?.data);
  });

  test.each(['output', 'done'])(
    'whose %s cannot be written breaks off and lets go of all',
    async (faulty) => {
      const service = createTestService();
      const left = vi.fn<() => void>();
      let settle = (): void => {};
      const settled = new Promise<SettledCall>((resolve) => {
        settle = () => resolve({ id: 'id-1' } as SettledCall);
      });
      const pending: Partial<PendingCall> = {
        call: { callId: 'c1' } as PendingCall['call'],
        settled,
        onProgress: () => () => {},
        leave: left,
      };
      const write = (event: string): string => {
        if (event === faulty) throw new RangeError('Invalid string length');
        return 'x';
      };
      const calls = {
        begin: (onBegun: (call: PendingCall, index: number) => void): PendingCall => {
          onBegun(pending as PendingCall, 0);
          return pending as PendingCall;
        },
        item: () => write('output'),
        whole: () => write('done'),
      };
      vi.useFakeTimers();
      const { body } = streamedAnswer(calls, {}, 'req-1', service.service);
      if (!isStreamed(body)) throw new Error('no stream');
      settle();
      await expect(new Response(body.stream).text()).rejects.toThrow('callgate failed on this request');
      await body.ended;
      expect(left).toHaveBeenCalledTimes(faulty === 'output' ? 1 : 0);
      expect(vi.getTimerCount()).toBe(0);
      expect(service.events.at(-1)).toMatchObject({
        event: 'request.failed',
        fields: { request_id: 'req-1' },
      });
    },
  );

  test('that callgate fails on breaks off', async () => {
    const { service, paying } = slowService();
    Object.assign(service.service.dispatch, {
      observer: {
        ...service.service.dispatch.observer,
        callFinished: () => {
          throw new Error('a bug');
        },
      },
    });
    const stream = await openStream(service, '/v1/calls', pay);
    await paying.called;
    paying.finish();
    await expect(stream.readAll()).rejects.toThrow('callgate failed on this request');
    expect(service.events.map(({ event }) => event)).toContain('request.failed');
    expect(service.service.admission.running).toBe(0);
  });
});

describe('who gets an event stream', () => {
  test.each([
    'text/event-stream',
    'TEXT/EVENT-STREAM',
    'text/event-stream, text/html',
    'text/event-stream, application/json;q=0.9',
    'text/event-stream;q=0.5, */*;q=0.1',
    'application/json;q=0, text/event-stream;q=0.1',
  ])('%s does', async (accept) => {
    const service = createTestService({ servers: [lab] });
    for (const [path, body] of [
      ['/v1/calls', pay],
      ['/v1/turns', [pay]],
    ] as const) {
      const { headers } = await service.post(path, body, { scopes, headers: { accept } });
      expect(headers.get('content-type')).toBe('text/event-stream');
    }
  });

  test.each([
    'application/json, text/event-stream',
    'text/event-stream, */*',
    'text/event-stream;q=0.5, application/json;q=0.5',
    'text/event-stream;q=0.4, application/*;q=0.5',
    '*/*',
    'text/event-stream;q=0, application/json;q=0.1',
  ])('%s does not', async (accept) => {
    const service = createTestService({ servers: [lab] });
    const { headers } = await service.post('/v1/calls', pay, { scopes, headers: { accept } });
    expect(headers.get('content-type')).toBe('application/json');
  });

  test('whoever sent something that is no call gets a problem', async () => {
    const service = createTestService({ servers: [lab] });
    for (const [path, body] of [
      ['/v1/calls', {}],
      ['/v1/turns', [pay, pay]],
      ['/v1/calls?x=y', pay],
    ] as const) {
      const { status, json } = await service.post(path, body, asEvents);
      expect([status, json.code]).toEqual([400, 'invalid_request']);
    }
    const { status } = await service.post('/v1/calls', pay, { ...asEvents, token: null });
    expect(status).toBe(401);
  });

  test('whoever calls while the ledger cannot be written gets that as an output', async () => {
    const service = createTestService({ servers: [lab] });
    service.ledger.brokenBy = 'the disk is full';
    const { text } = await service.post('/v1/calls', pay, asEvents);
    const [output] = eventsOf(text);
    expect(JSON.parse(output?.data.item.output).error.code).toBe('ledger_unavailable');
    expect(service.sent).toEqual([]);
  });
});
