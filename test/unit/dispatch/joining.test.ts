import { describe, expect, test } from 'vitest';
import { limits } from '../../../src/core/limits.ts';
import type { Progress } from '../../../src/dispatch/ports.ts';
import { answer, failure, kinds, Pipeline, settleDown, soon } from './pipeline.ts';

const stateOf = (pipeline: Pipeline): string[] =>
  [...pipeline.ledger.records.values()].map(({ status }) => status);

describe('a call that is posted again while it runs', () => {
  test.for(kinds)('(%s) is sent once, and everybody gets its answer', async (kind) => {
    const pipeline = new Pipeline();
    const first = pipeline.post(kind);
    const early = Array.from({ length: 3 }, () => pipeline.post(kind));
    const sent = await pipeline.nthSent(0);
    const late = Array.from({ length: 3 }, () => pipeline.post(kind));
    await settleDown();
    sent.answer('one');
    const { id, outcome } = await first.settled;
    for (const other of [...early, ...late]) {
      expect(await other.settled).toMatchObject({
        id,
        outcome,
        replayed: true,
        attempts: 1,
        isRecorded: true,
      });
    }
    expect(pipeline.sent).toHaveLength(1);
    expect(pipeline.told('callFinished')).toHaveLength(1);
    expect(pipeline.told('callReplayed')).toHaveLength(6);
    expect(pipeline.told('callAdmitted')).toHaveLength(kind === 'read' ? 0 : 1);
    expect(pipeline.ports.inFlight.size).toBe(0);
  });

  test.for(kinds)('(%s) with other arguments is refused at once, and learns nothing of it', async (kind) => {
    const pipeline = new Pipeline();
    const first = pipeline.post(kind, { input: { n: 1 } });
    const sent = await pipeline.nthSent(0);
    const other = pipeline.post(kind, { input: { n: 2 } });
    const heard: Progress[] = [];
    other.onProgress((progress) => void heard.push(progress));
    const refused = await other.settled;
    expect(refused).toMatchObject({
      outcome: { status: 'rejected', error: { code: 'call_id_reused' } },
      replayed: false,
      attempts: 0,
      render: undefined,
    });
    const kept = await other.keep();
    expect(kept).toMatchObject({ id: refused.id, status: 'rejected', tool: undefined });
    sent.call.onProgress({ progress: 1 });
    sent.answer('one');
    const { id } = await first.settled;
    expect(refused.id).not.toBe(id);
    expect(heard).toEqual([]);
    expect(pipeline.sent).toHaveLength(1);
  });

  test('without the right to it is refused at once, and learns nothing of it', async () => {
    for (const hideForbidden of [false, true]) {
      const pipeline = new Pipeline(undefined, { hideForbidden });
      const first = pipeline.post('write');
      const sent = await pipeline.nthSent(0);
      const other = pipeline.post('write', { grants: [] });
      const heard: Progress[] = [];
      other.onProgress((progress) => void heard.push(progress));
      const refused = await other.settled;
      expect(refused.outcome.error?.code).toBe(hideForbidden ? 'unknown_tool' : 'forbidden');
      sent.call.onProgress({ progress: 1 });
      sent.answer('one');
      expect((await first.settled).id).not.toBe(refused.id);
      expect(heard).toEqual([]);
    }
  });

  test('without the right to it is refused also while its record is looked for', async () => {
    const pipeline = new Pipeline();
    pipeline.behaviour = () => answer('one');
    await pipeline.post('write').settled;
    slowFind(pipeline);
    const first = pipeline.post('write');
    const second = pipeline.post('write', { grants: [] });
    const third = pipeline.post('write', { input: { n: 2 } });
    expect((await first.settled).replayed).toBe(true);
    expect((await second.settled).outcome.error?.code).toBe('forbidden');
    expect((await third.settled).outcome.error?.code).toBe('call_id_reused');
  });

  test('is looked at anew where the first post is turned away', async () => {
    const pipeline = new Pipeline();
    slowFind(pipeline);
    pipeline.behaviour = () => answer('one');
    const first = pipeline.post('write', { grants: [] });
    const second = pipeline.post('write');
    const third = pipeline.post('write');
    expect((await first.settled).outcome.error?.code).toBe('forbidden');
    expect(await second.settled).toMatchObject({ outcome: { status: 'succeeded' }, replayed: false });
    expect(await third.settled).toMatchObject({ outcome: { status: 'succeeded' }, replayed: true });
    expect(pipeline.sent).toHaveLength(1);
  });

  test('is looked at anew as well with other arguments, which nobody has used then', async () => {
    const pipeline = new Pipeline();
    slowFind(pipeline);
    pipeline.behaviour = () => answer('one');
    const first = pipeline.post('write', { input: { n: 'x' } });
    const second = pipeline.post('write', { input: { n: 1 } });
    const third = pipeline.post('write', { input: { n: 2 } });
    expect((await first.settled).outcome.error?.code).toBe('invalid_arguments');
    expect((await second.settled).outcome.status).toBe('succeeded');
    expect((await third.settled).outcome.error?.code).toBe('call_id_reused');
    expect(pipeline.sent).toHaveLength(1);
  });

  test('and then runs by itself is a full call: kept, heard of, and left', async () => {
    const pipeline = new Pipeline();
    slowFind(pipeline);
    pipeline.post('read', { grants: [] });
    const second = pipeline.post('read');
    const heard: Progress[] = [];
    second.onProgress((progress) => void heard.push(progress));
    const keeping = second.keep();
    const sent = await pipeline.nthSent(0);
    const kept = await keeping;
    expect(kept).toMatchObject({ status: 'started', id: sent.call.id });
    expect(second.snapshot()).toMatchObject({ id: sent.call.id });
    expect(pipeline.ledger.records.get(kept.key)).toMatchObject({ id: kept.id, status: 'started' });
    sent.call.onProgress({ progress: 1 });
    second.leave();
    await settleDown();
    expect(sent.call.signal.aborted).toBe(false);
    sent.answer('one');
    expect(await second.settled).toMatchObject({ id: kept.id, outcome: { status: 'succeeded' } });
    expect(heard).toEqual([{ progress: 1 }]);
  });

  test('a hundred times is turned away a hundred times', async () => {
    const pipeline = new Pipeline();
    slowFind(pipeline);
    const posts = Array.from({ length: 100 }, () => pipeline.post('write', { grants: [] }));
    const settled = await Promise.all(posts.map((post) => post.settled));
    expect(new Set(settled.map(({ outcome }) => outcome.error?.code))).toEqual(new Set(['forbidden']));
    expect(pipeline.ports.inFlight.size).toBe(0);
  });

  test('is told the progress of the one run', async () => {
    const pipeline = new Pipeline();
    const posts = [pipeline.post('write'), pipeline.post('write'), pipeline.post('write')];
    const heard: [number, Progress][] = [];
    const stops = posts.map((post, index) =>
      post.onProgress((progress) => void heard.push([index, progress])),
    );
    const sent = await pipeline.nthSent(0);
    await settleDown();
    sent.call.onProgress({ progress: 1, total: 2, message: 'half' });
    stops[1]?.();
    sent.call.onProgress({ progress: 2 });
    sent.answer('one');
    await Promise.all(posts.map((post) => post.settled));
    const half = { progress: 1, total: 2, message: 'half' };
    expect(heard.filter(([, { progress }]) => progress === 1)).toEqual([
      [0, half],
      [1, half],
      [2, half],
    ]);
    expect(heard.filter(([, { progress }]) => progress === 2).map(([index]) => index)).toEqual([0, 2]);
  });
});

