import { getEventListeners, setMaxListeners } from 'node:events';
import { mkdtempSync, readFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest';
import type { Attempt, Progress, Refusal } from '../../src/dispatch/ports.ts';
import type { ServerSettings, TransportSettings } from '../../src/upstream/settings.ts';
import { FaultHttpServer, type FaultHttpServerOptions } from '../support/fault-http-server.ts';
import { until } from '../support/until.ts';
import { faultStdio, http, server, someone, textOf, WatchedUpstreams } from '../support/upstream.ts';

// What a call goes through on its way to its server and back: waiting, sending, progress, cancelling, a second sending.

const running: WatchedUpstreams[] = [];
const peers: FaultHttpServer[] = [];
let folder: string;
let files = 0;
const newFile = (): string => join(folder, String(++files));

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'callgate-calls-'));
});
afterAll(() => rm(folder, { recursive: true }));
afterEach(async () => {
  vi.restoreAllMocks();
  for (const watched of running.splice(0)) await watched.upstreams.stop();
  for (const peer of peers.splice(0)) await peer.stop();
});

async function start(
  transport: TransportSettings = faultStdio(),
  settings: Partial<ServerSettings> = {},
): Promise<WatchedUpstreams> {
  const watched = new WatchedUpstreams([server('one', transport, settings)], [], ['s3cret-t0ken']);
  running.push(watched);
  await watched.upstreams.firstListings;
  return watched;
}

async function startHttp(
  settings: Partial<ServerSettings> = {},
  options: FaultHttpServerOptions = {},
): Promise<{ peer: FaultHttpServer; watched: WatchedUpstreams }> {
  const peer = await FaultHttpServer.start(options);
  peers.push(peer);
  return { peer, watched: await start(http(peer.url), settings) };
}

const summary = (attempt: Attempt): unknown =>
  attempt.kind === 'answered'
    ? { text: textOf(attempt), attempts: attempt.attempts }
    : { code: attempt.code, sent: attempt.sent, attempts: attempt.attempts };
const lost = (attempts: number) => ({ code: 'connection_lost', sent: true, attempts });
const cancelledUnsent = { code: 'cancelled', sent: false, attempts: 0 };
const cancelledSent = { code: 'cancelled', sent: true, attempts: 1 };

/** One signal for many calls, which in the service have one each. */
const manyListeners = (): AbortController => {
  const controller = new AbortController();
  setMaxListeners(0, controller.signal);
  return controller;
};

/** Draws so large a random number that a second sending waits that long. */
function holdBack(): number {
  vi.spyOn(Math, 'random').mockReturnValue(100);
  return 10_000;
}

interface Seen {
  readonly calls: { readonly id: number; readonly name: string; readonly meta: Record<string, unknown> }[];
  readonly cancelled: { readonly requestId: number; readonly reason: string }[];
}
/** What a stdio server has seen so far; it reads in order, so everything sent before this is in it. */
const seenBy = async (watched: WatchedUpstreams): Promise<Seen> =>
  JSON.parse(String(textOf(await watched.call('seen'))));
const countsOf = async (watched: WatchedUpstreams): Promise<Record<string, number>> =>
  JSON.parse(String(textOf(await watched.call('counts'))));

