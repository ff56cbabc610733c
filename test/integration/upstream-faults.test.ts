import { mkdtempSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { attemptFailed } from '../../src/dispatch/outcomes.ts';
import type { Attempt } from '../../src/dispatch/ports.ts';
import type { ServerSettings, TransportSettings } from '../../src/upstream/settings.ts';
import { FaultHttpServer } from '../support/fault-http-server.ts';
import { faultStdio, http, server, textOf, WatchedUpstreams } from '../support/upstream.ts';

// The table of facts/security.md 6.3, row by row: what a fault means for the state of its call.

const running: WatchedUpstreams[] = [];
const peers: FaultHttpServer[] = [];
let folder: string;

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'callgate-faults-'));
});
afterAll(() => rm(folder, { recursive: true }));
afterEach(async () => {
  for (const watched of running.splice(0)) await watched.upstreams.stop();
  for (const peer of peers.splice(0)) await peer.stop();
});

async function start(
  transport: TransportSettings,
  settings: Partial<ServerSettings> = {},
): Promise<WatchedUpstreams> {
  const watched = new WatchedUpstreams([server('one', transport, settings)]);
  running.push(watched);
  await watched.upstreams.firstListings;
  return watched;
}

async function startPeer(...options: Parameters<typeof FaultHttpServer.start>): Promise<FaultHttpServer> {
  const peer = await FaultHttpServer.start(...options);
  peers.push(peer);
  return peer;
}

/** What the ledger and the caller get to know. */
const verdict = (attempt: Attempt): unknown => {
  if (attempt.kind === 'answered') return 'answered';
  const { status, error } = attemptFailed(attempt, 'one');
  const { code, sent, mayHaveExecuted, attempts, details } = attempt;
  expect(error?.mayHaveExecuted).toBe(mayHaveExecuted);
  return { status, code, sent, mayHaveExecuted, attempts, ...(details === undefined ? {} : { details }) };
};

const notSent = (attempts: 0 | 1) => ({
  status: 'not_sent',
  code: 'server_unavailable',
  sent: false,
  mayHaveExecuted: false,
  attempts,
});
const unknown = (code: string) => ({
  status: 'unknown',
  code,
  sent: true,
  mayHaveExecuted: true,
  attempts: 1,
});
const answeredWithError = (code: number, mayHaveExecuted: boolean) => ({
  status: 'failed',
  code: 'server_error',
  sent: true,
  mayHaveExecuted,
  attempts: 1,
  details: { json_rpc_code: code },
});

/** Nobody waits for this: what ends at once ends long before. */
const timeoutMs = 600_000;
const codes = [
  ...[-32700, -32600, -32601, -32602].map((code) => [code, false] as const),
  ...[-32603, -32000, -32001, -1, 1].map((code) => [code, true] as const),
];

describe('nothing got through: not sent', () => {
  test('the connection is refused from the start', async () => {
    const peer = await startPeer();
    await peer.stop();
    const watched = await start(http(peer.url));
    expect(verdict(await watched.call('echo', {}, { timeoutMs }))).toEqual(notSent(0));
    expect(watched.status().lastError).toContain('ECONNREFUSED');
  });

  test('the connection is refused by a server that was there a moment ago (O16c)', async () => {
    const peer = await startPeer({ keepsAlive: false });
    const watched = await start(http(peer.url), { backoffMinMs: 60_000, backoffMaxMs: 60_000 });
    await peer.when(() => peer.openSockets === 0);
    await peer.stop();
    const attempt = await watched.call('echo', {}, { timeoutMs, mayRepeat: true });
    expect(verdict(attempt)).toEqual(notSent(1));
    expect(attempt).toMatchObject({ message: expect.stringContaining('ECONNREFUSED') });
  });

  test('the name of the host is not known', async () => {
    const watched = await start(http('http://no-such-host.invalid/mcp'));
    expect(verdict(await watched.call('echo', {}, { timeoutMs }))).toEqual(notSent(0));
    expect(watched.status().lastError).toContain('host name could not be resolved');
  });

  test('there is no TLS at the other end', async () => {
    const peer = await startPeer();
    const watched = await start(http(peer.url.replace('http:', 'https:')));
    expect(verdict(await watched.call('echo', {}, { timeoutMs }))).toEqual(notSent(0));
    expect(watched.status().lastError).toContain('no connection came about');
    expect(peer.counts).toEqual({});
  });

  test('the child is gone, and does not come back', async () => {
    const watched = await start(faultStdio(`starts-once=${join(folder, 'once')}`));
    expect(verdict(await watched.call('exit', {}, { timeoutMs }))).toEqual(unknown('connection_lost'));
    expect(verdict(await watched.call('echo', {}, { timeoutMs }))).toEqual(notSent(0));
  });
});

