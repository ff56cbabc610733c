import { afterEach, describe, expect, test } from 'vitest';
import type { Attempt } from '../../src/dispatch/ports.ts';
import type { ServerSettings } from '../../src/upstream/settings.ts';
import { FaultHttpServer, type FaultHttpServerOptions } from '../support/fault-http-server.ts';
import { http, server, textOf, WatchedUpstreams } from '../support/upstream.ts';

const running: { peer: FaultHttpServer; watched: WatchedUpstreams }[] = [];

async function start(
  options: FaultHttpServerOptions = {},
  settings: Partial<ServerSettings> = {},
  headers: Record<string, string> = {},
): Promise<{ peer: FaultHttpServer; watched: WatchedUpstreams }> {
  const peer = await FaultHttpServer.start(options);
  const watched = new WatchedUpstreams(
    [server('one', http(peer.url, headers), settings)],
    [],
    Object.values(headers),
  );
  running.push({ peer, watched });
  await watched.upstreams.firstListings;
  return { peer, watched };
}

afterEach(async () => {
  for (const { peer, watched } of running.splice(0)) {
    await watched.upstreams.stop();
    // Nothing is left of a connection after stop, whatever the test did to it.
    await peer.when(() => peer.openSockets === 0);
    await peer.stop();
  }
});

const failure = (attempt: Attempt): Partial<Attempt> => {
  expect(attempt.kind).toBe('failed');
  if (attempt.kind !== 'failed') return {};
  const { code, sent, mayHaveExecuted, details } = attempt;
  return { code, sent, mayHaveExecuted, ...(details === undefined ? {} : { details }) };
};

describe('answers over HTTP', () => {
  test('a call is answered in a JSON body and in an event stream', async () => {
    const { watched } = await start();
    expect(textOf(await watched.call('echo', { text: 'hällo' }))).toBe('hällo');
    expect(textOf(await watched.call('echo_stream', { text: 'hällo' }))).toBe('hällo');
  });

  test('an answer counts although its stream stays open, and the socket is given up soon', async () => {
    const { peer, watched } = await start({ keepsAlive: false });
    expect(textOf(await watched.call('echo_open_stream'))).toBe('done');
    await peer.when(() => peer.openSockets === 0);
  });

  test('a request of the server on the way to the answer is refused at once, not left waiting (MT-17)', async () => {
    const { watched } = await start();
    const attempt = await watched.call('notices_first');
    expect(textOf(attempt)).toBe('got it');
    expect(attempt).toMatchObject({ result: { structuredContent: { code: -32601 } } });
  });

  test('the rest of an answer is fetched where the server gave an event id for it', async () => {
    const { peer, watched } = await start();
    expect(textOf(await watched.call('resumable'))).toBe('the rest');
    expect(peer.counts).toMatchObject({ 'tool:resumable': 1, 'GET rest': 1 });
  });

  test('parallel calls get their own answers', async () => {
    const { watched } = await start({}, { concurrencyMax: 64 });
    const texts = Array.from({ length: 50 }, (_, n) => `text ${n}`);
    const attempts = await Promise.all(
      texts.map((text, n) => watched.call(n % 2 === 0 ? 'echo' : 'echo_stream', { text })),
    );
    expect(attempts.map(textOf)).toEqual(texts);
  });

  test('configured headers are sent, and nothing takes the place of the session', async () => {
    const { watched } = await start({ hasSessions: true }, {}, { 'X-Key': 'K1' });
    expect(textOf(await watched.call('other_session'))).toBe('ok');
    const headers = JSON.parse(String(textOf(await watched.call('headers'))));
    expect(headers).toMatchObject({
      'x-key': 'K1',
      'mcp-protocol-version': '2025-06-18',
      accept: 'application/json, text/event-stream',
    });
    expect(headers['mcp-session-id']).not.toBe('another');
  });
});

const cut = { code: 'connection_lost', sent: true, mayHaveExecuted: true };
const refused = { code: 'server_unavailable', sent: false, mayHaveExecuted: false };

