import { describe, expect, test } from 'vitest';
import { LedgerUnavailable } from '../../../src/dispatch/ports.ts';
import { MemoryLedger } from '../../support/memory-ledger.ts';
import { registryOf } from '../../support/service.ts';
import { answer, failure, kinds, Pipeline, settleDown, soon } from './pipeline.ts';

type Step = 'claim' | 'start' | 'settle' | 'record';

/** A ledger that hangs, or fails, in single steps. */
class UnwellLedger extends MemoryLedger {
  readonly hangs = new Set<Step>();
  /** How often a step fails from now on. */
  readonly fails = new Map<Step, number>();

  override claim(...args: Parameters<MemoryLedger['claim']>): ReturnType<MemoryLedger['claim']> {
    return this.#step('claim', () => super.claim(...args));
  }

  override start(...args: Parameters<MemoryLedger['start']>): ReturnType<MemoryLedger['start']> {
    return this.#step('start', () => super.start(...args));
  }

  override settle(...args: Parameters<MemoryLedger['settle']>): ReturnType<MemoryLedger['settle']> {
    return this.#step('settle', () => super.settle(...args));
  }

  override record(...args: Parameters<MemoryLedger['record']>): ReturnType<MemoryLedger['record']> {
    return this.#step('record', () => super.record(...args));
  }

  #step<T>(step: Step, take: () => Promise<T>): Promise<T> {
    if (this.hangs.has(step)) return new Promise(() => {});
    const left = this.fails.get(step) ?? 0;
    if (left === 0) return take();
    this.fails.set(step, left - 1);
    return Promise.reject(new LedgerUnavailable(`the ${step} failed`));
  }
}

const unwell = (): { pipeline: Pipeline; ledger: UnwellLedger } => {
  const ledger = new UnwellLedger();
  const pipeline = new Pipeline(ledger);
  pipeline.behaviour = () => answer('one');
  return { pipeline, ledger };
};

