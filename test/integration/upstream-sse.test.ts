import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { afterEach, describe, expect, test } from 'vitest';
import type { Attempt } from '../../src/dispatch/ports.ts';
import type { ServerSettings, TransportSettings } from '../../src/upstream/settings.ts';
import { FaultSseServer, type FaultSseServerOptions } from '../support/fault-sse-server.ts';
import { referenceServer } from '../support/reference-servers.ts';
import {
  legacyConnection,
  longDeadline,
  server,
  textOf,
  toolCall,
  WatchedUpstreams,
} from '../support/upstream.ts';

const running: WatchedUpstreams[] = [];
const peers: FaultSseServer[] = [];
const children: ChildProcess[] = [];

const sse = (url: string, headers: Record<string, string> = {}): TransportSettings => ({
  kind: 'sse',
  url,
  headers,
  credentials: undefined,
});

async function watch(
  transport: TransportSettings,
  settings: Partial<ServerSettings> = {},
): Promise<WatchedUpstreams> {
  const watched = new WatchedUpstreams([server('one', transport, settings)]);
  running.push(watched);
  await watched.upstreams.firstListings;
  return watched;
}

async function start(
  options: FaultSseServerOptions = {},
  settings: Partial<ServerSettings> = {},
  headers: Record<string, string> = {},
): Promise<{ peer: FaultSseServer; watched: WatchedUpstreams }> {
  const peer = await FaultSseServer.start(options);
  peers.push(peer);
  return { peer, watched: await watch(sse(peer.url, headers), settings) };
}

afterEach(async () => {
  for (const watched of running.splice(0)) await watched.upstreams.stop();
  for (const peer of peers.splice(0)) {
    await peer.when(() => peer.openStreams === 0);
    await peer.stop();
  }
  for (const child of children.splice(0)) child.kill();
});

const failure = (attempt: Attempt): unknown =>
  attempt.kind === 'failed'
    ? { code: attempt.code, sent: attempt.sent, mayHaveExecuted: attempt.mayHaveExecuted }
    : attempt;
const unknown = (code: string) => ({ code, sent: true, mayHaveExecuted: true });
const refused = { code: 'server_unavailable', sent: false, mayHaveExecuted: false };

/** Nobody waits for this: what ends at once ends long before. */
const timeoutMs = 600_000;