describe('floods over HTTP', () => {
  test('a thousand pings beside the answer are answered by a few, and a message that nobody can take costs nothing', async () => {
    const { peer, watched } = await start();
    expect(textOf(await watched.call('pings_beside'))).toBe('beside the pings');
    expect(textOf(await watched.call('deep_beside'))).toBe('beside it');
    expect(textOf(await watched.call('echo', { text: 'still here' }))).toBe('still here');
    expect(peer.counts['an answer']).toBeLessThanOrEqual(8);
  });

  test('replies and cancellations that are never acknowledged take a few connections, and no place of a call', async () => {
    const { peer, watched } = await start({ takesNotes: false }, { concurrencyMax: 4 });
    await watched.call('pings_beside');
    for (let round = 0; round < 5; round += 1) {
      const calls = Array.from({ length: 4 }, () => watched.call('never', {}, { timeoutMs: 50 }));
      for (const attempt of await Promise.all(calls))
        expect(failure(attempt)).toMatchObject({ code: 'timeout' });
      expect(textOf(await watched.call('echo', { text: 'still here' }))).toBe('still here');
    }
    expect(peer.openSockets).toBeLessThanOrEqual(16);
  });

  test('a body in chunks of one byte, and lines of data without a value, are read within their bounds', async () => {
    const { watched } = await start({}, { resultBytesMax: 100_000 });
    expect(textOf(await watched.call('byte_by_byte'))).toBe('byte by byte');
    expect(failure(await watched.call('empty_data'))).toMatchObject({ code: 'output_too_large' });
  });

  test('interim responses are passed over, and too many of them are no answer', async () => {
    const { watched } = await start();
    expect(textOf(await watched.call('processing', { times: 100 }))).toBe('worked');
    expect(failure(await watched.call('processing', { times: 5_000 }))).toMatchObject({
      code: 'protocol_error',
      mayHaveExecuted: true,
    });
    expect(textOf(await watched.call('echo', { text: 'still here' }))).toBe('still here');
  });

  test('a stream that always ends with nothing new is asked for at growing gaps, however eager it is', async () => {
    const { peer, watched } = await start();
    await watched.call('resumable_for_ever', {}, { timeoutMs: 2_000 });
    // At gaps of 250, 500 and 1,000 ms and no less.
    expect(peer.counts['GET rest']).toBeLessThanOrEqual(3);
  });
});

describe('what a fault over HTTP tells', () => {
  test.each([
    ['of other characters', 'ä€'],
    ['without end', 'x'.repeat(100_000)],
  ])('the rest of a stream is not asked for by an id %s, which no header can hold', async (_, id) => {
    const { watched } = await start();
    const attempt = await watched.call('ended_at', { id });
    expect(attempt).toMatchObject(cut);
    expect(attempt).toMatchObject({ message: expect.stringContaining('ended before the result') });
  });

  test.each(['html', 'broken_json'])('nothing of an answer that is none (%s)', async (tool) => {
    const { watched } = await start();
    const attempt = await watched.call(tool);
    expect(attempt).toMatchObject({ message: expect.not.stringMatching(/secret-page|jsonr/) });
  });

  test('nothing of the body of an HTTP error', async () => {
    const { watched } = await start();
    const attempt = await watched.call('status', { status: 500, body: '<html>T3 in here' });
    expect(attempt).toMatchObject({ message: expect.not.stringContaining('T3') });
  });

  test('nor is there any waiting for the body of a refusal that never ends', async () => {
    const { watched } = await start();
    const attempt = await watched.call('status_open', { status: 404 }, { timeoutMs: 10_000 });
    expect(attempt).toMatchObject({ ...refused, message: expect.stringContaining('HTTP 404') });
  });

  test('the code of a JSON-RPC error in an HTTP error is used, its text is not', async () => {
    const { watched } = await start();
    const body = JSON.stringify({ jsonrpc: '2.0', id: 1, error: { code: -32602, message: 'T3' } });
    const attempt = await watched.call('status', { status: 400, body });
    expect(failure(attempt)).toEqual({
      code: 'server_error',
      sent: true,
      mayHaveExecuted: false,
      details: { json_rpc_code: -32602 },
    });
    expect(attempt).toMatchObject({ message: expect.not.stringContaining('T3') });
  });

  test('a JSON-RPC error keeps its words, redacted and without control characters', async () => {
    const { watched } = await start({}, {}, { authorization: 'Bearer T3T3T3T3' });
    const attempt = await watched.call('rpc_error', {
      code: -32603,
      message: 'no Bearer T3T3T3T3\r\nlevel=info \u001b[2J',
    });
    expect(failure(attempt)).toMatchObject({ code: 'server_error', mayHaveExecuted: true });
    expect(attempt).toMatchObject({ message: expect.stringContaining('no [redacted] level=info [2J') });
  });

  test('a server cannot make its own error look like one of ours', async () => {
    const { watched } = await start();
    expect(failure(await watched.call('forged_fault'))).toMatchObject({ code: 'server_error', sent: true });
  });

  test('an error that asks to open a URL is a wish for input (MT-17)', async () => {
    const { watched } = await start();
    const data = {
      elicitations: [{ mode: 'url', elicitationId: 'e', url: 'https://x.example/', message: 'm' }],
    };
    const attempt = await watched.call('rpc_error', { code: -32042, message: 'open this', data });
    expect(failure(attempt)).toMatchObject({ code: 'input_required' });
  });

  test.each(['never', 'never_stream'])(
    'after a timeout of %s the server is told once and the socket is free',
    async (tool) => {
      const { peer, watched } = await start({ keepsAlive: false });
      const attempt = await watched.call(tool, {}, { timeoutMs: 200 });
      expect(failure(attempt)).toEqual({ code: 'timeout', sent: true, mayHaveExecuted: true });
      await peer.when(() => peer.counts['notifications/cancelled'] === 1);
      expect(textOf(await watched.call('echo', { text: 'a' }))).toBe('a');
      expect(peer.counts).toMatchObject({ [`tool:${tool}`]: 1, 'notifications/cancelled': 1 });
      await peer.when(() => peer.openSockets <= 2);
    },
  );

  test.each(['huge', 'huge_stream'])(
    'a body of 200 MB (%s) is stopped at the cap while others go on',
    async (tool) => {
      const { peer, watched } = await start({}, { resultBytesMax: 4_194_304 });
      const before = process.memoryUsage().rss;
      const other = watched.call('wait', { ms: 300 });
      const attempt = await watched.call(tool, { bytes: 209_715_200 });
      expect(failure(attempt)).toEqual({ code: 'output_too_large', sent: true, mayHaveExecuted: true });
      expect(process.memoryUsage().rss - before).toBeLessThan(150_000_000);
      expect(textOf(await other)).toBe('waited');
      expect(peer.counts[`tool:${tool}`]).toBe(1);
    },
  );
});