describe('while the ledger cannot be used', () => {
  test.for(['write', 'idempotent'] as const)('nothing that writes is sent (%s)', async (kind) => {
    const { pipeline, ledger } = unwell();
    ledger.fails.set('claim', 1);
    const refused = await pipeline.post(kind).settled;
    expect(refused).toMatchObject({
      outcome: {
        status: 'not_sent',
        error: {
          code: 'ledger_unavailable',
          mayHaveExecuted: false,
          retryable: true,
          details: { retry_after_ms: 1_000 },
        },
      },
      attempts: 0,
      isRecorded: false,
    });
    expect(pipeline.sent).toEqual([]);
    expect(pipeline.told('callAdmitted')).toEqual([]);
    expect(pipeline.told('ledgerFailed')).toEqual([{ during: 'claim', reason: 'the claim failed' }]);
    expect(await pipeline.post(kind).settled).toMatchObject({
      outcome: { status: 'succeeded' },
      isRecorded: true,
    });
  });

  test('nothing that writes is sent, and nothing is said about earlier posts, where it cannot be read', async () => {
    const { pipeline, ledger } = unwell();
    ledger.brokenBy = 'the database is gone';
    expect(await pipeline.post('write').settled).toMatchObject({
      outcome: { status: 'unknown', error: { code: 'ledger_unavailable', mayHaveExecuted: true } },
      attempts: 0,
      isRecorded: false,
    });
    expect(pipeline.sent).toEqual([]);
    expect(pipeline.told('ledgerFailed').map(({ during }) => during)).toEqual(['find', 'claim']);
  });

  test('reads go on, and their answers say that a repeat will not be known', async () => {
    const { pipeline, ledger } = unwell();
    ledger.brokenBy = 'the disk is full';
    expect(await pipeline.post('read').settled).toMatchObject({
      outcome: { status: 'succeeded' },
      isRecorded: false,
    });
    await settleDown();
    expect(pipeline.told('ledgerFailed').map(({ during }) => during)).toEqual(['find', 'record']);
    await pipeline.post('read').settled;
    expect(pipeline.sent).toHaveLength(2);
  });

  test('reads are turned away as ever', async () => {
    const { pipeline, ledger } = unwell();
    ledger.brokenBy = 'the disk is full';
    const { outcome, isRecorded } = await pipeline.post('read', { grants: [] }).settled;
    expect(outcome.error?.code).toBe('forbidden');
    expect(isRecorded).toBe(false);
  });

  test.for(['record', 'claim', 'settle', 'start'] as const)('reads do not wait for it: %s', async (step) => {
    const { pipeline, ledger } = unwell();
    ledger.hangs.add(step);
    expect((await pipeline.post('read').settled).outcome.status).toBe('succeeded');
  });

  test('a claim that fails sends nothing', async () => {
    const { pipeline, ledger } = unwell();
    ledger.fails.set('claim', 1);
    expect((await pipeline.post('write').settled).outcome.error?.code).toBe('ledger_unavailable');
    expect(pipeline.sent).toEqual([]);
    expect((await pipeline.post('write').settled).outcome.status).toBe('succeeded');
  });

  test('a start that fails sends nothing, and leaves the call to be tried anew', async () => {
    const { pipeline, ledger } = unwell();
    pipeline.canSend = false;
    ledger.fails.set('start', 1);
    const first = await pipeline.post('write').settled;
    expect(first.outcome).toMatchObject({
      status: 'not_sent',
      error: { code: 'ledger_unavailable', mayHaveExecuted: false, details: { retry_after_ms: 1_000 } },
    });
    expect(pipeline.sent).toEqual([]);
    expect(await pipeline.post('write').settled).toMatchObject({
      id: first.id,
      outcome: { status: 'succeeded' },
    });
  });

  test('a write waits for its start before it is sent', async () => {
    const { pipeline, ledger } = unwell();
    pipeline.canSend = false;
    ledger.hangs.add('start');
    pipeline.post('write');
    await settleDown();
    expect(pipeline.sent).toEqual([]);
    expect([...ledger.records.values()].map(({ status }) => status)).toEqual(['received']);
  });

  test('an answer is settled again and again before it is told', async () => {
    const { pipeline, ledger } = unwell();
    ledger.fails.set('settle', 3);
    expect(await pipeline.post('write').settled).toMatchObject({
      outcome: { status: 'succeeded' },
      isRecorded: true,
    });
    expect(pipeline.told('ledgerFailed').map(({ during }) => during)).toEqual(['settle', 'settle', 'settle']);
    expect((await pipeline.post('write').settled).replayed).toBe(true);
  });

  test('an answer that cannot be settled within the time of the tool is told as not recorded', async () => {
    const { pipeline, ledger } = unwell();
    ledger.fails.set('settle', Number.POSITIVE_INFINITY);
    const sinceMs = pipeline.nowMs;
    const first = await pipeline.post('write').settled;
    expect(first).toMatchObject({ outcome: { status: 'succeeded' }, isRecorded: false });
    expect(pipeline.nowMs - sinceMs).toBeGreaterThanOrEqual(60_000);
    expect(pipeline.nowMs - sinceMs).toBeLessThan(61_000);
    // What nobody works on any more is ended by the ledger, and is unknown from then on.
    expect(pipeline.ports.inFlight.get(first.id)).toBeUndefined();
    const repeat = pipeline.post('write');
    await settleDown();
    expect(pipeline.ports.inFlight.get(first.id)).toBeUndefined();
    ledger.endLost((id) => pipeline.ports.inFlight.get(id) !== undefined, pipeline.nowMs);
    expect(await repeat.settled).toMatchObject({
      id: first.id,
      replayed: true,
      outcome: { status: 'unknown', error: { code: 'interrupted' } },
    });
    expect(pipeline.sent).toHaveLength(1);
  });

  test('a late answer that cannot be written is told to operators', async () => {
    const { pipeline, ledger } = unwell();
    pipeline.behaviour = () => failure('timeout');
    await pipeline.post('write').settled;
    ledger.fails.set('settle', 1);
    pipeline.sent[0]?.call.onLateAnswer(answer('late'));
    await soon(() => pipeline.told('ledgerFailed').length === 1);
    expect(pipeline.told('callSettledLate')).toEqual([]);
  });

  test('a call that was claimed late and cannot be, goes on', async () => {
    const { pipeline, ledger } = unwell();
    pipeline.behaviour = () => undefined;
    const post = pipeline.post('read');
    const sent = await pipeline.nthSent(0);
    ledger.fails.set('claim', 1);
    expect(await post.keep()).toMatchObject({ status: 'started', id: sent.call.id });
    sent.answer('one');
    expect(await post.settled).toMatchObject({ outcome: { status: 'succeeded' }, isRecorded: true });
  });

  test.for(kinds)('whatever is not its own fault is a bug, and is not hidden (%s)', async (kind) => {
    const { pipeline, ledger } = unwell();
    ledger.find = () => Promise.reject(new TypeError('a bug'));
    const [first, second] = [pipeline.post(kind), pipeline.post(kind)];
    await expect(first.settled).rejects.toThrow('a bug');
    await expect(second.settled).rejects.toThrow('a bug');
    expect(pipeline.ports.inFlight.size).toBe(0);
  });
});

