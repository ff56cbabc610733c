import { describe, expect, test } from 'vitest';
import { type ClaimResult, LedgerUnavailable } from '../../../src/dispatch/ports.ts';
import { MemoryLedger } from '../../support/memory-ledger.ts';
import { answer, failure, kinds, loopTurn, Pipeline, settleDown, soon } from './pipeline.ts';

/** Two processes over one ledger. */
function twoProcesses(): { here: Pipeline; there: Pipeline; ledger: MemoryLedger } {
  const ledger = new MemoryLedger();
  return { here: new Pipeline(ledger), there: new Pipeline(ledger), ledger };
}

describe('a call that runs in another process', () => {
  test.for(['write', 'idempotent'] as const)('(%s) is waited for, and never sent here', async (kind) => {
    const { here, there } = twoProcesses();
    const first = there.post(kind);
    const sent = await there.nthSent(0);
    const second = here.post(kind);
    const third = here.post(kind);
    await settleDown();
    expect(here.ports.inFlight.size).toBe(1);
    sent.answer('one');
    const { id, outcome } = await first.settled;
    for (const post of [second, third]) {
      expect(await post.settled).toMatchObject({
        id,
        outcome,
        replayed: true,
        attempts: 1,
        isRecorded: true,
      });
    }
    expect(here.sent).toEqual([]);
    expect(here.told('callAdmitted')).toEqual([]);
    expect(here.told('callReplayed')).toHaveLength(2);
  });

  test('is waited for through times in which the ledger cannot be read', async () => {
    const { here, there, ledger } = twoProcesses();
    const first = there.post('write');
    const sent = await there.nthSent(0);
    const second = here.post('write');
    await settleDown();
    ledger.brokenBy = 'the database is gone';
    await settleDown();
    expect(here.told('ledgerFailed').length).toBeGreaterThan(0);
    ledger.brokenBy = undefined;
    sent.answer('one');
    expect((await second.settled).outcome).toEqual((await first.settled).outcome);
  });

  test('refuses other arguments and missing rights at once', async () => {
    const { here, there } = twoProcesses();
    there.post('write');
    await there.nthSent(0);
    expect((await here.post('write', { input: { n: 2 } }).settled).outcome.error?.code).toBe(
      'call_id_reused',
    );
    expect((await here.post('write', { grants: [] }).settled).outcome.error?.code).toBe('forbidden');
  });

  test('is not one that this process could cancel, or holds', async () => {
    const { here, there } = twoProcesses();
    there.post('write');
    const { call } = await there.nthSent(0);
    here.post('write');
    await settleDown();
    expect(here.ports.inFlight.size).toBe(1);
    expect(here.ports.inFlight.get(call.id)).toBeUndefined();
    expect(there.ports.inFlight.get(call.id)).toBeDefined();
  });

  test('is kept there already, and waited for no longer by who keeps it', async () => {
    const { here, there } = twoProcesses();
    there.post('write');
    const sent = await there.nthSent(0);
    const post = here.post('write');
    expect(await post.keep()).toMatchObject({ id: sent.call.id, status: 'started' });
    await soon(() => here.ports.inFlight.size === 0);
    sent.answer('one');
    await soon(() => there.ports.inFlight.size === 0);
    expect(await here.post('write').settled).toMatchObject({
      replayed: true,
      outcome: { status: 'succeeded' },
    });
  });

  test('runs on when those who wait for it here have left, and nothing waits any longer', async () => {
    const { here, there } = twoProcesses();
    there.post('write');
    const sent = await there.nthSent(0);
    const posts = [here.post('write'), here.post('write')];
    await settleDown();
    for (const post of posts) post.leave();
    await soon(() => here.ports.inFlight.size === 0);
    expect(await posts[0]?.settled).toMatchObject({
      outcome: { status: 'unknown', error: { code: 'cancelled', mayHaveExecuted: true } },
      recordedAtMs: undefined,
    });
    expect(sent.call.signal.aborted).toBe(false);
  });

  test('ends the wait for it when this process shuts down', async () => {
    const { here, there } = twoProcesses();
    there.post('write');
    const sent = await there.nthSent(0);
    const post = here.post('write');
    await settleDown();
    here.ports.inFlight.cancelAll('callgate was shut down');
    expect((await post.settled).outcome).toMatchObject({ status: 'unknown', error: { code: 'cancelled' } });
    sent.answer('one');
    await soon(() => there.ports.inFlight.size === 0);
  });

  test.for(kinds)('(%s) and is not sent there is sent here, under the same id', async (kind) => {
    const { here, there } = twoProcesses();
    const first = there.post(kind);
    const sent = await there.nthSent(0);
    await first.keep();
    here.behaviour = () => answer('here');
    const second = here.post(kind);
    await settleDown();
    expect(here.sent).toEqual([]);
    sent.fail('server_unavailable', { sent: false });
    const { id } = await first.settled;
    expect(await second.settled).toMatchObject({ id, replayed: false, outcome: { status: 'succeeded' } });
    expect(here.sent).toHaveLength(1);
  });

  test('and was lost there is unknown here', async () => {
    const { here, there, ledger } = twoProcesses();
    there.post('write');
    await there.nthSent(0);
    const post = here.post('write');
    await settleDown();
    ledger.endLost(() => false, here.nowMs);
    expect(await post.settled).toMatchObject({
      replayed: true,
      outcome: { status: 'unknown', error: { code: 'interrupted' } },
    });
    expect(here.sent).toEqual([]);
  });

  test('and was taken over after it was lost cannot be started by who had it', async () => {
    const { here, there, ledger } = twoProcesses();
    there.canSend = false;
    let wake = (): void => {};
    there.place = new Promise((resolve) => {
      wake = resolve;
    });
    const paused = there.post('write');
    await paused.keep();
    ledger.endLost(() => false, here.nowMs);
    here.behaviour = () => answer('here');
    const { id } = await here.post('write').settled;
    wake();
    expect(await paused.settled).toMatchObject({ id, replayed: true, outcome: { status: 'succeeded' } });
    expect(there.sent).toEqual([]);
    expect(ledger.records.size).toBe(1);
  });

  test.for([
    ['succeeded', answer('there')],
    ['unknown', failure('server_unavailable', { sent: false })],
    ['unknown', failure('timeout')],
  ] as const)(
    'and comes to an end after it was taken for lost is %s for everybody',
    async ([status, end]) => {
      const { here, there, ledger } = twoProcesses();
      const paused = there.post('write');
      await there.nthSent(0);
      ledger.endLost(() => false, here.nowMs);
      expect((await here.post('write').settled).outcome.status).toBe('unknown');
      there.sent[0]?.end(end);
      const { id, outcome } = await paused.settled;
      expect(outcome.status).toBe(status);
      expect(await here.post('write').settled).toMatchObject({ id, outcome, replayed: true });
      expect(there.told('callFinished')).toHaveLength(1);
    },
  );

  test('and was run here after it was lost there has one answer, that of the later attempt', async () => {
    const { here, there, ledger } = twoProcesses();
    const paused = there.post('idempotent');
    const sent = await there.nthSent(0);
    ledger.endLost(() => false, here.nowMs);
    const second = here.post('idempotent');
    const again = await here.nthSent(0);
    sent.answer('there');
    await settleDown();
    again.answer('here');
    const { id, outcome } = await second.settled;
    expect(outcome.result?.content[0]?.text).toBe('here');
    expect(await paused.settled).toMatchObject({ id, outcome, replayed: true });
  });

  test('and whose end was written though that looked like a failure is recorded', async () => {
    const { there, ledger } = twoProcesses();
    const settle = ledger.settle.bind(ledger);
    ledger.settle = async (...args) => {
      ledger.settle = settle;
      await settle(...args);
      throw new LedgerUnavailable('the connection was cut');
    };
    there.behaviour = () => answer('there');
    const first = await there.post('write').settled;
    expect(first).toMatchObject({ outcome: { status: 'succeeded' }, isRecorded: true, attempts: 1 });
    expect((await there.post('write').settled).outcome).toEqual(first.outcome);
  });
});

