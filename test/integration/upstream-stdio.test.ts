import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, describe, expect, test } from 'vitest';
import type { Attempt } from '../../src/dispatch/ports.ts';
import type { ServerSettings, TransportSettings } from '../../src/upstream/settings.ts';
import { FaultHttpServer } from '../support/fault-http-server.ts';
import { faultStdio, http, server, textOf, WatchedUpstreams } from '../support/upstream.ts';

const running: WatchedUpstreams[] = [];

async function start(
  transport: TransportSettings = faultStdio(),
  settings: Partial<ServerSettings> = {},
): Promise<WatchedUpstreams> {
  const watched = new WatchedUpstreams([server('one', transport, settings)]);
  running.push(watched);
  await watched.upstreams.firstListings;
  return watched;
}

afterEach(async () => {
  for (const watched of running.splice(0)) await watched.upstreams.stop();
});

const pidOf = async (watched: WatchedUpstreams): Promise<number> =>
  JSON.parse(String(textOf(await watched.call('surroundings')))).pid;

const isAlive = (pid: number): boolean => {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
};

const summary = (attempt: Attempt): unknown =>
  attempt.kind === 'answered'
    ? 'answered'
    : { code: attempt.code, sent: attempt.sent, mayHaveExecuted: attempt.mayHaveExecuted };

describe('a stdio server that dies', () => {
  test('is replaced by one new process before the next calls; calls in flight end at once and are not sent again', async () => {
    const watched = await start();
    const first = await pidOf(watched);
    const inFlight = [watched.call('never'), watched.call('wait', { ms: 600_000 })];
    const [exiting, ...cutOff] = await Promise.all([watched.call('exit', { code: 7 }), ...inFlight]);
    const lost = { code: 'connection_lost', sent: true, mayHaveExecuted: true };
    expect([exiting, ...cutOff].map((attempt) => attempt && summary(attempt))).toEqual([lost, lost, lost]);

    const pids = await Promise.all(Array.from({ length: 5 }, () => pidOf(watched)));
    expect(new Set(pids).size).toBe(1);
    expect(pids[0]).not.toBe(first);
    // The new process counts from zero: none of the three was sent to it.
    expect(JSON.parse(String(textOf(await watched.call('counts'))))).toEqual({ surroundings: 5, counts: 1 });
    expect(watched.events('server.connected').length).toBe(2);
    await watched.when(() => watched.lists.length === 2);
    expect(watched.status()).toMatchObject({ state: 'ready', protocolVersion: '2025-11-25' });
  });

  test('that dies again and again is started anew in growing gaps only, as long as nobody calls it', async () => {
    const watched = await start(faultStdio(), { backoffMinMs: 40, backoffMaxMs: 10_000 });
    for (let n = 0; n < 3; n++) {
      const connected = watched.events('server.connected').length;
      await watched.call('exit');
      const { state, nextTryAt } = watched.status();
      expect(state).toBe('stale');
      expect(nextTryAt).toBeGreaterThan(0);
      await watched.when(() => watched.events('server.connected').length === connected + 1);
    }
  });

  test('between two calls costs at most the next one, and never with a wrong word about it', async () => {
    const watched = await start();
    for (let n = 0; n < 5; n++) {
      process.kill(await pidOf(watched), 'SIGKILL');
      // Written to a dead process or a new one: either it was provably not sent and goes to the new one, or it is lost.
      const attempt = await watched.call('echo', { text: 'again' });
      if (attempt.kind === 'failed') expect(attempt).toMatchObject({ code: 'connection_lost' });
    }
    await watched.when(() => watched.events('server.connected').length >= 6);
    expect(textOf(await watched.call('echo', { text: 'in the end' }))).toBe('in the end');
  });

  test('with its last words is understood', async () => {
    const watched = await start();
    expect(textOf(await watched.call('answer_then_exit'))).toBe('last words');
  });
});