describe('a caller who leaves', () => {
  test('ends a read when it was the last one who waited for it (O26)', async () => {
    const pipeline = new Pipeline();
    const [a, b] = [pipeline.post('read'), pipeline.post('read')];
    const { call } = await pipeline.nthSent(0);
    await settleDown();
    a.leave();
    a.leave();
    expect(call.signal.aborted).toBe(false);
    b.leave();
    expect(call.signal.aborted).toBe(true);
    expect(call.signal.reason).toBe('its caller has left');
    expect((await a.settled).outcome).toMatchObject({ status: 'unknown', error: { code: 'cancelled' } });
  });

  test('ends a read also before it is on its way', async () => {
    const pipeline = new Pipeline();
    const release = slowFind(pipeline, true);
    const [a, b] = [pipeline.post('read'), pipeline.post('read')];
    a.leave();
    b.leave();
    release();
    expect((await a.settled).outcome).toMatchObject({ status: 'not_sent', error: { code: 'cancelled' } });
    expect(pipeline.sent).toHaveLength(0);
  });

  test('ends a read also where another post was turned away before it', async () => {
    const pipeline = new Pipeline();
    const release = slowFind(pipeline, true);
    pipeline.post('read', { grants: [] });
    const gone = pipeline.post('read');
    gone.leave();
    release();
    expect((await gone.settled).outcome.error?.code).toBe('cancelled');
    const { ledger } = pipeline;
    expect([...ledger.records.values()].map(({ status }) => status)).not.toContain('succeeded');
    expect(pipeline.ports.inFlight.size).toBe(0);
  });

  test('does not end a read that begins with somebody there', async () => {
    const pipeline = new Pipeline();
    const a = pipeline.post('read');
    const { call, answer: end } = await pipeline.nthSent(0);
    expect(call.signal.aborted).toBe(false);
    end('one');
    expect((await a.settled).outcome.status).toBe('succeeded');
  });

  test('does not end a write, and the retry gets its answer (O26)', async () => {
    for (const kind of ['write', 'idempotent'] as const) {
      const pipeline = new Pipeline();
      const a = pipeline.post(kind);
      const sent = await pipeline.nthSent(0);
      a.leave();
      await settleDown();
      expect(sent.call.signal.aborted).toBe(false);
      const retry = pipeline.post(kind);
      sent.answer('one');
      expect(await retry.settled).toMatchObject({ replayed: true, outcome: { status: 'succeeded' } });
      expect((await pipeline.post(kind).settled).replayed).toBe(true);
      expect(pipeline.sent).toHaveLength(1);
    }
  });

  test('does not end a read that somebody wants to look for later', async () => {
    const pipeline = new Pipeline();
    const [a, b] = [pipeline.post('read'), pipeline.post('read')];
    const sent = await pipeline.nthSent(0);
    await a.keep();
    a.leave();
    b.leave();
    await settleDown();
    expect(sent.call.signal.aborted).toBe(false);
    sent.answer('one');
    expect((await a.settled).outcome.status).toBe('succeeded');
  });
});