describe('sessions', () => {
  test('ten calls at once on a lost session start one new session and run once each (O13)', async () => {
    const { peer, watched } = await start({ hasSessions: true });
    peer.forgetSessions();
    const texts = Array.from({ length: 10 }, (_, n) => `text ${n}`);
    const attempts = await Promise.all(texts.map((text) => watched.call('echo', { text })));
    expect(attempts.map(textOf)).toEqual(texts);
    expect(peer.counts).toMatchObject({ initialize: 2, 'tool:echo': 10 });
    expect(peer.initializedWith).toEqual([undefined, undefined]);
    await watched.when(() => watched.lists.length === 2);
  });

  test('a call is sent again once, not for as long as sessions get lost', async () => {
    const { peer, watched } = await start({
      hasSessions: true,
      methods: { 'tools/call': ({ response }) => void response.writeHead(404).end() },
    });
    const attempt = await watched.call('echo', { text: 'a' });
    expect(failure(attempt)).toEqual(refused);
    expect(attempt.attempts).toBe(2);
    expect(peer.counts['tools/call']).toBe(2);
  });

  test.each([400, 500])(
    'a session lost with HTTP %i is found out and replaced, the call is not sent again',
    async (status) => {
      const { peer, watched } = await start({ hasSessions: true, lostSessionStatus: status });
      peer.forgetSessions();
      expect(failure(await watched.call('echo', { text: 'a' }))).toMatchObject({ code: 'server_error' });
      await watched.when(() => watched.lists.length === 2);
      expect(textOf(await watched.call('echo', { text: 'b' }))).toBe('b');
      expect(peer.counts['tool:echo']).toBe(1);
    },
  );

  test('the session is ended with the connection', async () => {
    const { peer, watched } = await start({ hasSessions: true });
    await watched.upstreams.stop();
    expect(peer.counts.DELETE).toBe(1);
    expect(watched.status().state).toBe('stopped');
    expect(failure(await watched.call('echo'))).toEqual(refused);
  });
});

describe('the end of callgate', () => {
  test.each([true, false])('cancels what still runs (with a session: %s)', async (hasSessions) => {
    const { peer, watched } = await start({ hasSessions });
    const tools = ['never', 'never_stream', 'resumable_for_ever', 'resumable_for_ever'];
    const inFlight = tools.map((tool) => watched.call(tool));
    await peer.when(() => peer.counts['tools/call'] === tools.length);
    await watched.upstreams.stop();
    for (const attempt of await Promise.all(inFlight)) {
      expect(failure(attempt)).toEqual({ code: 'cancelled', sent: true, mayHaveExecuted: true });
      expect(attempt.attempts).toBe(1);
    }
  });

  test('during the handshake ends that too', async () => {
    const peer = await FaultHttpServer.start({ methods: { initialize: () => {} } });
    const watched = new WatchedUpstreams([server('one', http(peer.url))]);
    running.push({ peer, watched });
    await peer.when(() => peer.counts.initialize === 1);
    const call = watched.call('echo');
    await watched.upstreams.stop();
    expect(failure(await call)).toEqual(refused);
    expect(watched.status().state).toBe('stopped');
  });
});