describe('a claim that another process was quicker with', () => {
  /** Both have looked, and seen nothing, before either claims. */
  function race() {
    const { here, there, ledger } = twoProcesses();
    let release = (): void => {};
    const held = new Promise<void>((resolve) => {
      release = resolve;
    });
    const slow = new Proxy(ledger, {
      get: (target, name) =>
        name === 'claim'
          ? async (...args: Parameters<MemoryLedger['claim']>): Promise<ClaimResult> => {
              await held;
              return target.claim(...args);
            }
          : typeof target[name as keyof MemoryLedger] === 'function'
            ? (target[name as 'find'] as (...args: unknown[]) => unknown).bind(target)
            : target[name as 'records'],
    });
    const late = new Pipeline(slow);
    return { here: late, there, ledger, release, unused: here };
  }

  test.for(['succeeded', 'unknown'] as const)(
    'and has ended as %s gives the answer of that one',
    async (end) => {
      const { here, there, release } = race();
      const second = here.post('write');
      there.behaviour = () => (end === 'succeeded' ? answer('there') : failure('timeout'));
      const first = await there.post('write').settled;
      release();
      expect(await second.settled).toMatchObject({ id: first.id, outcome: first.outcome, replayed: true });
      expect(here.sent).toEqual([]);
    },
  );

  test('and still runs it is waited for', async () => {
    const { here, there, release } = race();
    const second = here.post('write');
    const first = there.post('write');
    const sent = await there.nthSent(0);
    release();
    await settleDown();
    sent.answer('there');
    const { id, outcome } = await first.settled;
    expect(await second.settled).toMatchObject({ id, outcome, replayed: true });
    expect(here.sent).toEqual([]);
  });

  test('and then did not send is claimed again', async () => {
    const { here, there, release } = race();
    here.behaviour = () => answer('here');
    const second = here.post('write');
    const first = there.post('write');
    const sent = await there.nthSent(0);
    release();
    await settleDown();
    sent.fail('server_unavailable', { sent: false });
    const { id } = await first.settled;
    expect(await second.settled).toMatchObject({
      id,
      replayed: false,
      outcome: { status: 'succeeded' },
      attempts: 1,
    });
    expect(here.sent.map(({ call }) => call.id)).toEqual([id]);
  });

  test('and that may have had an effect is not made harmless by an attempt that was not sent', async () => {
    const { here, there, release } = race();
    here.behaviour = () => failure('server_unavailable', { sent: false });
    const second = here.post('idempotent');
    there.behaviour = () => failure('timeout');
    const { id } = await there.post('idempotent').settled;
    release();
    expect(await second.settled).toMatchObject({
      id,
      outcome: { status: 'unknown', error: { code: 'server_unavailable', mayHaveExecuted: true } },
    });
  });

  test('with other arguments is refused', async () => {
    const { here, there, release } = race();
    const second = here.post('write', { input: { n: 2 } });
    there.behaviour = () => answer('there');
    await there.post('write').settled;
    release();
    expect((await second.settled).outcome.error?.code).toBe('call_id_reused');
    expect(here.sent).toEqual([]);
  });

  test('for a read that is kept gives the record of that one', async () => {
    const { here, there, ledger } = twoProcesses();
    const second = here.post('read');
    await here.nthSent(0);
    const first = there.post('read');
    await there.nthSent(0);
    const kept = await first.keep();
    expect(await second.keep()).toMatchObject({ id: kept.id, status: 'started' });
    here.sent[0]?.answer('here');
    there.sent[0]?.answer('there');
    await Promise.all([first.settled, second.settled]);
    await loopTurn();
    expect([...ledger.records.values()]).toMatchObject([{ id: kept.id, status: 'succeeded' }]);
  });
});

