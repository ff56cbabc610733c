import { afterEach, describe, expect, test } from 'vitest';
import type { Attempt } from '../../src/dispatch/ports.ts';
import type { ServerSettings, TransportSettings } from '../../src/upstream/settings.ts';
import { FaultHttpServer } from '../support/fault-http-server.ts';
import { until } from '../support/until.ts';
import { faultStdio, http, server, someone, textOf, WatchedUpstreams } from '../support/upstream.ts';

// Calls are kept from a server whose transport fails again and again (RL-6).

const running: WatchedUpstreams[] = [];
const peers: FaultHttpServer[] = [];
afterEach(async () => {
  for (const watched of running.splice(0)) await watched.upstreams.stop();
  for (const peer of peers.splice(0)) await peer.stop();
});

async function start(
  transport: TransportSettings = faultStdio(),
  settings: Partial<ServerSettings> = {},
): Promise<WatchedUpstreams> {
  const watched = new WatchedUpstreams([server('one', transport, settings), server('two', faultStdio())]);
  running.push(watched);
  await watched.upstreams.firstListings;
  return watched;
}

async function startHttp(): Promise<{ peer: FaultHttpServer; watched: WatchedUpstreams }> {
  const peer = await FaultHttpServer.start();
  peers.push(peer);
  return { peer, watched: await start(http(peer.url)) };
}

const breakerOf = (watched: WatchedUpstreams): string => watched.status().breaker;
const codeOf = (attempt: Attempt): string => (attempt.kind === 'failed' ? attempt.code : 'answered');

/** More than it takes to open any breaker. */
const callsMax = 10;
/** Calls a tool until the breaker is open, and tells how each call ended. */
async function fail(watched: WatchedUpstreams, tool: string): Promise<readonly string[]> {
  const codes: string[] = [];
  while (breakerOf(watched) === 'closed' && codes.length < callsMax) {
    codes.push(codeOf(await watched.call(tool)));
  }
  return codes;
}

const fiveTimes = (code: string): readonly string[] => Array.from({ length: 5 }, () => code);

const refusedFor = (attempt: Attempt): number => {
  expect(attempt).toMatchObject({
    kind: 'failed',
    code: 'server_unavailable',
    sent: false,
    mayHaveExecuted: false,
    attempts: 0,
    message: expect.stringContaining('left alone'),
    details: { retry_after_ms: expect.any(Number) },
  });
  return attempt.kind === 'failed' ? Number(attempt.details?.retry_after_ms) : Number.NaN;
};