describe('over HTTP', () => {
  let peer: FaultHttpServer;
  let watched: WatchedUpstreams;
  const fresh = async (settings: Partial<ServerSettings> = {}): Promise<void> => {
    peer = await startPeer();
    watched = await start(http(peer.url), settings);
  };

  test.each([
    ['cut_before_answer', 'the socket is reset after the POST', 'connection_lost'],
    ['cut_in_answer', 'the JSON body is cut', 'connection_lost'],
    ['cut_stream', 'the stream is dropped', 'connection_lost'],
    ['end_without_answer', 'the stream ends without an answer', 'connection_lost'],
    ['resumable_lost', 'the rest of the stream is lost', 'connection_lost'],
    ['other_id_stream', 'the stream answers another request', 'connection_lost'],
    ['other_id', 'the answer has a foreign id', 'protocol_error'],
    ['html', 'the content type is wrong', 'protocol_error'],
    ['accepted', 'HTTP 202 without an answer', 'protocol_error'],
    ['no_content', 'HTTP 204', 'protocol_error'],
    ['broken_json', 'the body is not JSON', 'protocol_error'],
    ['broken_json_stream', 'an event is not JSON', 'protocol_error'],
    ['not_rpc', 'the body is not JSON-RPC', 'protocol_error'],
    ['not_rpc_stream', 'the stream holds no JSON-RPC', 'connection_lost'],
    ['null_result', 'the result is null', 'protocol_error'],
    ['null_result_stream', 'the result in a stream is null', 'protocol_error'],
  ])('%s (%s) is unknown at once, and sent once', async (tool, _row, code) => {
    await fresh();
    expect(verdict(await watched.call(tool, {}, { timeoutMs }))).toEqual(unknown(code));
    expect(peer.counts[`tool:${tool}`]).toBe(1);
    expect(textOf(await watched.call('echo', { text: 'still here' }))).toBe('still here');
  });

  test.each([301, 307, 308, 401, 403, 404, 405, 406, 415, 429])('HTTP %i is not sent', async (status) => {
    await fresh();
    const args = { status, headers: { location: '/mcp' }, body: 'T3' };
    expect(verdict(await watched.call('status', args, { timeoutMs }))).toEqual(notSent(1));
    expect(peer.counts['tool:status']).toBe(1);
  });

  test.each([400, 500, 502, 503, 504])('HTTP %i is unknown', async (status) => {
    await fresh();
    const attempt = await watched.call('status', { status, body: '<html>T3' }, { timeoutMs });
    expect(verdict(attempt)).toEqual(unknown('protocol_error'));
    expect(peer.counts['tool:status']).toBe(1);
  });

  test('HTTP 500 with a body that never ends is unknown too', async () => {
    await fresh();
    expect(verdict(await watched.call('status_open', {}, { timeoutMs }))).toEqual(unknown('protocol_error'));
  });

  test('Retry-After is told, and changes nothing else', async () => {
    await fresh();
    const headers = { 'retry-after': '7' };
    const details = { retry_after_ms: 7_000 };
    const limited = await watched.call('status', { status: 429, headers });
    expect(verdict(limited)).toEqual({ ...notSent(1), details });
    const overloaded = await watched.call('status', { status: 503, headers });
    expect(verdict(overloaded)).toEqual({ ...unknown('protocol_error'), details });
  });

  test.each([401, 403, 404, 405, 429, 500, 503])(
    'HTTP %i to who asks for the rest of an answer is unknown: the call was sent',
    async (status) => {
      await fresh();
      const attempt = await watched.call('resumable_refused', { status }, { timeoutMs });
      expect(verdict(attempt)).toEqual(unknown('connection_lost'));
      expect(peer.counts).toMatchObject({ 'tool:resumable_refused': 1, 'GET rest': 1 });
    },
  );

  test('a server that is gone when the rest of an answer is asked for leaves it unknown', async () => {
    await fresh({ backoffMinMs: 60_000, backoffMaxMs: 60_000 });
    const attempt = await watched.call('resumable_dies', {}, { timeoutMs });
    expect(verdict(attempt)).toEqual(unknown('connection_lost'));
  });

  test('an error on a stream that could be resumed is the answer, and nothing is asked for', async () => {
    await fresh();
    const attempt = await watched.call('resumable_error', {}, { timeoutMs });
    expect(verdict(attempt)).toEqual(answeredWithError(-32603, true));
    expect(peer.counts['GET rest']).toBeUndefined();
  });

  test('a redirect to another origin is not followed', async () => {
    const other = await startPeer();
    await fresh();
    const args = { status: 307, headers: { location: other.url } };
    expect(verdict(await watched.call('status', args, { timeoutMs }))).toEqual(notSent(1));
    expect(other.counts).toEqual({});
  });

  test.each(['never', 'never_stream'])('no answer in time (%s) is unknown', async (tool) => {
    await fresh();
    expect(verdict(await watched.call(tool, {}, { timeoutMs: 100 }))).toEqual(unknown('timeout'));
  });

  test.each(['huge', 'huge_stream'])('a result over the cap (%s) is unknown', async (tool) => {
    await fresh();
    const attempt = await watched.call(tool, { bytes: 4_194_304 }, { timeoutMs });
    expect(verdict(attempt)).toEqual(unknown('output_too_large'));
  });

  test.each(codes)('JSON-RPC %i is failed; the tool may have run: %s', async (code, mayHaveExecuted) => {
    await fresh();
    const attempt = await watched.call('rpc_error', { code, message: 'no' }, { timeoutMs });
    expect(verdict(attempt)).toEqual(answeredWithError(code, mayHaveExecuted));
  });
});