describe('a call whose end is unknown', () => {
  test('stays so where its tool has become harmless only since', async () => {
    const { here, there, ledger } = twoProcesses();
    there.behaviour = () => failure('timeout');
    const first = await there.post('write').settled;
    const record = [...ledger.records.values()][0];
    if (record?.tool === undefined) throw new Error('there is no record');
    // As it is when a tool that was declared idempotent no longer is: the record says one thing, the call another.
    ledger.records.set(record.key, { ...record, tool: { ...record.tool, isRepeatable: true } });
    expect(await here.post('write').settled).toMatchObject({
      id: first.id,
      replayed: true,
      outcome: first.outcome,
    });
    expect(here.sent).toEqual([]);
  });
});

describe('what several processes say of one call agrees (I5)', () => {
  test('also where it was swept, is run once more elsewhere, and its first answer comes meanwhile', async () => {
    const { here, there, ledger } = twoProcesses();
    const first = here.post('idempotent');
    const early = await here.nthSent(0);
    ledger.endLost(() => false, here.nowMs);
    const second = there.post('idempotent');
    const late = await there.nthSent(0);
    early.answer('of the first');
    await settleDown();
    late.fail('connection_lost');
    const { outcome } = await second.settled;
    expect(outcome).toMatchObject({ status: 'unknown', error: { code: 'connection_lost' } });
    expect((await first.settled).outcome).toEqual(outcome);
  });

  test('also where the wish to cancel it comes before it is known that it runs elsewhere', async () => {
    const { here, there, ledger } = twoProcesses();
    there.post('write');
    const sent = await there.nthSent(0);
    const second = here.post('write');
    here.ports.inFlight.find([...ledger.records.keys()][0] as string)?.cancel('its caller asked for that');
    await soon(() => ledger.cancelRequests.length > 0);
    expect(ledger.cancelRequests).toEqual([sent.call.id]);
    sent.fail('cancelled');
    expect((await second.settled).outcome).toMatchObject({ status: 'unknown', error: { code: 'cancelled' } });
    expect([...ledger.records.values()][0]?.outcome).toEqual((await second.settled).outcome);
  });

  test('also where a wait is joined that has just been given up', async () => {
    const { here, there } = twoProcesses();
    const first = there.post('write');
    const sent = await there.nthSent(0);
    const left = here.post('write');
    await settleDown();
    left.leave();
    const joined = here.post('write');
    await left.settled;
    sent.answer('one');
    expect((await joined.settled).outcome).toEqual((await first.settled).outcome);
  });
});