describe('a call that was cut off (O16)', () => {
  test('a) is not sent again over stdio: its effect stands once, and the next call finds a new process', async () => {
    const watched = await start();
    const file = newFile();
    const attempt = await watched.call('pay', { file }, { timeoutMs: 600_000 });
    expect(summary(attempt)).toEqual(lost(1));
    expect(attempt).toMatchObject({ message: expect.stringContaining('check its effect before') });
    expect(textOf(await watched.call('echo', { text: 'next' }))).toBe('next');
    expect(readFileSync(file, 'utf8')).toBe('x');
  });

  test('b) is not sent again over HTTP', async () => {
    const { peer, watched } = await startHttp();
    expect(summary(await watched.call('get', { fails: 'cut' }, { timeoutMs: 600_000 }))).toEqual(lost(1));
    expect(peer.counts['tool:get']).toBe(1);
  });

  test('is sent once more where that does no harm, under the same id (RL-3)', async () => {
    const watched = await start();
    const args = { file: newFile() };
    expect(summary(await watched.call('get', args, { mayRepeat: true }))).toEqual({
      text: 'got',
      attempts: 2,
    });
    const garbage = await watched.call('get_garbage', {}, { mayRepeat: true, id: 'call-7' });
    expect(summary(garbage)).toEqual({ text: 'got', attempts: 2 });
    const calls = (await seenBy(watched)).calls.filter(({ name }) => name === 'get_garbage');
    expect(calls.map(({ meta }) => meta['callgate/call'])).toEqual(['call-7', 'call-7']);
    expect(new Set(calls.map(({ meta }) => meta.progressToken)).size).toBe(2);
  });

  test.each(['cut', 'garbage', 500, 502, 503, 504])('(%s) the same over HTTP', async (fails) => {
    const { peer, watched } = await startHttp();
    const attempt = await watched.call('get', { fails, headers: {} }, { mayRepeat: true });
    expect(summary(attempt)).toEqual({ text: 'got', attempts: 2 });
    expect(peer.counts['tool:get']).toBe(2);
  });

  test('is not sent a third time', async () => {
    const { peer, watched } = await startHttp();
    expect(summary(await watched.call('cut_before_answer', {}, { mayRepeat: true }))).toEqual(lost(2));
    expect(peer.counts['tool:cut_before_answer']).toBe(2);
  });

  test.each([
    ['rpc_error', { code: -32603, message: 'no' }, 'server_error'],
    ['status', { status: 401 }, 'server_unavailable'],
    ['status', { status: 400 }, 'protocol_error'],
    ['get', { fails: 503, headers: { 'retry-after': '30' } }, 'protocol_error'],
    ['huge', { bytes: 4_194_304 }, 'output_too_large'],
    ['never', {}, 'timeout'],
  ])('%s %o is no reason to send a call again', async (tool, args, code) => {
    const { peer, watched } = await startHttp();
    const timeoutMs = tool === 'never' ? 1_000 : 600_000;
    expect(await watched.call(tool, args, { mayRepeat: true, timeoutMs })).toMatchObject({
      code,
      attempts: 1,
    });
    expect(peer.counts[`tool:${tool}`]).toBe(1);
  });

  test('stays unknown when the second sending gets nowhere', async () => {
    const { watched } = await startHttp({ backoffMinMs: 60_000, backoffMaxMs: 60_000 });
    const attempt = await watched.call('die', {}, { mayRepeat: true, timeoutMs: 600_000 });
    expect(attempt).toMatchObject({ code: 'connection_lost', sent: true, mayHaveExecuted: true });
  });

  test('is not sent again when its time would be over first', async () => {
    const waitMs = holdBack();
    const { peer, watched } = await startHttp();
    await watched.call('cut_before_answer', {}, { mayRepeat: true, timeoutMs: waitMs });
    expect(peer.counts['tool:cut_before_answer']).toBe(1);
  });

  test('is cancelled, and unknown, when the signal comes before the second sending', async () => {
    holdBack();
    const { peer, watched } = await startHttp();
    const controller = new AbortController();
    const attempt = watched.call('cut_before_answer', {}, { mayRepeat: true, signal: controller.signal });
    await peer.when(() => peer.abandoned.length === 1);
    // The break is known here as soon as the peer has answered something that was asked after it.
    await watched.call('echo', { text: 'a' });
    controller.abort('its caller has left');
    expect(summary(await attempt)).toEqual(cancelledSent);
    expect(peer.counts['tool:cut_before_answer']).toBe(1);
  });

  test('makes no more than a tenth of the calls of its server go out twice', async () => {
    const { peer, watched } = await startHttp();
    const calls = Array.from({ length: 60 }, () =>
      watched.call('cut_before_answer', {}, { mayRepeat: true }),
    );
    for (const attempt of await Promise.all(calls))
      expect(attempt).toMatchObject({ code: 'connection_lost' });
    // A tenth, and the three that every server has at its start.
    expect(peer.counts['tool:cut_before_answer']).toBeLessThanOrEqual(69);
    expect(peer.counts['tool:cut_before_answer']).toBeGreaterThanOrEqual(67);
  });
});