describe('the stream of the server', () => {
  test('a notice on it leads to a new list; when it ends it is opened again, and the list read again (O27)', async () => {
    const { peer, watched } = await start({ hasSessions: true, hasEvents: true });
    await peer.when(() => peer.openStreams === 1);
    peer.listed = [{ name: 'n1', inputSchema: {} }];
    for (let n = 0; n < 5; n++) peer.notify('notifications/tools/list_changed');
    await watched.when(() => watched.lists.length === 2);
    expect(watched.lists[1]?.tools).toEqual([{ name: 'n1', inputSchema: {} }]);
    peer.endStreams();
    // Nobody can tell of this: there is no stream at present. Calls do not need one.
    peer.listed = [{ name: 'n2', inputSchema: {} }];
    expect(textOf(await watched.call('echo', { text: 'meanwhile' }))).toBe('meanwhile');
    expect(watched.status().state).toBe('ready');
    await watched.when(() => watched.lists.length === 3);
    expect(watched.lists[2]?.tools).toEqual([{ name: 'n2', inputSchema: {} }]);
    expect(peer.counts.GET).toBe(2);
    expect(watched.status()).toMatchObject({ state: 'ready', protocolVersion: '2025-06-18' });
  });

  test('a message on it that is far larger than any notice is dropped, and the stream goes on', async () => {
    const { peer, watched } = await start({ hasEvents: true });
    await peer.when(() => peer.openStreams === 1);
    const event = (message: object): string => `data: ${JSON.stringify({ jsonrpc: '2.0', ...message })}\n\n`;
    const method = 'notifications/tools/list_changed';
    for (const chars of [300_000, 2_000_000]) peer.write(event({ method, params: { x: 'x'.repeat(chars) } }));
    const answered = peer.whenAnswered('p');
    peer.write(event({ id: 'p', method: 'ping' }));
    await answered;
    expect(watched.lists.length).toBe(1);
    peer.notify(method);
    await watched.when(() => watched.lists.length === 2);
    expect(peer.counts.GET).toBe(1);
  });

  test('a server with sessions that has none, and says so with 404, keeps its session', async () => {
    const { peer, watched } = await start({
      hasSessions: true,
      refuses: ({ method }) => (method === 'GET' ? [404, {}] : undefined),
    });
    await peer.when(() => peer.counts['refused GET'] === 1);
    for (let n = 0; n < 10; n++) expect(textOf(await watched.call('echo', { text: 'a' }))).toBe('a');
    expect(peer.counts.initialize).toBe(1);
  });
});

test.each([404, 400])(
  'a session that is lost with its stream (HTTP %i) is replaced before anybody calls',
  async (status) => {
    const { peer, watched } = await start({ hasSessions: true, hasEvents: true, lostSessionStatus: status });
    await peer.when(() => peer.openStreams === 1);
    peer.forgetSessions();
    peer.endStreams();
    await watched.when(() => watched.lists.length === 2);
    expect(peer.counts.initialize).toBe(2);
    expect(textOf(await watched.call('echo', { text: 'a' }))).toBe('a');
  },
);

describe('servers that cannot be reached', () => {
  test('a server that went away is noticed by the first call, refused in no time, and found again', async () => {
    const { peer, watched } = await start({}, { backoffMinMs: 10, backoffMaxMs: 20 });
    await peer.stop();
    // Whether a kept socket is still open shows only when it is written to; then the fate of the call is unknown.
    expect([refused, cut]).toContainEqual(failure(await watched.call('echo')));
    await watched.when(() => watched.events('server.connect_failed').length > 0);
    expect(watched.status()).toMatchObject({ state: 'stale', stage: 'connect' });
    expect(failure(await watched.call('echo', {}, { timeoutMs: 600_000 }))).toEqual(refused);
    const again = await FaultHttpServer.start({ port: Number(new URL(peer.url).port) });
    running.push({ peer: again, watched });
    await watched.when(() => watched.lists.length === 2);
    expect(textOf(await watched.call('echo', { text: 'back' }))).toBe('back');
  });

  test('a server that speaks no version that is spoken here is named as such', async () => {
    const error = { code: -32022, message: 'no', data: { supported: ['2031-01-01'] } };
    const refuse: Exclude<FaultHttpServerOptions['methods'], undefined>[string] = ({ json, id }) =>
      json({ jsonrpc: '2.0', id, error }, 400);
    const peer = await FaultHttpServer.start({ methods: { initialize: refuse, 'server/discover': refuse } });
    const watched = new WatchedUpstreams([server('one', http(peer.url))]);
    running.push({ peer, watched });
    await watched.upstreams.firstListings;
    expect(watched.status()).toMatchObject({
      state: 'backoff',
      stage: 'initialize',
      lastError: expect.stringContaining('no version of the MCP protocol'),
    });
  });
});