describe('a call that is kept', () => {
  test('(read) stands in the ledger from then on, and ends there', async () => {
    const pipeline = new Pipeline();
    const post = pipeline.post('read');
    const sent = await pipeline.nthSent(0);
    expect(pipeline.ledger.records.size).toBe(0);
    const [kept, again] = await Promise.all([post.keep(), post.keep()]);
    expect(again).toEqual(kept);
    expect(stateOf(pipeline)).toEqual(['started']);
    expect(kept).toMatchObject({ id: sent.call.id, status: 'started', attempt: 1, outcome: undefined });
    sent.answer('one');
    const { id } = await post.settled;
    expect(id).toBe(kept.id);
    expect(stateOf(pipeline)).toEqual(['succeeded']);
    expect(pipeline.ledger.records.get(kept.key)).toMatchObject({ id, attempt: 1, attempts: 1 });
    expect(pipeline.told('callAdmitted')).toEqual([]);
  });

  test('(write) is told as it stands in the ledger, once it stands there', async () => {
    const pipeline = new Pipeline();
    pipeline.canSend = false;
    let give = (): void => {};
    pipeline.place = new Promise((resolve) => {
      give = resolve;
    });
    const post = pipeline.post('write');
    const kept = await post.keep();
    expect(kept).toMatchObject({ status: 'received', attempt: 1 });
    expect(stateOf(pipeline)).toEqual(['received']);
    give();
    const sent = await pipeline.nthSent(0);
    expect(stateOf(pipeline)).toEqual(['started']);
    expect(await post.keep()).toMatchObject({ status: 'started', id: kept.id });
    sent.answer('one');
    await post.settled;
    expect(await post.keep()).toMatchObject({ status: 'succeeded', id: kept.id, attempts: 1 });
  });

  test.for(kinds)('(%s) and known already is told with its end', async (kind) => {
    const pipeline = new Pipeline();
    pipeline.behaviour = () => answer('one');
    const first = await pipeline.post(kind).settled;
    const again = pipeline.post(kind);
    expect(await again.keep()).toMatchObject({ id: first.id, status: 'succeeded', outcome: first.outcome });
    const other = pipeline.post(kind, { input: { n: 2 } });
    expect(await other.keep()).toMatchObject({
      status: 'rejected',
      outcome: { error: { code: 'call_id_reused' } },
    });
  });

  test('and turned away is told so', async () => {
    const pipeline = new Pipeline();
    expect(await pipeline.post('read', { grants: [] }).keep()).toMatchObject({ status: 'rejected' });
  });
});