describe('an actor that has filled its part of the ledger', () => {
  test('is told when to come again, and nothing is sent', async () => {
    const { pipeline, ledger } = unwell();
    ledger.claim = () => Promise.resolve({ kind: 'quota_exceeded', retryAfterMs: 90_000 });
    expect(await pipeline.post('write').settled).toMatchObject({
      outcome: {
        status: 'not_sent',
        error: { code: 'rate_limited', retryable: true, details: { retry_after_ms: 90_000 } },
      },
      isRecorded: false,
    });
    expect(pipeline.sent).toEqual([]);
  });
});

describe('a repeat while the ledger cannot be read', () => {
  test('of a write whose tool is gone is not told that it never was', async () => {
    const { pipeline, ledger } = unwell();
    await pipeline.post('write').settled;
    ledger.brokenBy = 'the database is gone';
    pipeline.registry = registryOf([]);
    const repeated = await pipeline.post('write').settled;
    expect(repeated.outcome).toMatchObject({
      status: 'unknown',
      error: { code: 'ledger_unavailable', mayHaveExecuted: true, retryable: true },
    });
    expect(repeated.isRecorded).toBe(false);
    ledger.brokenBy = undefined;
    expect(await pipeline.post('write').settled).toMatchObject({
      replayed: true,
      outcome: { status: 'succeeded' },
    });
  });

  test('of a write that its caller may not use any more says the same', async () => {
    const { pipeline, ledger } = unwell();
    ledger.brokenBy = 'the database is gone';
    const refused = await pipeline.post('write', { grants: [] }).settled;
    expect(refused.outcome.error?.code).toBe('ledger_unavailable');
  });

  test('of a read with bad arguments is refused for these', async () => {
    const { pipeline, ledger } = unwell();
    ledger.brokenBy = 'the database is gone';
    const refused = await pipeline.post('read', { input: { n: 'one' } }).settled;
    expect(refused).toMatchObject({ isRecorded: false, outcome: { error: { code: 'invalid_arguments' } } });
  });
});

test('a read that was to be kept, and that the ledger does not take, says so', async () => {
  const { pipeline, ledger } = unwell();
  pipeline.behaviour = () => undefined;
  ledger.fails.set('claim', 1);
  const post = pipeline.post('read');
  expect(post.isRecorded()).toBe(true);
  await post.keep();
  expect(post.isRecorded()).toBe(false);
});