describe('answers over stdio', () => {
  test.each([
    ['null_result', { code: 'protocol_error', sent: true, mayHaveExecuted: true }],
    ['string_error_code', { code: 'protocol_error', sent: true, mayHaveExecuted: true }],
    ['tool_error', 'answered'],
    ['noise', 'answered'],
    ['rpc_error', { code: 'server_error', sent: true, mayHaveExecuted: true }],
  ])('%s ends its call at once and leaves the connection alone', async (tool, expected) => {
    const watched = await start();
    expect(summary(await watched.call(tool, {}, { timeoutMs: 600_000 }))).toEqual(expected);
    expect(textOf(await watched.call('echo', { text: 'still here' }))).toBe('still here');
    expect(watched.events('server.connected').length).toBe(1);
  });

  test('an answer over the limit fails alone (O09)', async () => {
    const watched = await start(faultStdio(), { resultBytesMax: 1_048_576 });
    const other = watched.call('wait', { ms: 600 });
    const attempt = await watched.call('big', { bytes: 12_582_912 });
    expect(summary(attempt)).toEqual({ code: 'output_too_large', sent: true, mayHaveExecuted: true });
    expect(textOf(await other)).toBe('waited');
  });

  test('a timeout names its limit, and the connection stays', async () => {
    const watched = await start();
    const attempt = await watched.call('never', {}, { timeoutMs: 100 });
    expect(summary(attempt)).toEqual({ code: 'timeout', sent: true, mayHaveExecuted: true });
    expect(attempt).toMatchObject({ message: expect.stringContaining('100 ms') });
    expect(textOf(await watched.call('echo', { text: 'b' }))).toBe('b');
    expect(watched.events('server.connected').length).toBe(1);
  });
});

describe('bounds of one server', () => {
  test('calls over the places wait, calls over the queue are refused, and the wait counts as time of the call', async () => {
    const watched = await start(faultStdio(), { concurrencyMax: 1, queueMax: 1 });
    const first = watched.call('wait', { ms: 400 });
    const second = watched.call('echo', { text: 'second' }, { timeoutMs: 50 });
    const third = await watched.call('echo', { text: 'third' });
    expect(summary(third)).toEqual({ code: 'server_busy', sent: false, mayHaveExecuted: false });
    expect(summary(await second)).toEqual({ code: 'timeout', sent: false, mayHaveExecuted: false });
    expect(textOf(await first)).toBe('waited');
    expect(JSON.parse(String(textOf(await watched.call('counts'))))).toEqual({ wait: 1, counts: 1 });
  });
});

describe('what a call took', () => {
  const effort = ({ attempts, upstreamMs }: Attempt) => ({ attempts, isLong: upstreamMs >= 190 });

  test('holds its wait for a place, in whichever way the call ends', async () => {
    const watched = await start(faultStdio(), { concurrencyMax: 1, queueMax: 2 });
    const first = watched.call('wait', { ms: 400 });
    const answered = watched.call('echo', { text: 'second' });
    const tooLate = watched.call('echo', {}, { timeoutMs: 200 });
    const busy = watched.call('echo');
    expect(effort(await busy)).toEqual({ attempts: 0, isLong: false });
    expect(effort(await tooLate)).toEqual({ attempts: 0, isLong: true });
    expect(effort(await first)).toEqual({ attempts: 1, isLong: true });
    expect(effort(await answered)).toEqual({ attempts: 1, isLong: true });
  });

  test('holds its wait for the connection', async () => {
    const watched = new WatchedUpstreams([server('one', faultStdio('slow-initialize=300'))]);
    running.push(watched);
    const [answered, unconnected] = await Promise.all([
      watched.call('echo', { text: 'early' }),
      watched.call('echo', {}, { timeoutMs: 200 }),
    ]);
    expect(effort(answered)).toEqual({ attempts: 1, isLong: true });
    expect(effort(unconnected)).toEqual({ attempts: 0, isLong: true });
  });
});

