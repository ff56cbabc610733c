import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { Admission } from '../../src/http/admission.ts';
import { type Listener, listen } from '../../src/http/listener.ts';
import { checkResponse, eventsOf } from '../support/contract.ts';
import {
  type Behaviour,
  createTestService,
  functionCall,
  heldTool,
  mintToken,
  type TestService,
  tool,
} from '../support/service.ts';
import { until } from '../support/until.ts';

const bytesMax = 65_536;
const good = JSON.stringify(functionCall('c', 'lab__ping'));
const other = JSON.stringify(functionCall('d', 'lab__ping'));

let service: TestService;
let listener: Listener;
let token: string;
let pong: Behaviour;

beforeEach(async () => {
  pong = () => ({ content: [{ type: 'text', text: 'pong' }] });
  service = createTestService({
    servers: [
      { alias: 'lab', tools: [tool('ping')] },
      { alias: 'docs', tools: [tool('look')], policy: { class: 'read' } },
    ],
    behaviours: { 'lab:ping': (call) => pong(call), 'docs:look': (call) => pong(call) },
    service: {
      limits: { bodyBytesMax: bytesMax, turnBytesMax: bytesMax, intentsMax: 64, waitMaxMs: 55_000 },
    },
  });
  token = await mintToken('tools:lab:*', 'tools:docs:*');
  listener = await listen(service.service, { host: '127.0.0.1', port: 0 }, { bodyTimeoutMs: 1_000 });
});

// Whatever came before, the next request works, and nothing of callgate has failed.
afterEach(async () => {
  pong = () => ({ content: [] });
  const response = await post(good);
  expect(response.status).toBe(200);
  listener.closeNow();
  await listener.close();
  expect(service.events.map(({ event }) => event)).not.toContain('request.failed');
});

const post = (body: string, path = '/v1/calls'): Promise<Response> =>
  fetch(new URL(path, listener.url), {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    body,
  });

/** A socket to the listener, with the bytes of a request written to it. */
function dial(...parts: readonly (string | Buffer)[]): Socket {
  const socket = connect(Number(new URL(listener.url).port), '127.0.0.1');
  // A refused peer may be cut off while it still writes.
  socket.on('error', () => {});
  for (const part of parts) socket.write(part);
  return socket;
}

/** The only answer on a socket, checked against the contract, once the socket is closed. */
async function answer(socket: Socket, method = 'POST', path = '/v1/calls') {
  let raw = '';
  socket.setEncoding('utf8').on('data', (part) => {
    raw += part;
  });
  // Not `once`, which an EPIPE of the client's own would end: the answer may be there all the same.
  await new Promise((resolve) => socket.once('close', resolve));
  const [head = '', ...rest] = raw.split('\r\n\r\n');
  const [statusLine = '', ...lines] = head.split('\r\n');
  const headers = new Headers(lines.map((line) => line.split(/: ?(.*)/s).slice(0, 2) as [string, string]));
  const body = rest.join('\r\n\r\n');
  expect(Buffer.byteLength(body)).toBe(Number(headers.get('content-length')));
  const status = Number(/^HTTP\/1\.1 (\d{3}) /.exec(statusLine)?.[1]);
  checkResponse(method, path, { status, headers, body });
  return { status, headers, code: (JSON.parse(body) as { code?: string }).code };
}

const head = (line: string, ...headers: readonly string[]): string =>
  [line, 'Host: localhost', ...headers, '', ''].join('\r\n');
const postHead = (...headers: readonly string[]): string =>
  head(
    'POST /v1/calls HTTP/1.1',
    `Authorization: Bearer ${token}`,
    'Content-Type: application/json',
    ...headers,
  );