describe('the time of a call (O25)', () => {
  const worlds = {
    stdio: async () => start(),
    http: async () => (await startHttp()).watched,
  };

  test.each(['stdio', 'http'] as const)(
    'a) progress keeps a call alive over its limit (%s)',
    async (world) => {
      const watched = await worlds[world]();
      const told: Progress[] = [];
      const args = { times: 20, everyMs: 100 };
      const onProgress = (progress: Progress) => void told.push(progress);
      const attempt = await watched.call('work', args, { timeoutMs: 1_800, onProgress });
      expect(textOf(attempt)).toBe('worked');
      expect(attempt.upstreamMs).toBeGreaterThan(1_800);
      expect(told).toEqual(
        Array.from({ length: 20 }, (_, n) => ({ progress: n + 1, message: `step ${n + 1}` })),
      );
    },
  );

  test.each(['stdio', 'http'] as const)(
    'progress never keeps it alive over its whole time (%s)',
    async (world) => {
      const watched = await worlds[world]();
      const attempt = await watched.call('work', { everyMs: 50 }, { timeoutMs: 900, timeoutTotalMs: 1_200 });
      expect(summary(attempt)).toEqual({ code: 'timeout', sent: true, attempts: 1 });
      expect(attempt).toMatchObject({ message: expect.stringContaining('1200 ms') });
      expect(attempt.upstreamMs).toBeGreaterThanOrEqual(1_200);
    },
  );

  test('b) a longer limit is enough without progress', async () => {
    const watched = await start();
    expect(textOf(await watched.call('wait', { ms: 750 }, { timeoutMs: 20_000 }))).toBe('waited');
  });

  test('c) without either the call ends with the name of its limit, and its server is told once', async () => {
    const watched = await start();
    const attempt = await watched.call('wait', { ms: 600_000 }, { timeoutMs: 300, mayRepeat: true });
    expect(summary(attempt)).toEqual({ code: 'timeout', sent: true, attempts: 1 });
    expect(attempt).toMatchObject({ message: expect.stringMatching(/300 ms.*may have run/) });
    const { calls, cancelled } = await seenBy(watched);
    expect(calls.map(({ name }) => name)).toEqual(['wait']);
    expect(cancelled.map(({ requestId }) => requestId)).toEqual([calls[0]?.id]);
  });

  test('a flood of progress costs little, and hides nothing', async () => {
    const watched = await start();
    const told: Progress[] = [];
    const onProgress = (progress: Progress) => void told.push(progress);
    const attempt = await watched.call('progress_flood', { lines: 20_000 }, { onProgress });
    expect(textOf(attempt)).toBe('after the flood');
    // Twenty in each second that it took.
    expect(told.length).toBeLessThanOrEqual(20 * Math.ceil(attempt.upstreamMs / 1_000));
    expect(told.length).toBeGreaterThan(0);
  });
});

describe('a call that nobody wants any more (O26)', () => {
  const reason = 'its caller asked for that';

  test('over stdio its server hears of it while it runs, its place is free, and nobody else is touched', async () => {
    const watched = await start(faultStdio(), { concurrencyMax: 2, queueMax: 0 });
    const controller = new AbortController();
    const unwanted = watched.call('never', {}, { signal: controller.signal });
    const other = watched.call('wait', { ms: 500 });
    expect(watched.upstreams.canSendNow('one', someone)).toBe(false);
    const abortedMs = performance.now();
    controller.abort(reason);
    const attempt = await unwanted;
    expect(summary(attempt)).toEqual(cancelledSent);
    expect(attempt).toMatchObject({ message: expect.stringContaining(reason) });
    expect(watched.upstreams.canSendNow('one', someone)).toBe(true);
    const { calls, cancelled } = await seenBy(watched);
    expect(performance.now() - abortedMs).toBeLessThan(500);
    const { id } = calls.find(({ name }) => name === 'never') ?? {};
    expect(cancelled).toEqual([{ requestId: id, reason: 'the call was cancelled' }]);
    expect(textOf(await other)).toBe('waited');
  });

  test.each(['never', 'never_stream', 'work'])(
    'over HTTP its request is closed as well (%s)',
    async (tool) => {
      const { peer, watched } = await startHttp({ concurrencyMax: 1, queueMax: 0 });
      const controller = new AbortController();
      const unwanted = watched.call(tool, { everyMs: 10 }, { signal: controller.signal });
      await peer.when(() => peer.calls.length === 1);
      const abortedMs = performance.now();
      controller.abort(reason);
      expect(summary(await unwanted)).toEqual(cancelledSent);
      expect(watched.upstreams.canSendNow('one', someone)).toBe(true);
      await peer.when(() => peer.cancelled.length === 1 && peer.abandoned.length === 1);
      const { id } = peer.calls[0] ?? {};
      expect(peer.cancelled).toEqual([{ requestId: id, atMs: expect.any(Number) }]);
      expect((peer.cancelled[0]?.atMs ?? 0) - abortedMs).toBeLessThan(500);
      expect(peer.abandoned).toEqual([id]);
    },
  );

  test('over HTTP many are told one by one, however many there are at once', async () => {
    const { peer, watched } = await startHttp({ concurrencyMax: 64 });
    const controller = manyListeners();
    const unwanted = Array.from({ length: 64 }, () =>
      watched.call('never', {}, { signal: controller.signal }),
    );
    await peer.when(() => peer.calls.length === 64);
    controller.abort(reason);
    for (const attempt of await Promise.all(unwanted)) expect(summary(attempt)).toEqual(cancelledSent);
    await peer.when(() => peer.cancelled.length === 64);
    expect(new Set(peer.cancelled.map(({ requestId }) => requestId))).toEqual(
      new Set(peer.calls.map(({ id }) => id)),
    );
  });

  test('leaves the queue at once, unsent', async () => {
    const watched = await start(faultStdio(), { concurrencyMax: 1, queueMax: 1 });
    const [first, second] = [new AbortController(), new AbortController()];
    const running = watched.call('never', {}, { signal: first.signal });
    const queued = watched.call('echo', {}, { signal: second.signal });
    expect(await watched.call('echo')).toMatchObject({ code: 'server_busy' });
    second.abort(reason);
    const attempt = await queued;
    expect(summary(attempt)).toEqual(cancelledUnsent);
    expect(attempt).toMatchObject({ message: expect.stringMatching(/before it was sent.*asked for that/) });
    const next = watched.call('echo', { text: 'next' });
    first.abort(reason);
    expect(textOf(await next)).toBe('next');
    await running;
    expect(await countsOf(watched)).toEqual({ never: 1, echo: 1, counts: 1 });
  });

  test('is not connected for, and the handshake goes on for the others', async () => {
    const watched = new WatchedUpstreams([server('one', faultStdio('slow-initialize=300'))]);
    running.push(watched);
    const controller = new AbortController();
    const unwanted = watched.call('echo', {}, { signal: controller.signal });
    const wanted = watched.call('echo', { text: 'wanted' });
    controller.abort(reason);
    expect(summary(await unwanted)).toEqual(cancelledUnsent);
    expect(textOf(await wanted)).toBe('wanted');
    expect((await seenBy(watched)).cancelled).toEqual([]);
  });

  test('before it has begun is not begun', async () => {
    const watched = await start();
    expect(summary(await watched.call('echo', {}, { signal: AbortSignal.abort(reason) }))).toEqual(
      cancelledUnsent,
    );
    expect(await countsOf(watched)).toEqual({ counts: 1 });
  });
});