describe('over stdio', () => {
  let watched: WatchedUpstreams;
  beforeAll(async () => {
    watched = new WatchedUpstreams([server('one', faultStdio())]);
    await watched.upstreams.firstListings;
  });
  afterAll(() => watched.upstreams.stop());
  // An answer shows that the server is well: a row of faults would keep calls from it.
  beforeEach(() => watched.call('echo', { text: 'well' }));

  test.each([
    ['exit', 'the child ends during the call', 'connection_lost'],
    ['half_then_exit', 'the child ends in the middle of its answer', 'connection_lost'],
    ['null_result', 'the result is null', 'protocol_error'],
    ['no_result', 'there is neither a result nor an error', 'protocol_error'],
    ['array_result', 'the result is a list', 'protocol_error'],
    ['both', 'there is a result and an error', 'protocol_error'],
    ['string_error_code', 'the error has no number', 'protocol_error'],
  ])('%s (%s) is unknown at once', async (tool, _row, code) => {
    expect(verdict(await watched.call(tool, {}, { timeoutMs }))).toEqual(unknown(code));
  });

  test('the child is killed during the call', async () => {
    const { pid } = JSON.parse(String(textOf(await watched.call('surroundings'))));
    const attempt = watched.call('never', {}, { timeoutMs });
    // The answer shows that the child has read the call before it.
    await watched.call('echo', { text: 'a' });
    process.kill(pid, 'SIGKILL');
    expect(verdict(await attempt)).toEqual(unknown('connection_lost'));
  });

  test.each(['never', 'foreign_id', 'string_id', 'garbage'])(
    'no answer in time (%s) is unknown',
    async (tool) => {
      await watched.call('echo', { text: 'it is connected' });
      expect(verdict(await watched.call(tool, {}, { timeoutMs: 100 }))).toEqual(unknown('timeout'));
    },
  );

  test('a result over the cap is unknown', async () => {
    const attempt = await watched.call('big', { bytes: 4_194_304 }, { timeoutMs });
    expect(verdict(attempt)).toEqual(unknown('output_too_large'));
  });

  test.each(codes)('JSON-RPC %i is failed; the tool may have run: %s', async (code, mayHaveExecuted) => {
    const attempt = await watched.call('rpc_error', { code, message: 'no' }, { timeoutMs });
    expect(verdict(attempt)).toEqual(answeredWithError(code, mayHaveExecuted));
  });
});