describe('the breaker of a server', () => {
  test.each([
    ['dies in each call', 'exit', 'connection_lost'],
    ['answers with what is no answer', 'null_result', 'protocol_error'],
  ])('opens after five calls in a row to a process that %s', async (_what, tool, code) => {
    const watched = await start();
    expect(await fail(watched, tool)).toEqual(fiveTimes(code));
    expect(breakerOf(watched)).toBe('open');
    const waitMs = refusedFor(await watched.call('echo', { text: 'x' }));
    expect(waitMs).toBeGreaterThan(0);
    expect(waitMs).toBeLessThanOrEqual(1_000);
  });

  test.each([
    ['cut_before_answer', 'connection_lost'],
    ['cut_in_answer', 'connection_lost'],
    ['end_without_answer', 'connection_lost'],
    ['html', 'protocol_error'],
  ])(
    'opens after five calls in a row over HTTP that end as %s, and nothing more is sent',
    async (tool, code) => {
      const { peer, watched } = await startHttp();
      expect(await fail(watched, tool)).toEqual(fiveTimes(code));
      for (let call = 0; call < 20; call += 1) refusedFor(await watched.call(tool));
      expect(peer.counts[`tool:${tool}`]).toBe(5);
    },
  );

  test('counts failures in a row: one answer between them is enough', async () => {
    const { watched } = await startHttp();
    for (let round = 0; round < 4; round += 1) {
      for (let call = 0; call < 4; call += 1) await watched.call('cut_before_answer');
      expect(textOf(await watched.call('echo', { text: 'well' }))).toBe('well');
    }
    expect(breakerOf(watched)).toBe('closed');
  });

  test.each([
    ['tool_error', {}, 'answered'],
    ['rpc_error', { code: -32603 }, 'server_error'],
    ['rpc_error', { code: -32000 }, 'server_error'],
    ['no_such_tool', {}, 'server_error'],
    ['big', { bytes: 2_000_000 }, 'output_too_large'],
  ])('never opens for %s %o, which the server has answered', async (tool, args, code) => {
    const watched = await start();
    for (let call = 0; call < 12; call += 1) expect(codeOf(await watched.call(tool, args))).toBe(code);
    expect(breakerOf(watched)).toBe('closed');
  });

  test('never opens for a tool that takes longer than its callers wait', async () => {
    const watched = await start();
    for (let call = 0; call < 8; call += 1) {
      expect(codeOf(await watched.call('never', {}, { timeoutMs: 30 }))).toBe('timeout');
    }
    expect(breakerOf(watched)).toBe('closed');
  });

  test('never opens for calls that were cancelled, or that found no place', async () => {
    const watched = await start(faultStdio(), { concurrencyMax: 1, queueMax: 0 });
    for (let call = 0; call < 8; call += 1) {
      const leaving = new AbortController();
      const unwanted = watched.call('never', {}, { signal: leaving.signal });
      expect(codeOf(await watched.call('echo'))).toBe('server_busy');
      leaving.abort('its caller has left');
      expect(codeOf(await unwanted)).toBe('cancelled');
    }
    expect(breakerOf(watched)).toBe('closed');
  });

  test('lets one single call through after its pause, and closes when that is answered', async () => {
    const { peer, watched } = await startHttp();
    await fail(watched, 'cut_before_answer');
    await until(() => breakerOf(watched) === 'half_open');
    const attempts = await Promise.all(Array.from({ length: 10 }, () => watched.call('wait', { ms: 100 })));
    expect(attempts.map(codeOf).toSorted()).toEqual([
      'answered',
      ...Array.from({ length: 9 }, () => 'server_unavailable'),
    ]);
    expect(peer.counts['tool:wait']).toBe(1);
    expect(breakerOf(watched)).toBe('closed');
    const next = await Promise.all(Array.from({ length: 10 }, () => watched.call('echo', { text: 'next' })));
    expect(next.map(textOf)).toEqual(Array.from({ length: 10 }, () => 'next'));
  });

  test('is open again for longer when that call fails too', async () => {
    const { watched } = await startHttp();
    await fail(watched, 'cut_before_answer');
    await until(() => breakerOf(watched) === 'half_open');
    expect(codeOf(await watched.call('cut_before_answer'))).toBe('connection_lost');
    expect(breakerOf(watched)).toBe('open');
    const waitMs = refusedFor(await watched.call('echo', { text: 'x' }));
    expect(waitMs).toBeGreaterThan(900);
    expect(waitMs).toBeLessThanOrEqual(2_000);
  });

  test('closes again for a process that was replaced meanwhile', async () => {
    const watched = await start();
    await fail(watched, 'exit');
    await until(async () => codeOf(await watched.call('echo', { text: 'x' })) === 'answered');
    expect(watched.status()).toMatchObject({ breaker: 'closed', state: 'ready' });
  });

  test('is the concern of no other server', async () => {
    const watched = await start();
    await fail(watched, 'exit');
    const canSendNow = ['one', 'two'].map((alias) => watched.upstreams.canSendNow(alias, someone));
    expect(canSendNow).toEqual([false, true]);
    expect(watched.status('two')).toMatchObject({ breaker: 'closed', state: 'ready' });
    expect(textOf(await watched.call('echo', { text: 'fine' }, { alias: 'two' }))).toBe('fine');
    expect(watched.events('server.connected').filter((fields) => fields.server === 'two')).toHaveLength(1);
  });
});