describe('an answer after the end of its call', () => {
  test.each([
    ['wait', { kind: 'answered', result: { content: [{ type: 'text', text: 'waited' }] } }],
    ['late_error', { kind: 'failed', code: 'server_error', sent: true, details: { json_rpc_code: -32603 } }],
  ])('over stdio is told once (%s)', async (tool, expected) => {
    const watched = await start();
    const late: Attempt[] = [];
    const onLateAnswer = (attempt: Attempt) => void late.push(attempt);
    const attempt = await watched.call(tool, { ms: 400 }, { timeoutMs: 100, onLateAnswer });
    expect(summary(attempt)).toEqual({ code: 'timeout', sent: true, attempts: 1 });
    await watched.when(() => late.length === 1);
    expect(late).toMatchObject([{ ...expected, attempts: 1 }]);
    expect(late[0]?.upstreamMs).toBeGreaterThan(350);
    expect(watched.events('server.answer_late').length).toBe(1);
  });

  test('is told for a cancelled call too, and says nothing where it is none', async () => {
    const watched = await start();
    const late: Attempt[] = [];
    const controller = new AbortController();
    const more = { signal: controller.signal, onLateAnswer: (attempt: Attempt) => void late.push(attempt) };
    const calls = [watched.call('wait', { ms: 800 }, more), watched.call('late_garbage', { ms: 700 }, more)];
    await watched.call('echo', { text: 'both are there' });
    controller.abort('its caller has left');
    for (const attempt of await Promise.all(calls)) expect(summary(attempt)).toEqual(cancelledSent);
    await watched.when(() => watched.events('server.answer_late').length === 2);
    await until(() => late.length > 0);
    expect(late).toMatchObject([{ kind: 'answered' }]);
  });
});