test('the reference server is listed and called in its mode for old clients', async () => {
  const port = await freePort();
  const child = spawn(process.execPath, [referenceServer('everything'), 'sse'], {
    env: { ...process.env, PORT: String(port) },
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  children.push(child);
  await said(child, String(port));
  const watched = await watch(sse(`http://127.0.0.1:${port}/sse`));
  expect(watched.lists[0]?.tools.map(({ name }) => name)).toContain('get-sum');
  expect(watched.status()).toMatchObject({ state: 'ready' });
  const attempts = await Promise.all(
    Array.from({ length: 10 }, (_, n) => watched.call('echo', { message: `m${n}` })),
  );
  expect(attempts.map(textOf)).toEqual(Array.from({ length: 10 }, (_, n) => `Echo: m${n}`));
  child.kill();
  await watched.when(() => watched.status().state !== 'ready');
});

describe('an answer over HTTP+SSE', () => {
  test.each(['echo', 'echo_first', 'string_id'])('comes by the stream (%s)', async (tool) => {
    const { peer, watched } = await start();
    expect(textOf(await watched.call(tool, { text: 'hällo' }))).toBe('hällo');
    expect(watched.status().protocolVersion).toBe('2024-11-05');
    expect(peer.counts['GET /sse']).toBe(1);
  });

  test('is found among noise, answers to nobody and another endpoint', async () => {
    const { peer, watched } = await start();
    expect(textOf(await watched.call('noise_first'))).toBe('it');
    expect(textOf(await watched.call('echo', { text: 'still here' }))).toBe('still here');
    expect(Object.keys(peer.counts)).not.toContain('POST /elsewhere');
  });

  test('may be preceded by a request of the server, which gets its reply', async () => {
    const { watched } = await start();
    expect(textOf(await watched.call('ping_first'))).toBe('replied');
  });

  test('is asked for with the configured headers', async () => {
    const { watched } = await start({}, {}, { 'X-Key': 'K1' });
    const headers = JSON.parse(String(textOf(await watched.call('headers'))));
    expect(headers).toMatchObject({ 'x-key': 'K1', 'content-type': 'application/json' });
  });

  test('over the cap fails its call alone, and the stream goes on', async () => {
    const { peer, watched } = await start({}, { resultBytesMax: 100_000 });
    const other = watched.call('never', {}, { timeoutMs: 1_000 });
    expect(failure(await watched.call('huge', { bytes: 4_194_304 }, { timeoutMs }))).toEqual(
      unknown('output_too_large'),
    );
    expect(textOf(await watched.call('echo', { text: 'next' }))).toBe('next');
    expect(failure(await other)).toEqual(unknown('timeout'));
    expect(peer.counts['GET /sse']).toBe(1);
  });

  test('that is none fails its call at once', async () => {
    const { watched } = await start();
    expect(failure(await watched.call('null_result', {}, { timeoutMs }))).toEqual(unknown('protocol_error'));
  });
});

describe('the end of the stream', () => {
  test.each(['end_stream', 'cut_stream'])('(%s) cuts what runs, and a new one is opened', async (tool) => {
    const { peer, watched } = await start();
    const running = watched.call('never', {}, { timeoutMs });
    await peer.when(() => peer.counts['tool:never'] === 1);
    expect(failure(await watched.call(tool, {}, { timeoutMs }))).toEqual(unknown('connection_lost'));
    expect(failure(await running)).toEqual(unknown('connection_lost'));
    expect(textOf(await watched.call('echo', { text: 'again' }))).toBe('again');
    expect(peer.counts).toMatchObject({ 'GET /sse': 2, [`tool:${tool}`]: 1 });
  });

  test('a notice on it leads to a new list', async () => {
    const { peer, watched } = await start();
    peer.listed = [{ name: 'n1', inputSchema: {} }];
    peer.notify('notifications/tools/list_changed');
    await watched.when(() => watched.lists.length === 2);
    expect(watched.lists[1]?.tools).toEqual([{ name: 'n1', inputSchema: {} }]);
  });
});

describe('a message that the server does not take', () => {
  test.each([401, 403, 404, 429])('with HTTP %i was not sent', async (status) => {
    const { watched } = await start();
    expect(failure(await watched.call('status', { status }, { timeoutMs }))).toMatchObject(refused);
  });

  test.each([400, 500])('with HTTP %i is unknown, and tells nothing of the body', async (status) => {
    const { watched } = await start();
    const attempt = await watched.call('status', { status }, { timeoutMs });
    expect(failure(attempt)).toEqual(unknown('protocol_error'));
    expect(attempt).toMatchObject({ message: expect.not.stringContaining('T3') });
  });

  test.each(['never', 'never_taken'])('(%s) is given up, and cancelled', async (tool) => {
    const { peer, watched } = await start();
    expect(failure(await watched.call(tool, {}, { timeoutMs: 200 }))).toEqual(unknown('timeout'));
    await peer.when(() => peer.cancelled.length === 1);
    expect(textOf(await watched.call('echo', { text: 'next' }))).toBe('next');
  });
});

test('credentials that have run out are renewed, for the stream and for a message', async () => {
  let wanted = 2;
  const peer = await FaultSseServer.start({ authorization: () => `Bearer ${wanted}` });
  peers.push(peer);
  let token = 1;
  const connection = legacyConnection(sse(peer.url), {
    credentials: {
      headers: () => ({ authorization: `Bearer ${token}` }),
      renew: async () => {
        token += 1;
        return true;
      },
    },
  });
  expect(await connection.open()).toBeUndefined();
  wanted = 3;
  const call = toolCall('echo', { text: 'a' });
  expect(await connection.callTool(call, longDeadline(), 1)).toMatchObject({ ok: true });
  expect(peer.counts).toMatchObject({ 'GET /sse': 2, 'tool:echo': 1 });
  await connection.close();
});

describe('a stream that is none', () => {
  test.each([
    ['https://elsewhere.example/message', 'not on its own origin'],
    ['//elsewhere.example/message', 'not on its own origin'],
    ['http://127.0.0.1:1/message', 'not on its own origin'],
  ])('names the endpoint %s: nothing is sent there', async (endpoint, reason) => {
    const { peer, watched } = await start({ endpoint });
    expect(watched.status().lastError).toContain(reason);
    expect(Object.keys(peer.counts)).toEqual(['GET /sse']);
  });

  test.each([
    [405, 'HTTP 405'],
    [500, 'HTTP 500'],
    [302, 'not followed'],
    [204, 'without an event stream'],
  ])('is answered with HTTP %i', async (streamStatus, reason) => {
    const { watched } = await start({ streamStatus });
    expect(watched.status().lastError).toContain(reason);
  });

  test('names no endpoint in time', async () => {
    const { watched } = await start({ endpoint: null }, { connectTimeoutMs: 200 });
    expect(watched.status()).toMatchObject({
      state: 'backoff',
      lastError: expect.stringContaining('200 ms'),
    });
  });
});

async function freePort(): Promise<number> {
  const probe = createServer().listen(0, '127.0.0.1');
  await once(probe, 'listening');
  const { port } = probe.address() as AddressInfo;
  probe.close();
  await once(probe, 'close');
  return port;
}

/** Resolves once the child has written this to stderr, which is read on to the end. */
const said = (child: ChildProcess, words: string): Promise<void> =>
  new Promise((resolve) => {
    let written = '';
    child.stderr?.on('data', (chunk: Buffer) => {
      written += chunk;
      if (written.includes(words)) resolve();
    });
  });