describe('on a real socket', () => {
  test('a call is answered, and the connection is used again', async () => {
    const socket = dial(postHead(`Content-Length: ${good.length}`), good);
    await once(socket, 'data');
    socket.write(postHead(`Content-Length: ${other.length}`, 'Connection: close') + other);
    expect((await answer(socket)).status).toBe(200);
    expect(service.sent).toHaveLength(2);
  });

  test('a chunked body is read', async () => {
    const chunk = `${good.length.toString(16)}\r\n${good}\r\n0\r\n\r\n`;
    const socket = dial(postHead('Transfer-Encoding: chunked', 'Connection: close'), chunk);
    expect((await answer(socket)).status).toBe(200);
  });

  test('a body that is announced as too large is refused before it is sent', async () => {
    const socket = dial(postHead(`Content-Length: ${bytesMax + 1}`));
    expect(await answer(socket)).toMatchObject({ status: 413, code: 'payload_too_large' });
  });

  test('a chunked body over the limit is refused while it is sent, and the client can read why', async () => {
    const socket = dial(postHead('Transfer-Encoding: chunked'));
    const part = Buffer.from(`4000\r\n${' '.repeat(0x4000)}\r\n`);
    let isAnswered = false;
    socket.once('data', () => {
      isAnswered = true;
    });
    const more = (): void => {
      if (!isAnswered) socket.write(part, () => setImmediate(more));
    };
    more();
    expect(await answer(socket)).toMatchObject({ status: 413, code: 'payload_too_large' });
  });

  test('headers over 16 KiB are refused with 431', async () => {
    const socket = dial(head('GET /healthz HTTP/1.1', `X-Long: ${'x'.repeat(200_000)}`));
    expect(await answer(socket, 'GET', '/healthz')).toMatchObject({ status: 431, code: 'headers_too_large' });
  });

  test('a body that does not come in time is refused', async () => {
    const socket = dial(postHead('Content-Length: 1000'), '{"type"');
    expect(await answer(socket)).toMatchObject({ status: 400, code: 'invalid_request' });
    expect(service.sent).toEqual([]);
  });

  test('headers that do not come in time are refused', async () => {
    const socket = dial('POST /v1/calls HTTP/1.1\r\nHost: localh');
    expect(await answer(socket)).toMatchObject({ status: 400, code: 'invalid_request' });
  });

  test.each([
    ['no HTTP', 'hello\r\n\r\n'],
    ['a TLS greeting', Buffer.from([0x16, 0x03, 0x01, 0x02, 0x00, 0x01, 0x00, 0x01, 0xfc, 0x03, 0x03])],
    ['another version', 'GET / HTTP/9.9\r\nHost: localhost\r\n\r\n'],
    ['an unknown method', head('BREW /v1/calls HTTP/1.1')],
    ['two lengths', head('POST /v1/calls HTTP/1.1', 'Content-Length: 5', 'Content-Length: 6')],
    [
      'a length and chunks',
      head('POST /v1/calls HTTP/1.1', 'Content-Length: 5', 'Transfer-Encoding: chunked'),
    ],
    ['a length that is no number', head('POST /v1/calls HTTP/1.1', 'Content-Length: five')],
    ['a broken header', 'GET /healthz HTTP/1.1\r\nHost localhost\r\n\r\n'],
    ['no host', 'GET /healthz HTTP/1.1\r\nConnection: close\r\n\r\n'],
    ['a host that is none', 'GET /healthz HTTP/1.1\r\nHost: a b/c\r\nConnection: close\r\n\r\n'],
    ['a target that is none', head('GET \\healthz HTTP/1.1', 'Connection: close')],
    [
      'a broken chunk',
      `${head('POST /v1/calls HTTP/1.1', 'Transfer-Encoding: chunked', 'Connection: close')}zz\r\n`,
    ],
  ])('%s is refused with a problem', async (_, bytes) => {
    expect(await answer(dial(bytes), 'POST', '/')).toMatchObject({ status: 400, code: 'invalid_request' });
  });

  test.each(['CONNECT', 'TRACE', 'SEARCH', 'MKCOL'])('the method %s is refused with 405', async (method) => {
    const socket = dial(head(`${method} /v1/calls HTTP/1.1`, 'Connection: close'));
    expect(await answer(socket, method)).toMatchObject({ status: 405, code: 'method_not_allowed' });
  });

  test('wishes for another protocol, or with an unknown expectation, are served as they are', async () => {
    for (const wish of [
      ['Connection: Upgrade, close', 'Upgrade: h2c'],
      ['Expect: tea', 'Connection: close'],
    ]) {
      const { status } = await answer(dial(head('GET /healthz HTTP/1.1', ...wish)), 'GET', '/healthz');
      expect([wish, status]).toEqual([wish, 200]);
    }
  });

  test('two Authorization headers are refused', async () => {
    const twice = [`Authorization: Bearer ${token}`, `Authorization: Bearer ${token}`, 'Connection: close'];
    const socket = dial(head('GET /v1/declarations HTTP/1.1', ...twice));
    expect(await answer(socket, 'GET', '/v1/declarations')).toMatchObject({
      status: 400,
      code: 'invalid_request',
    });
  });

  test('a client that leaves in the middle of its body harms nothing', async () => {
    for (const framing of ['Content-Length: 1000', 'Transfer-Encoding: chunked']) {
      const socket = dial(postHead(framing), '10\r\n{"type":"functio');
      await once(socket, 'connect');
      socket.end();
      expect((await answer(socket)).status).toBe(400);
      const other = dial(postHead(framing), '10\r\n{"type":"functio');
      await once(other, 'connect');
      other.resetAndDestroy();
    }
    expect(service.sent).toEqual([]);
  });

  test('a client that leaves during its call harms nothing, and the call comes to its end', async () => {
    let finish = (): void => {};
    const called = new Promise<void>((begun) => {
      pong = () =>
        new Promise((resolve) => {
          finish = () => resolve({ content: [] });
          begun();
        });
    });
    const socket = dial(postHead(`Content-Length: ${good.length}`), good);
    await called;
    socket.resetAndDestroy();
    await once(socket, 'close');
    finish();
    const isSettled = (): boolean => service.finished.length === 1;
    while (!isSettled()) await new Promise((resolve) => setImmediate(resolve));
    expect(service.finished[0]?.settled.outcome.status).toBe('succeeded');
  });

  test('garbage after a good request does not change its answer', async () => {
    const socket = dial(postHead(`Content-Length: ${good.length}`, 'Connection: close') + good);
    const answered = answer(socket);
    socket.write('garbage\r\n\r\n');
    expect((await answered).status).toBe(200);
  });
});