describe('before a call is sent', () => {
  test('whoever has to be asked is asked once, when there is a place and a connection', async () => {
    const watched = await start(faultStdio(), { concurrencyMax: 1 });
    const asked: string[] = [];
    let isFirstOver = false;
    void watched.call('wait', { ms: 300 }).then(() => {
      isFirstOver = true;
    });
    const second = watched.call(
      'echo',
      { text: 'second' },
      {
        beforeSend: async () => {
          asked.push('second');
          await nextTurn();
          expect(isFirstOver).toBe(true);
          return undefined;
        },
      },
    );
    expect(asked).toEqual([]);
    expect(textOf(await second)).toBe('second');
    expect(asked).toEqual(['second']);
  });

  test('a refusal ends it unsent, and gives its place back', async () => {
    const watched = await start(faultStdio(), { concurrencyMax: 1 });
    const refusal: Refusal = {
      code: 'ledger_unavailable',
      message: 'not now',
      details: { retry_after_ms: 5 },
    };
    const attempt = await watched.call('echo', {}, { beforeSend: async () => refusal });
    expect(attempt).toMatchObject({
      kind: 'failed',
      ...refusal,
      sent: false,
      mayHaveExecuted: false,
      attempts: 0,
    });
    expect(await countsOf(watched)).toEqual({ counts: 1 });
  });

  test('a call that is cancelled while it is asked for is not sent', async () => {
    const watched = await start();
    const controller = new AbortController();
    const beforeSend = async (): Promise<undefined> => {
      controller.abort('its caller has left');
    };
    const attempt = await watched.call('echo', {}, { beforeSend, signal: controller.signal });
    expect(summary(attempt)).toEqual(cancelledUnsent);
    expect(await countsOf(watched)).toEqual({ counts: 1 });
  });

  test('it is not asked for again when the call is sent once more', async () => {
    const { peer, watched } = await startHttp({}, { hasSessions: true });
    let asked = 0;
    const beforeSend = async (): Promise<undefined> => {
      asked += 1;
      peer.forgetSessions();
    };
    const attempt = await watched.call('echo', { text: 'a' }, { beforeSend });
    expect(summary(attempt)).toEqual({ text: 'a', attempts: 2 });
    expect(asked).toBe(1);
  });

  test('whether a call could be sent at once is known without asking anybody', async () => {
    const watched = new WatchedUpstreams([
      server('one', faultStdio(), { concurrencyMax: 1 }),
      server('mute', faultStdio('silent-initialize')),
    ]);
    running.push(watched);
    const { upstreams } = watched;
    expect(upstreams.canSendNow('one', someone)).toBe(false);
    await watched.when(() => watched.lists.length === 1);
    expect(['one', 'mute', 'nobody'].map((alias) => upstreams.canSendNow(alias, someone))).toEqual([
      true,
      false,
      false,
    ]);
    const call = watched.call('wait', { ms: 100 });
    expect(upstreams.canSendNow('one', someone)).toBe(false);
    await call;
    expect(upstreams.canSendNow('one', someone)).toBe(true);
    await upstreams.stop();
    expect(upstreams.canSendNow('one', someone)).toBe(false);
  });
});

describe('bounds', () => {
  const timers = (): number => process.getActiveResourcesInfo().filter((kind) => kind === 'Timeout').length;

  test('twenty thousand calls leave neither a listener nor a timer behind', async () => {
    const watched = await start(faultStdio(), { concurrencyMax: 32, queueMax: 32 });
    const { signal } = manyListeners();
    const before = timers();
    let left = 20_000;
    const callOn = async (): Promise<void> => {
      while (left-- > 0)
        expect((await watched.call('echo', { text: 'a' }, { signal })).kind).toBe('answered');
    };
    await Promise.all(Array.from({ length: 64 }, callOn));
    expect(getEventListeners(signal, 'abort')).toEqual([]);
    expect(timers()).toBeLessThanOrEqual(before);
  });

  test('ten thousand calls to a server that hangs take little memory, and end when nobody wants them (RL-13)', async () => {
    const watched = await start(faultStdio(), { concurrencyMax: 16, queueMax: 64 });
    const before = timers();
    const rssBefore = process.memoryUsage().rss;
    const controller = manyListeners();
    const more = { signal: controller.signal, timeoutMs: 600_000 };
    const calls = Array.from({ length: 10_000 }, () =>
      watched.call('never', { text: 'x'.repeat(1_000) }, more),
    );
    const ends = new Map<string, number>();
    const counted = calls.map(async (call) => {
      const attempt = await call;
      const end = attempt.kind === 'failed' ? `${attempt.code}, sent: ${attempt.sent}` : 'answered';
      ends.set(end, (ends.get(end) ?? 0) + 1);
    });
    await until(() => ends.get('server_busy, sent: false') === 9_920);
    expect(process.memoryUsage().rss - rssBefore).toBeLessThan(100_000_000);
    controller.abort('its caller has left');
    await Promise.all(counted);
    expect(Object.fromEntries(ends)).toEqual({
      'server_busy, sent: false': 9_920,
      'cancelled, sent: false': 64,
      'cancelled, sent: true': 16,
    });
    expect(getEventListeners(controller.signal, 'abort')).toEqual([]);
    expect(timers()).toBeLessThanOrEqual(before);
  });
});