describe('a call that is cancelled', () => {
  test.for(kinds)('(%s) ends for everybody who waits', async (kind) => {
    const pipeline = new Pipeline();
    const posts = [pipeline.post(kind), pipeline.post(kind)];
    const sent = await pipeline.nthSent(0);
    pipeline.ports.inFlight.get(sent.call.id)?.cancel('its caller asked for that');
    for (const post of posts) {
      expect((await post.settled).outcome).toMatchObject({ status: 'unknown', error: { code: 'cancelled' } });
    }
    expect(stateOf(pipeline)).toEqual(['unknown']);
  });

  test('before it is sent has not been sent, and may be tried anew', async () => {
    const pipeline = new Pipeline();
    pipeline.canSend = false;
    let give = (): void => {};
    pipeline.place = new Promise((resolve) => {
      give = resolve;
    });
    const post = pipeline.post('write');
    const { id } = await post.keep();
    pipeline.ports.inFlight.get(id)?.cancel('its caller asked for that');
    give();
    expect((await post.settled).outcome).toMatchObject({ status: 'not_sent', error: { code: 'cancelled' } });
    pipeline.behaviour = () => answer('one');
    expect(await pipeline.post('write').settled).toMatchObject({ id, outcome: { status: 'succeeded' } });
  });

  test('all at once leaves nothing in flight', async () => {
    const pipeline = new Pipeline();
    const posts = kinds.map((kind) => pipeline.post(kind, { callId: kind }));
    await pipeline.nthSent(2);
    const idle = pipeline.ports.inFlight.idle(60_000);
    pipeline.ports.inFlight.cancelAll('callgate was shut down');
    await idle;
    expect(pipeline.ports.inFlight.size).toBe(0);
    await Promise.all(posts.map((post) => post.settled));
  });
});

describe('a late answer', () => {
  test('ends an unknown write once, without being counted again', async () => {
    const pipeline = new Pipeline();
    pipeline.behaviour = () => failure('timeout');
    const first = await pipeline.post('write').settled;
    const sent = await pipeline.nthSent(0);
    sent.call.onLateAnswer(answer('late'));
    await soon(() => pipeline.told('callSettledLate').length === 1);
    sent.call.onLateAnswer(answer('later'));
    await settleDown();
    expect(pipeline.told('callSettledLate')).toHaveLength(1);
    expect(await pipeline.post('write').settled).toMatchObject({
      id: first.id,
      replayed: true,
      attempts: 1,
      outcome: { status: 'succeeded', result: { content: [{ text: 'late' }] } },
    });
  });

  test('of an attempt that another has followed changes nothing', async () => {
    const pipeline = new Pipeline();
    pipeline.behaviour = () => failure('timeout');
    await pipeline.post('idempotent').settled;
    await pipeline.post('idempotent').settled;
    pipeline.sent[0]?.call.onLateAnswer(answer('first'));
    await settleDown();
    expect(pipeline.told('callSettledLate')).toEqual([]);
    expect(stateOf(pipeline)).toEqual(['unknown']);
    pipeline.sent[1]?.call.onLateAnswer(answer('second'));
    await soon(() => stateOf(pipeline)[0] === 'succeeded');
  });
});

/** Lets every look into the ledger take a turn of the event loop, or until the function that it gives is called. */
function slowFind({ ledger }: Pipeline, isHeld = false): () => void {
  let release = (): void => {};
  const held = new Promise<void>((resolve) => {
    release = resolve;
  });
  ledger.find = async (key) => {
    await (isHeld ? held : new Promise((resolve) => setImmediate(resolve)));
    return ledger.records.get(key);
  };
  return release;
}

test('so many may wait for one run, and the next is told to come again', async () => {
  const pipeline = new Pipeline();
  const first = pipeline.post('write');
  const others = Array.from({ length: limits.waitersMax - 1 }, () => pipeline.post('write'));
  const next = await pipeline.post('write').settled;
  expect(next.outcome).toMatchObject({
    status: 'unknown',
    error: {
      code: 'server_busy',
      mayHaveExecuted: true,
      retryable: true,
      details: { retry_after_ms: 1_000 },
    },
  });
  (await pipeline.nthSent(0)).answer('done');
  for (const post of [first, ...others]) expect((await post.settled).outcome.status).toBe('succeeded');
  expect(pipeline.sent).toHaveLength(1);
});

test('a call that goes on under its older id is found by that one alone', async () => {
  const pipeline = new Pipeline();
  const { inFlight } = pipeline.ports;
  const first = pipeline.post('write');
  (await pipeline.nthSent(0)).fail('connection_lost', { sent: false });
  const { id } = await first.settled;
  expect(inFlight.get(id)).toBeUndefined();
  const second = pipeline.post('write');
  const again = await pipeline.nthSent(1);
  expect(inFlight.get(id)?.call.id).toBe(id);
  again.answer('done');
  await second.settled;
  expect(inFlight.get(id)).toBeUndefined();
  expect(inFlight.size).toBe(0);
});