// Requests whose length is announced are served from Node's own request, others through a web Request.
describe.each(['Content-Length', 'Transfer-Encoding'])('a caller who waits (%s)', (framing) => {
  const wire = (body: unknown, path: string, ...headers: readonly string[]): string => {
    const text = JSON.stringify(body);
    const line = head(
      `POST ${path} HTTP/1.1`,
      `Authorization: Bearer ${token}`,
      'Content-Type: application/json',
      ...headers,
      framing === 'Content-Length' ? `Content-Length: ${text.length}` : 'Transfer-Encoding: chunked',
    );
    return (
      line + (framing === 'Content-Length' ? text : `${text.length.toString(16)}\r\n${text}\r\n0\r\n\r\n`)
    );
  };
  const look = functionCall('r', 'docs__look');
  const ping = functionCall('w', 'lab__ping');

  /** All that comes on a socket. */
  const listenTo = (socket: Socket) => {
    let raw = '';
    socket.setEncoding('utf8').on('data', (part) => {
      raw += part;
    });
    return () => raw;
  };
  /** The body of a chunked answer, as far as whole chunks of it have come. */
  const bodyOf = (raw: string): string => {
    let rest = raw.slice(raw.indexOf('\r\n\r\n') + 4);
    let body = '';
    for (;;) {
      const line = /^([0-9a-f]+)\r\n/.exec(rest);
      if (line === null) return body;
      const end = line[0].length + Number.parseInt(line[1] ?? '', 16);
      if (rest.length < end) return body;
      body += rest.slice(line[0].length, end);
      rest = rest.slice(end + 2);
    }
  };

  test.each(['/v1/calls', '/v1/turns'])('and hangs up ends what only reads (%s)', async (path) => {
    for (const accept of ['application/json', 'text/event-stream']) {
      const held = heldTool();
      pong = held.behaviour;
      const call = functionCall(`${path} ${accept}`, 'docs__look');
      const socket = dial(wire(call, path, `Accept: ${accept}`));
      await held.called;
      socket.destroy();
      await until(() => held.calls[0]?.signal.reason === 'its caller has left');
      await until(() => service.service.admission.running === 0);
    }
  });

  test.each(['/v1/calls', '/v1/turns'])('and hangs up finds a write done later (%s)', async (path) => {
    for (const accept of ['application/json', 'text/event-stream']) {
      const held = heldTool();
      pong = held.behaviour;
      const call = functionCall(accept, 'lab__ping');
      const socket = dial(wire(call, path, `Accept: ${accept}`));
      await held.called;
      socket.destroy();
      await once(socket, 'close');
      const before = service.finished.length;
      held.finish();
      await until(() => service.finished.length > before);
      expect(held.calls[0]?.signal.aborted).toBe(false);
      expect((await post(JSON.stringify(call))).headers.get('callgate-replayed')).toBe('true');
    }
  });

  test('and takes a 202 may leave', async () => {
    const held = heldTool();
    pong = held.behaviour;
    const socket = dial(wire(look, '/v1/calls', 'Prefer: respond-async', 'Connection: close'));
    expect((await answer(socket)).status).toBe(202);
    expect(held.calls[0]?.signal.aborted).toBe(false);
    held.finish();
    await until(() => service.finished.length === 1);
    expect((await post(JSON.stringify(look))).headers.get('callgate-status')).toBe('succeeded');
  });

  test('for events gets each as it comes, and comments while none does', async () => {
    const held = heldTool();
    pong = held.behaviour;
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
    try {
      const socket = dial(wire([ping], '/v1/turns', 'Accept: text/event-stream', 'Connection: close'));
      const raw = listenTo(socket);
      const seen = (text: string): Promise<void> => until(() => bodyOf(raw()).includes(text));
      await seen(':\n\n');
      expect(raw()).toMatch(/^HTTP\/1\.1 200 OK\r\n/);
      expect(raw().toLowerCase()).toContain('x-accel-buffering: no\r\n');
      expect(raw().toLowerCase()).not.toContain('content-length');
      await held.called;
      held.calls[0]?.onProgress({ progress: 1 });
      await seen('event: progress');
      const before = bodyOf(raw()).length;
      vi.advanceTimersByTime(15_000);
      await until(() => bodyOf(raw()).length > before);
      expect(bodyOf(raw()).slice(before)).toBe(':\n\n');
      held.finish();
      await new Promise((resolve) => socket.once('close', resolve));
      const events = eventsOf(bodyOf(raw()));
      expect(events.map(({ event }) => event)).toEqual(['progress', 'output', 'done']);
    } finally {
      vi.useRealTimers();
    }
  });

  test('for events and does not read them costs no more than a bounded part of them', async () => {
    const held = heldTool({ content: [{ type: 'text', text: 'the output' }] });
    pong = held.behaviour;
    const socket = dial(wire(ping, '/v1/calls', 'Accept: text/event-stream', 'Connection: close'));
    socket.pause();
    await held.called;
    const message = 'x'.repeat(10_000);
    const told = 5_000;
    for (let count = 0; count < told; count += 1) {
      held.calls[0]?.onProgress({ progress: count, message });
      if (count % 50 === 0) await new Promise((resolve) => setImmediate(resolve));
    }
    held.finish();
    await until(() => service.finished.length === 1);
    const raw = listenTo(socket);
    socket.resume();
    await new Promise((resolve) => socket.once('close', resolve));
    expect(raw().split('event: progress').length).toBeLessThan(told);
    expect(raw()).toContain('event: output');
    expect(raw()).toContain('event: done');
  });
});

describe('at the end', () => {
  test('an answer that has just been finished is still written', async () => {
    let finish = (): void => {};
    const called = new Promise<void>((begun) => {
      pong = () =>
        new Promise((resolve) => {
          finish = () => resolve({ content: [] });
          begun();
        });
    });
    const admission = new Admission();
    const other = await listen(
      { ...service.service, admission },
      { host: '127.0.0.1', port: 0 },
      { bodyTimeoutMs: 30_000 },
    );
    const socket = connect(Number(new URL(other.url).port), '127.0.0.1');
    const idle = connect(Number(new URL(other.url).port), '127.0.0.1');
    await once(idle, 'connect');
    socket.write(postHead(`Content-Length: ${good.length}`) + good);
    await called;
    const drained = admission.close(30_000).then(() => other.closeNow());
    finish();
    expect((await answer(socket)).status).toBe(200);
    await drained;
    await other.close();
  });

  test('a bound on bodies that is shorter than the one on headers is no fault', async () => {
    const strict = await listen(service.service, { host: '127.0.0.1', port: 0 }, { bodyTimeoutMs: 1 });
    strict.closeNow();
    await strict.close();
  });
});