describe('the start (O14)', () => {
  test('each bad server is only its own problem', async () => {
    const closed = await FaultHttpServer.start();
    await closed.stop();
    const fast = { connectTimeoutMs: 400, backoffMinMs: 40, backoffMaxMs: 5_000 };
    const watched = new WatchedUpstreams(
      [
        server('good', faultStdio()),
        server('nofile', {
          ...faultStdio(),
          kind: 'stdio',
          command: '/no/such/program',
        } as TransportSettings),
        server('refused', http(closed.url)),
        server('cold', faultStdio('slow-initialize=1500')),
        server('mute', faultStdio('silent-initialize'), fast),
        server('early', faultStdio('exit-at-start=3')),
      ],
      [{ alias: 'faulty', reason: 'the variable TOKEN is not set' }],
    );
    running.push(watched);

    await watched.when(() => watched.lists.some(({ alias }) => alias === 'good'));
    expect(textOf(await watched.call('echo', { text: 'up' }, { alias: 'good' }))).toBe('up');
    expect(watched.status('cold').state).toBe('connecting');
    expect(watched.upstreams.hasListed('cold')).toBe(false);

    const failed = (alias: string): number =>
      watched.events('server.connect_failed').filter((fields) => fields.server === alias).length;
    await watched.when(() => ['nofile', 'refused', 'mute', 'early'].every((alias) => failed(alias) > 0));
    for (const alias of ['nofile', 'refused', 'mute', 'early', 'faulty', 'nobody']) {
      const attempt = await watched.call('echo', {}, { alias, timeoutMs: 600_000 });
      expect(summary(attempt)).toEqual({ code: 'server_unavailable', sent: false, mayHaveExecuted: false });
      expect(attempt).toMatchObject({ message: expect.stringContaining(`"${alias}"`) });
      expect(attempt).toMatchObject({ message: expect.not.stringMatching(/\/no\/such|127\.0\.0\.1|TOKEN/) });
    }
    expect(watched.status('nofile')).toMatchObject({
      stage: 'spawn',
      lastError: expect.stringContaining('not found'),
    });
    expect(watched.status('refused')).toMatchObject({
      stage: 'connect',
      lastError: expect.stringContaining('ECONNREFUSED'),
    });
    expect(watched.status('mute')).toMatchObject({
      stage: 'initialize',
      lastError: expect.stringContaining('400 ms'),
    });
    expect(watched.status('early')).toMatchObject({ stage: 'initialize', lastExitCode: 3 });
    expect(watched.status('early').stderr?.at(-1)).toContain('reason 20');
    expect(watched.status('faulty')).toMatchObject({ state: 'stopped', stage: 'config' });

    await watched.when(() => failed('mute') >= 3);
    await watched.when(() => watched.lists.some(({ alias }) => alias === 'cold'));
    await watched.upstreams.firstListings;
    expect(textOf(await watched.call('echo', { text: 'late' }, { alias: 'cold' }))).toBe('late');
  });

  test('stop ends every process, also one that is still starting', async () => {
    const watched = new WatchedUpstreams([
      server('one', faultStdio()),
      server('mute', faultStdio('silent-initialize', 'ignore-sigterm', 'ignore-stdin-end')),
    ]);
    running.push(watched);
    await watched.when(() => watched.lists.length === 1);
    const pid = await pidOf(watched);
    const waiting = watched.call('never');
    await sleep(0);
    await watched.upstreams.stop();
    expect(summary(await waiting)).toEqual({ code: 'cancelled', sent: true, mayHaveExecuted: true });
    expect(await waiting).toMatchObject({ message: expect.stringContaining('callgate was shut down') });
    expect(isAlive(pid)).toBe(false);
    expect(watched.upstreams.statuses().map(({ state }) => state)).toEqual(['stopped', 'stopped']);
    await watched.upstreams.firstListings;
  });
});
