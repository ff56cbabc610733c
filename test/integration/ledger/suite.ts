import { randomBytes } from 'node:crypto';
import { describe, expect, onTestFinished, test } from 'vitest';
import type { Outcome } from '../../../src/core/outcome.ts';
import {
  type Ledger,
  LedgerUnavailable,
  type StoredToolList,
  type ToolListStore,
  ToolListTooLarge,
} from '../../../src/dispatch/ports.ts';
import type { CallRecord, RecordedCall } from '../../../src/dispatch/record.ts';
import { until } from '../../support/until.ts';
import {
  answered,
  claimed,
  found,
  hourMs,
  idempotentTool,
  type LedgerStore,
  minuteMs,
  outcomes,
  readTool,
  Workbench,
  writeTool,
} from './bench.ts';
import { testAgainstModel } from './model.ts';

export type { LedgerStore } from './bench.ts';

/** In what the stores of the adapters differ. */
export interface StoreTraits {
  /** Whether several processes can have the store open at once. */
  readonly isShared: boolean;
}

/**
 * What every ledger has to do (design section 7, the port in `src/dispatch/ports.ts`).
 * @param newStore makes an empty store
 */
export function testLedger(name: string, newStore: () => Promise<LedgerStore>, traits: StoreTraits): void {
  const newBench = benches(newStore);
  describe(name, () => {
    testRules(newBench, traits);
    testBounds(newBench);
    testLargeLists(newBench);
    testLargeToolLists(newBench);
    if (traits.isShared) testReplicas(newBench);
    testAgainstModel(newBench);
  });
}

/** The part of it that the model of the ledger keeps to as well. */
export function testLedgerRules(name: string, newStore: () => Promise<LedgerStore>): void {
  describe(name, () => testRules(benches(newStore), { isShared: false }));
}

const benches = (newStore: () => Promise<LedgerStore>) => async (): Promise<Workbench> => {
  const bench = new Workbench(await newStore());
  onTestFinished(() => bench.remove());
  return bench;
};

function testRules(newBench: NewBench, traits: StoreTraits): void {
  testClaims(newBench);
  testEnds(newBench);
  testRecords(newBench);
  testReading(newBench, traits);
  testTexts(newBench);
  testProcesses(newBench);
  testRetention(newBench);
  testToolLists(newBench);
}

type NewBench = () => Promise<Workbench>;

function testClaims(newBench: NewBench): void {
  describe('a claim', () => {
    test('of a call that nobody has seen makes its record', async () => {
      const bench = await newBench();
      const ledger = await bench.open();
      const call = bench.call({ run: 'run-1', turn: 'turn-1', callId: 'call_0' });
      expect(await ledger.claim(call, 'received')).toEqual({ kind: 'claimed', claim: { call, attempt: 1 } });
      expect(await found(ledger, call)).toEqual({
        ...call,
        status: 'received',
        attempt: 1,
        attempts: 0,
        updatedAtMs: call.createdAtMs,
        outcome: undefined,
        isExpired: false,
      });
    });

    test('of a call that can be sent at once makes it started', async () => {
      const bench = await newBench();
      const ledger = await bench.open();
      const call = bench.call();
      await claimed(ledger, call, 'started');
      expect(await found(ledger, call)).toMatchObject({ status: 'started', attempt: 1 });
    });

    test('of a call on its way gives its record, whoever asks and with whatever arguments', async () => {
      const bench = await newBench();
      const ledger = await bench.open();
      for (const status of ['received', 'started'] as const) {
        const call = bench.call();
        await claimed(ledger, call, status);
        const record = await found(ledger, call);
        const same = bench.call(call);
        const other = bench.call({ ...call, input: '{"id":2}' });
        expect(await ledger.claim(same, 'started')).toEqual({ kind: 'known', record });
        expect(await ledger.claim(other, 'received')).toEqual({ kind: 'known', record });
        expect(await found(ledger, call)).toEqual(record);
      }
    });

    test.for(['succeeded', 'failed', 'unknown'] as const)(
      'of a write that has %s gives its record, and changes nothing',
      async (end) => {
        const bench = await newBench();
        const ledger = await bench.open();
        const call = bench.call();
        await ledger.settle(await claimed(ledger, call), bench.ended(outcomes[end]));
        const record = await found(ledger, call);
        for (const input of ['{}', '{"id":2}']) {
          expect(await ledger.claim(bench.call({ ...call, input }), 'started')).toEqual({
            kind: 'known',
            record,
          });
        }
        expect(await found(ledger, call)).toEqual(record);
      },
    );

    test('takes over a call that was not sent, under the same id', async () => {
      const bench = await newBench();
      const ledger = await bench.open();
      const call = bench.call({ run: 'run-1' });
      await ledger.settle(await claimed(ledger, call, 'received'), bench.ended(outcomes.notSent, 0));
      const again = bench.call(call);
      const kept = { ...again, id: call.id, createdAtMs: call.createdAtMs };
      expect(await ledger.claim(again, 'received')).toEqual({
        kind: 'claimed',
        claim: { call: kept, attempt: 2 },
      });
      expect(await found(ledger, call)).toMatchObject({
        id: call.id,
        createdAtMs: call.createdAtMs,
        status: 'received',
        attempt: 2,
        outcome: undefined,
      });
    });

    test('does not take over a call that was not sent for one with other arguments', async () => {
      const bench = await newBench();
      const ledger = await bench.open();
      const call = bench.call();
      await ledger.settle(await claimed(ledger, call), bench.ended(outcomes.notSent, 0));
      const record = await found(ledger, call);
      const other = bench.call({ ...call, input: '{"id":2}' });
      expect(await ledger.claim(other, 'started')).toEqual({ kind: 'known', record });
    });

    test('takes over a rejected call, also with another name, other arguments and another tool', async () => {
      const bench = await newBench();
      const ledger = await bench.open();
      const call = bench.call({ name: 'pay__ordr', tool: undefined });
      await ledger.record(call, bench.ended(outcomes.rejected, 0));
      const other = bench.call({ ...call, name: 'pay__order', input: '{"id":2}', tool: writeTool });
      const { attempt } = await claimed(ledger, other);
      expect(attempt).toBe(2);
      expect(await found(ledger, call)).toMatchObject({
        id: call.id,
        createdAtMs: call.createdAtMs,
        fingerprint: other.fingerprint,
        name: 'pay__order',
        tool: writeTool,
        status: 'started',
      });
    });

    test('takes over an unknown call only where both its tools may be run twice', async () => {
      const bench = await newBench();
      const ledger = await bench.open();
      const tools = [writeTool, idempotentTool, undefined];
      for (const before of tools) {
        for (const now of tools) {
          const call = bench.call({ tool: before });
          await ledger.settle(await claimed(ledger, call), bench.ended(outcomes.unknown));
          const { kind } = await ledger.claim(bench.call({ ...call, tool: now }), 'started');
          expect(kind).toBe(before === idempotentTool && now === idempotentTool ? 'claimed' : 'known');
        }
      }
    });

    test('does not take over an unknown call for one with other arguments', async () => {
      const bench = await newBench();
      const ledger = await bench.open();
      const call = bench.call({ tool: idempotentTool });
      await ledger.settle(await claimed(ledger, call), bench.ended(outcomes.unknown));
      const other = bench.call({ ...call, input: '{"id":2}', tool: idempotentTool });
      expect(await ledger.claim(other, 'started')).toMatchObject({ kind: 'known' });
    });

    test('counts the claims, and the requests that were sent, over all attempts', async () => {
      const bench = await newBench();
      const ledger = await bench.open();
      const call = bench.call({ tool: idempotentTool });
      await ledger.settle(await claimed(ledger, call), bench.ended(outcomes.unknown, 2));
      await ledger.settle(await claimed(ledger, bench.call(call)), bench.ended(outcomes.notSent, 0));
      await claimed(ledger, bench.call(call));
      expect(await found(ledger, call)).toMatchObject({ attempt: 3, attempts: 2 });
    });

    test('of one key by a thousand at once goes to exactly one of them', async () => {
      const bench = await newBench();
      const ledger = await bench.open();
      const first = bench.call();
      const posts = [first, ...Array.from({ length: 999 }, () => bench.call(first))];
      const results = await Promise.all(posts.map((post) => ledger.claim(post, 'started')));
      const winners = posts.filter((_, index) => results[index]?.kind === 'claimed');
      expect(winners).toHaveLength(1);
      const ids = results.map((result) => {
        if (result.kind === 'quota_exceeded') throw new Error('nobody fills the ledger here');
        return result.kind === 'known' ? result.record.id : result.claim.call.id;
      });
      expect(new Set(ids)).toEqual(new Set([winners[0]?.id]));
      expect(await found(ledger, first)).toMatchObject({ attempt: 1, status: 'started' });
    });

    test('of a thousand keys at once goes to each of them', async () => {
      const bench = await newBench();
      const ledger = await bench.open();
      const calls = Array.from({ length: 1_000 }, () => bench.call());
      const claims = await Promise.all(calls.map((call) => claimed(ledger, call)));
      const settled = await Promise.all(
        claims.map((claim) => ledger.settle(claim, bench.ended(answered(claim.call.callId)))),
      );
      expect(new Set(settled)).toEqual(new Set([true]));
      for (const call of [calls[0], calls[499], calls[999]] as RecordedCall[]) {
        expect((await found(ledger, call)).outcome).toEqual(answered(call.callId));
      }
    });

    test('of one call id by two actors, in two runs or in two turns is of different calls', async () => {
      const bench = await newBench();
      const ledger = await bench.open();
      const calls = [
        bench.call({ callId: 'call_0' }),
        bench.call({ callId: 'call_0', actor: 'actor-2' }),
        bench.call({ callId: 'call_0', run: 'run-1' }),
        bench.call({ callId: 'call_0', turn: 'run-1' }),
      ];
      for (const call of calls) {
        await ledger.settle(await claimed(ledger, call), bench.ended(answered(call.id)));
      }
      for (const call of calls) expect((await found(ledger, call)).outcome).toEqual(answered(call.id));
      expect(ids(await ledger.list({ actor: 'actor-2', callId: 'call_0', limit: 10 }))).toEqual(
        ids([calls[1]]),
      );
    });
  });

  describe('a start', () => {
    test('makes a received call started', async () => {
      const bench = await newBench();
      const ledger = await bench.open();
      const call = bench.call();
      expect(await ledger.start(await claimed(ledger, call, 'received'))).toBe(true);
      expect(await found(ledger, call)).toMatchObject({ status: 'started', attempt: 1 });
    });

    test('changes nothing for a call that has come to its end, or has started already', async () => {
      const bench = await newBench();
      const ledger = await bench.open();
      const call = bench.call();
      const claim = await claimed(ledger, call, 'received');
      await ledger.start(claim);
      expect(await ledger.start(claim)).toBe(false);
      await ledger.settle(claim, bench.ended(outcomes.succeeded));
      expect(await ledger.start(claim)).toBe(false);
      expect(await found(ledger, call)).toMatchObject({ status: 'succeeded' });
    });

    test('of an earlier attempt is refused', async () => {
      const bench = await newBench();
      const ledger = await bench.open();
      const call = bench.call();
      const first = await claimed(ledger, call, 'received');
      await ledger.settle(first, bench.ended(outcomes.notSent, 0));
      await claimed(ledger, bench.call(call), 'received');
      expect(await ledger.start(first)).toBe(false);
      expect(await found(ledger, call)).toMatchObject({ status: 'received', attempt: 2 });
    });

    test('of a call that is not in the ledger is refused', async () => {
      const bench = await newBench();
      const ledger = await bench.open();
      expect(await ledger.start({ call: bench.call(), attempt: 1 })).toBe(false);
    });
  });
}

function testEnds(newBench: NewBench): void {
  describe('an end', () => {
    test.for(['succeeded', 'failed', 'notSent', 'unknown'] as const)('is kept as it is: %s', async (end) => {
      const bench = await newBench();
      const ledger = await bench.open();
      const call = bench.call();
      const claim = await claimed(ledger, call);
      bench.later(250);
      expect(await ledger.settle(claim, bench.ended(outcomes[end], 2))).toBe(true);
      expect(await found(ledger, call)).toEqual({
        ...call,
        status: outcomes[end].status,
        attempt: 1,
        attempts: 2,
        updatedAtMs: bench.nowMs,
        outcome: outcomes[end],
        isExpired: false,
      });
    });

    test('may come to a call that was never started', async () => {
      const bench = await newBench();
      const ledger = await bench.open();
      const call = bench.call();
      const claim = await claimed(ledger, call, 'received');
      expect(await ledger.settle(claim, bench.ended(outcomes.notSent, 0))).toBe(true);
      expect(await found(ledger, call)).toMatchObject({ status: 'not_sent', attempts: 0 });
    });

    test('is written once: a second one changes nothing', async () => {
      const bench = await newBench();
      const ledger = await bench.open();
      for (const first of ['succeeded', 'failed', 'notSent'] as const) {
        const call = bench.call();
        const claim = await claimed(ledger, call);
        await ledger.settle(claim, bench.ended(outcomes[first]));
        const record = await found(ledger, call);
        for (const second of ['succeeded', 'failed', 'notSent', 'unknown'] as const) {
          bench.later(1);
          expect(await ledger.settle(claim, bench.ended(outcomes[second]))).toBe(false);
        }
        expect(await found(ledger, call)).toEqual(record);
      }
    });

    test('that nobody knew gives way to a late answer of the same attempt, once', async () => {
      const bench = await newBench();
      const ledger = await bench.open();
      for (const late of ['succeeded', 'failed'] as const) {
        const call = bench.call();
        const claim = await claimed(ledger, call);
        await ledger.settle(claim, bench.ended(outcomes.unknown, 1));
        bench.later(5_000);
        expect(await ledger.settle(claim, bench.ended(outcomes[late], 0))).toBe(true);
        const record = await found(ledger, call);
        expect(record).toMatchObject({
          status: outcomes[late].status,
          attempts: 1,
          outcome: outcomes[late],
          updatedAtMs: bench.nowMs,
        });
        bench.later(5_000);
        expect(await ledger.settle(claim, bench.ended(answered('another')))).toBe(false);
        expect(await found(ledger, call)).toEqual(record);
      }
    });

    test('that nobody knew does not give way to another that is no answer', async () => {
      const bench = await newBench();
      const ledger = await bench.open();
      const call = bench.call();
      const claim = await claimed(ledger, call);
      await ledger.settle(claim, bench.ended(outcomes.unknown));
      expect(await ledger.settle(claim, bench.ended(outcomes.unknown))).toBe(false);
      expect(await ledger.settle(claim, bench.ended(outcomes.notSent))).toBe(false);
      expect(await found(ledger, call)).toMatchObject({ status: 'unknown', outcome: outcomes.unknown });
    });

    test('of an earlier attempt is refused, while the later one runs and after it', async () => {
      const bench = await newBench();
      const ledger = await bench.open();
      const call = bench.call({ tool: idempotentTool });
      const first = await claimed(ledger, call);
      await ledger.settle(first, bench.ended(outcomes.unknown));
      const second = await claimed(ledger, bench.call(call));
      expect(await ledger.settle(first, bench.ended(answered('first')))).toBe(false);
      await ledger.settle(second, bench.ended(outcomes.unknown));
      expect(await ledger.settle(first, bench.ended(answered('first')))).toBe(false);
      expect(await ledger.settle(second, bench.ended(answered('second')))).toBe(true);
      expect((await found(ledger, call)).outcome).toEqual(answered('second'));
    });

    test('of a call that is not in the ledger is refused', async () => {
      const bench = await newBench();
      const ledger = await bench.open();
      const call = bench.call();
      expect(await ledger.settle({ call, attempt: 1 }, bench.ended(outcomes.succeeded))).toBe(false);
      expect(await ledger.find(call.key)).toBeUndefined();
    });

    test('is written once by a hundred who try at the same time', async () => {
      const bench = await newBench();
      const ledger = await bench.open();
      const call = bench.call();
      const claim = await claimed(ledger, call);
      const texts = Array.from({ length: 100 }, (_, index) => `answer ${index}`);
      const taken = await Promise.all(texts.map((text) => ledger.settle(claim, bench.ended(answered(text)))));
      expect(taken.filter(Boolean)).toHaveLength(1);
      expect((await found(ledger, call)).outcome).toEqual(answered(texts[taken.indexOf(true)]));
    });
  });
}

function testRecords(newBench: NewBench): void {
  describe('a record without a claim', () => {
    test('is a whole record', async () => {
      const bench = await newBench();
      const ledger = await bench.open();
      const call = bench.call({ run: 'run-1', turn: 'turn-1', tool: readTool });
      bench.later(12);
      await ledger.record(call, bench.ended(outcomes.succeeded, 1));
      expect(await found(ledger, call)).toEqual({
        ...call,
        status: 'succeeded',
        attempt: 1,
        attempts: 1,
        updatedAtMs: bench.nowMs,
        outcome: outcomes.succeeded,
        isExpired: false,
      });
    });

    test('of a call that found no tool has none', async () => {
      const bench = await newBench();
      const ledger = await bench.open();
      const call = bench.call({ tool: undefined });
      await ledger.record(call, bench.ended(outcomes.rejected, 0));
      const record = await found(ledger, call);
      expect(record.tool).toBeUndefined();
      expect(record).toMatchObject({ status: 'rejected', attempts: 0 });
    });

    test('replaces what may be tried anew, under the same id', async () => {
      const bench = await newBench();
      const ledger = await bench.open();
      for (const before of ['rejected', 'notSent', 'unknown'] as const) {
        const call = bench.call({ tool: readTool });
        await ledger.record(call, bench.ended(outcomes[before], 1));
        await ledger.record(bench.call(call), bench.ended(outcomes.succeeded, 1));
        expect(await found(ledger, call)).toMatchObject({
          id: call.id,
          createdAtMs: call.createdAtMs,
          status: 'succeeded',
          outcome: outcomes.succeeded,
          attempt: 2,
          attempts: 2,
        });
      }
    });

    test('of a rejection gives way to one with other arguments', async () => {
      const bench = await newBench();
      const ledger = await bench.open();
      const call = bench.call({ tool: readTool });
      await ledger.record(call, bench.ended(outcomes.rejected, 0));
      const other = bench.call({ ...call, input: '{"id":2}' });
      await ledger.record(other, bench.ended(outcomes.succeeded, 1));
      expect(await found(ledger, call)).toMatchObject({
        id: call.id,
        fingerprint: other.fingerprint,
        status: 'succeeded',
      });
    });

    test('does not touch an answer, a call on its way, or the record of other arguments', async () => {
      const bench = await newBench();
      const ledger = await bench.open();
      const answeredCall = bench.call({ tool: readTool });
      await ledger.record(answeredCall, bench.ended(outcomes.failed, 1));
      const running = bench.call();
      await claimed(ledger, running, 'received');
      const unknownWrite = bench.call();
      await ledger.settle(await claimed(ledger, unknownWrite), bench.ended(outcomes.unknown));
      const notSent = bench.call({ tool: readTool });
      await ledger.record(notSent, bench.ended(outcomes.notSent, 0));
      for (const [call, input] of [
        [answeredCall, '{}'],
        [running, '{}'],
        [unknownWrite, '{}'],
        [notSent, '{"id":2}'],
      ] as const) {
        const record = await found(ledger, call);
        await ledger.record(bench.call({ ...call, input }), bench.ended(answered('another')));
        await ledger.record(bench.call({ ...call, input }), bench.ended(outcomes.rejected, 0));
        expect(await found(ledger, call)).toEqual(record);
      }
    });

    test('ends the call of the same id that was claimed late', async () => {
      const bench = await newBench();
      const ledger = await bench.open();
      const call = bench.call({ tool: readTool });
      await claimed(ledger, call, 'started');
      await ledger.record(call, bench.ended(outcomes.succeeded, 1));
      expect(await found(ledger, call)).toMatchObject({
        id: call.id,
        status: 'succeeded',
        attempt: 1,
        attempts: 1,
        outcome: outcomes.succeeded,
      });
    });

    test('leaves a write alone that has been claimed meanwhile under the same id', async () => {
      const bench = await newBench();
      const ledger = await bench.open();
      const call = bench.call({ tool: writeTool });
      await ledger.record(call, bench.ended(outcomes.rejected, 0));
      await claimed(ledger, call, 'started');
      // The record of a second post that was turned away before the claim, and written after it.
      await ledger.record(call, bench.ended(outcomes.rejected, 0));
      await ledger.record({ ...call, tool: readTool }, bench.ended(outcomes.succeeded, 1));
      expect(await found(ledger, call)).toMatchObject({ id: call.id, status: 'started', attempt: 2 });
      expect(await ledger.claim(bench.call(call), 'started')).toMatchObject({ kind: 'known' });
    });

    test('leaves a read alone that was claimed late with other arguments', async () => {
      const bench = await newBench();
      const ledger = await bench.open();
      const call = bench.call({ tool: readTool });
      await claimed(ledger, call, 'started');
      await ledger.record({ ...call, fingerprint: 'of-another' }, bench.ended(outcomes.succeeded, 1));
      expect(await found(ledger, call)).toMatchObject({ id: call.id, status: 'started' });
    });

    test('ends it also where nobody waited for the claim', async () => {
      const bench = await newBench();
      const ledger = await bench.open();
      const call = bench.call({ tool: readTool });
      const claiming = ledger.claim(call, 'started');
      await ledger.record(call, bench.ended(outcomes.succeeded, 1));
      expect(await claiming).toMatchObject({ kind: 'claimed' });
      expect(await found(ledger, call)).toMatchObject({ id: call.id, status: 'succeeded', attempt: 1 });
    });
  });
}

function testReading(newBench: NewBench, { isShared }: StoreTraits): void {
  describe('reading', () => {
    test('finds what this process has written and not waited for', async () => {
      const bench = await newBench();
      const ledger = await bench.open();
      const recorded = bench.call({ tool: readTool });
      const recording = ledger.record(recorded, bench.ended(outcomes.succeeded, 1));
      expect(await found(ledger, recorded)).toMatchObject({
        status: 'succeeded',
        outcome: outcomes.succeeded,
      });
      const call = bench.call();
      const claiming = ledger.claim(call, 'started');
      expect(await found(ledger, call)).toMatchObject({ status: 'started' });
      const settling = ledger.settle({ call, attempt: 1 }, bench.ended(outcomes.failed));
      expect(await found(ledger, call)).toMatchObject({ status: 'failed', outcome: outcomes.failed });
      await Promise.all([recording, claiming, settling]);
    });

    test('finds nothing where nothing is', async () => {
      const bench = await newBench();
      const ledger = await bench.open();
      const none = ledger.find(bench.call().key);
      // What no other process can write needs no look.
      if (!isShared) expect(none).toBeUndefined();
      expect(await none).toBeUndefined();
      expect(await ledger.get('actor-1', bench.call().id)).toBeUndefined();
      expect(await ledger.list({ actor: 'actor-1', limit: 10 })).toEqual([]);
    });

    test('by id is of the own records only', async () => {
      const bench = await newBench();
      const ledger = await bench.open();
      const call = bench.call({ actor: 'actor-1' });
      await ledger.settle(await claimed(ledger, call), bench.ended(outcomes.succeeded));
      expect(await ledger.get('actor-1', call.id)).toEqual(await found(ledger, call));
      expect(await ledger.get('actor-2', call.id)).toBeUndefined();
      expect(await ledger.get('', call.id)).toBeUndefined();
    });

    test('by what is no id finds nothing', async () => {
      const bench = await newBench();
      const ledger = await bench.open();
      await claimed(ledger, bench.call());
      for (const id of ['', 'x', '%', "' or 1=1 --", '\0', '\ud800', 'é'.repeat(300)]) {
        expect(await ledger.get('actor-1', id)).toBeUndefined();
      }
    });

    test('of a list gives the own records, newest first, with their outcomes', async () => {
      const bench = await newBench();
      const ledger = await bench.open();
      const own = [bench.call(), bench.call({ tool: readTool }), bench.call()] as const;
      await claimed(ledger, bench.call({ actor: 'actor-2' }));
      await ledger.settle(await claimed(ledger, own[0]), bench.ended(outcomes.failed));
      await ledger.record(own[1], bench.ended(outcomes.succeeded, 1));
      await claimed(ledger, own[2], 'received');
      const listed = await ledger.list({ actor: 'actor-1', limit: 10 });
      expect(listed).toEqual([
        await found(ledger, own[2]),
        await found(ledger, own[1]),
        await found(ledger, own[0]),
      ]);
    });

    test('of a list is narrowed by each filter, and by all of them together', async () => {
      const bench = await newBench();
      const ledger = await bench.open();
      const calls: RecordedCall[] = [];
      for (const run of ['run-1', 'Run-1', undefined]) {
        for (const turn of ['turn-1', 'turn_1', undefined]) {
          for (const callId of ['call_0', 'call%0']) {
            const call = bench.call({ run, turn, callId });
            calls.push(call);
            const claim = await claimed(ledger, call, 'received');
            if (callId === 'call_0') await ledger.settle(claim, bench.ended(outcomes.notSent, 0));
          }
        }
      }
      const list = async (filter: Partial<Parameters<Ledger['list']>[0]>) =>
        ids(await ledger.list({ actor: 'actor-1', limit: 100, ...filter }));
      const expected = (fits: (call: RecordedCall) => boolean) => ids(calls.filter(fits).reverse());
      expect(await list({})).toEqual(expected(() => true));
      expect(await list({ run: 'run-1' })).toEqual(expected(({ run }) => run === 'run-1'));
      expect(await list({ turn: 'turn_1' })).toEqual(expected(({ turn }) => turn === 'turn_1'));
      expect(await list({ callId: 'call%0' })).toEqual(expected(({ callId }) => callId === 'call%0'));
      expect(await list({ status: 'not_sent' })).toEqual(expected(({ callId }) => callId === 'call_0'));
      expect(await list({ status: 'received' })).toEqual(expected(({ callId }) => callId === 'call%0'));
      expect(await list({ status: 'unknown' })).toEqual([]);
      expect(await list({ run: 'run-2' })).toEqual([]);
      expect(await list({ run: 'run-1', turn: 'turn-1', callId: 'call_0', status: 'not_sent' })).toEqual(
        ids([calls[0]]),
      );
      expect(await list({ run: 'run-1', turn: 'turn-1', callId: 'call_0', status: 'received' })).toEqual([]);
    });

    test('of a list goes on behind any of its records, to the last one', async () => {
      const bench = await newBench();
      const ledger = await bench.open();
      const calls = Array.from({ length: 25 }, (_, index) =>
        bench.call({ run: index % 2 === 0 ? 'even' : 'odd', tool: readTool }),
      );
      await Promise.all(calls.map((call) => ledger.record(call, bench.ended(outcomes.succeeded))));
      // A record that is tried anew stays in its place.
      const again = calls[3] as RecordedCall;
      await ledger.record(bench.call(again), bench.ended(outcomes.succeeded));
      for (const run of [undefined, 'even', 'odd']) {
        const pages: string[][] = [];
        let before: string | undefined;
        do {
          const page = ids(await ledger.list({ actor: 'actor-1', run, before, limit: 7 }));
          pages.push(page);
          before = page.at(-1);
        } while (before !== undefined && pages.length < calls.length);
        expect(pages.flat()).toEqual(
          ids(calls.filter((call) => run === undefined || call.run === run).reverse()),
        );
        expect(pages.slice(0, -2).every((page) => page.length === 7)).toBe(true);
      }
    });
  });
}

function testLargeLists(newBench: NewBench): void {
  const mb = 1_048_576;

  test('a list brings some megabytes at a time, or one record that is larger, and loses none', async () => {
    const bench = await newBench();
    const ledger = await bench.open();
    const calls: RecordedCall[] = [];
    for (const size of [0.1, 1.5, 6, 1.5, 1.5, 1.5, 0.1, 0.1, 5]) {
      const call = bench.call({ tool: readTool });
      calls.push(call);
      await ledger.record(call, bench.ended(answered('x'.repeat(size * mb))));
    }
    await claimed(ledger, bench.call({ actor: 'actor-1' }));
    const lists: CallRecord[][] = [];
    let before: string | undefined;
    for (;;) {
      const list = await ledger.list({ actor: 'actor-1', status: 'succeeded', before, limit: 25 });
      lists.push([...list]);
      before = list.resumeBefore;
      if (before === undefined) break;
    }
    expect(ids(lists.flat())).toEqual(ids(calls.reverse()));
    // The newest alone, then both small ones with two of the others, and so on.
    expect(lists.map((list) => list.length)).toEqual([1, 4, 1, 1, 2]);
    // As many as are asked for need no word on how to go on.
    const two = await ledger.list({ actor: 'actor-1', before: calls[0]?.id, limit: 2 });
    expect([two.length, two.resumeBefore]).toEqual([2, undefined]);
  });
}

function testTexts(newBench: NewBench): void {
  const strange = 'a\0b \ud800 \udfff \u{1f600} \u2028 é ß \\u0000 \' " %';

  describe('what is kept', () => {
    test('is kept to the last character, whatever the characters are', async () => {
      const bench = await newBench();
      const ledger = await bench.open();
      const result = JSON.parse(
        `{"content":[{"type":"text","text":${JSON.stringify(strange)},"__proto__":{"a":"\\ud83d\\ude00"}},
          {"type":"x\\u0000","constructor":{"prototype":null},"":"","toString":1e300,"b":[-0.1,1e-7,true,null,[]]}],
         "structuredContent":{"__proto__":{"x":1},"\\u0000":"\\u0000","\\ud800":1,"10":1,"9":2},"isError":false}`,
      );
      const outcome: Outcome = { status: 'succeeded', result, warnings: [strange, ''] };
      const call = bench.call({
        actor: JSON.stringify(['https://idp.test/', 'user', strange, null]),
        callId: strange,
        run: strange,
        turn: strange,
        name: strange,
        tool: { ...readTool, name: strange },
      });
      const claim = await claimed(ledger, call);
      expect(claim).toEqual({ call, attempt: 1 });
      await ledger.settle(claim, bench.ended(outcome));
      const check = async (from: Ledger): Promise<void> => {
        const record = await found(from, call);
        expect({ ...record }).toMatchObject({ ...call });
        expect(JSON.stringify(record.outcome)).toBe(JSON.stringify(outcome));
        const { actor } = call;
        const filter = { actor, callId: strange, run: strange, turn: strange, limit: 10 };
        expect(ids(await from.list(filter))).toEqual([call.id]);
        expect(await from.list({ ...filter, callId: strange.replace('\ud800', '\ufffd') })).toEqual([]);
        expect(await from.list({ ...filter, callId: strange.replace('\0', '') })).toEqual([]);
      };
      await check(ledger);
      await bench.close(ledger);
      await check(await bench.open());
    });

    test('keeps apart texts that differ only in what encodings lose', async () => {
      const bench = await newBench();
      const ledger = await bench.open();
      const names = ['\ud800', '\ud801', '\ufffd', 'x\0', 'x', 'x\0y', '', 'é', 'e\u0301', 'X'];
      for (const callId of names) await claimed(ledger, bench.call({ callId }));
      for (const callId of names) {
        expect((await ledger.list({ actor: 'actor-1', callId, limit: 10 })).map((one) => one.callId)).toEqual(
          [callId],
        );
      }
    });

    test('can be an outcome of 16 MB', async () => {
      const bench = await newBench();
      const ledger = await bench.open();
      const call = bench.call();
      const outcome = answered(randomBytes(12_582_912).toString('base64'));
      await ledger.settle(await claimed(ledger, call), bench.ended(outcome));
      const { outcome: kept } = await found(ledger, call);
      expect(kept !== undefined && JSON.stringify(kept) === JSON.stringify(outcome)).toBe(true);
    });

    test('says of every error what it says', async () => {
      const bench = await newBench();
      const ledger = await bench.open();
      for (const outcome of Object.values(outcomes)) {
        const call = bench.call({ tool: readTool });
        await ledger.record(call, bench.ended(outcome, 0));
        expect(JSON.stringify((await found(ledger, call)).outcome)).toBe(JSON.stringify(outcome));
      }
    });
  });
}

const interrupted = {
  received: {
    status: 'not_sent',
    outcome: { error: { code: 'interrupted', mayHaveExecuted: false, retryable: true } },
  },
  started: {
    status: 'unknown',
    outcome: { error: { code: 'interrupted', mayHaveExecuted: true, retryable: false } },
  },
} as const;

/** What interruption makes of a call; the requests that it sent are nowhere written down. */
async function expectInterrupted(
  ledger: Ledger,
  call: RecordedCall,
  before: keyof typeof interrupted,
): Promise<CallRecord> {
  const record = await found(ledger, call);
  expect(record).toMatchObject({ ...interrupted[before], id: call.id, isExpired: false });
  expect(record.outcome?.status).toBe(record.status);
  expect(record.outcome?.error?.message).not.toBe('');
  return record;
}

function testProcesses(newBench: NewBench): void {
  describe('a process', () => {
    test('that was killed leaves what it had not started as not sent, and what it had as unknown', async () => {
      const bench = await newBench();
      const killed = await bench.open();
      const received = bench.call();
      const started = bench.call();
      const later = bench.call();
      const ended = bench.call();
      const read = bench.call({ tool: readTool });
      await claimed(killed, received, 'received');
      await claimed(killed, started, 'started');
      await killed.start(await claimed(killed, later, 'received'));
      await killed.settle(await claimed(killed, ended), bench.ended(outcomes.succeeded));
      await killed.record(read, bench.ended(outcomes.failed, 1));
      const kept = [await found(killed, ended), await found(killed, read)];
      await bench.crash(killed);
      bench.later(minuteMs);
      const next = await bench.open();
      await bench.maintain(next);
      await expectInterrupted(next, received, 'received');
      await expectInterrupted(next, started, 'started');
      await expectInterrupted(next, later, 'started');
      expect([await found(next, ended), await found(next, read)]).toEqual(kept);
    });

    test('that comes after a killed one may try anew what was not sent, and not what may have been', async () => {
      const bench = await newBench();
      const killed = await bench.open();
      const received = bench.call();
      const started = bench.call();
      const repeatable = bench.call({ tool: idempotentTool });
      await claimed(killed, received, 'received');
      await claimed(killed, started, 'started');
      await claimed(killed, repeatable, 'started');
      await bench.crash(killed);
      const next = await bench.open();
      await bench.maintain(next);
      expect(await claimed(next, bench.call(received))).toMatchObject({
        attempt: 2,
        call: { id: received.id },
      });
      expect(await next.claim(bench.call(started), 'started')).toMatchObject({
        kind: 'known',
        record: { status: 'unknown' },
      });
      expect(await claimed(next, bench.call(repeatable))).toMatchObject({ attempt: 2 });
    });

    test('that was killed takes none of what it had promised with it', async () => {
      const bench = await newBench();
      const killed = await bench.open();
      const calls = Array.from({ length: 200 }, () => bench.call());
      const settling = calls.map(async (call) => {
        const claim = await claimed(killed, call);
        return killed.settle(claim, bench.ended(answered(call.callId)));
      });
      await Promise.all(settling);
      await bench.crash(killed);
      const next = await bench.open();
      for (const call of calls) expect((await found(next, call)).outcome).toEqual(answered(call.callId));
    });

    test('writes what still waits before it closes', async () => {
      const bench = await newBench();
      const first = await bench.open();
      const calls = Array.from({ length: 100 }, () => bench.call({ tool: readTool }));
      const recording = calls.map((call) => first.record(call, bench.ended(answered(call.callId))));
      await bench.close(first);
      await Promise.all(recording);
      const next = await bench.open();
      for (const call of calls) {
        expect(await found(next, call)).toMatchObject({
          status: 'succeeded',
          outcome: answered(call.callId),
        });
      }
      expect(await next.list({ actor: 'actor-1', limit: 200 })).toHaveLength(100);
    });

    test('that comes next finds ids, counts and times as they were', async () => {
      const bench = await newBench();
      const first = await bench.open();
      const call = bench.call({ tool: idempotentTool });
      await first.settle(await claimed(first, call), bench.ended(outcomes.unknown, 2));
      const record = await found(first, call);
      await bench.close(first);
      const next = await bench.open();
      expect(await found(next, call)).toEqual(record);
      expect(await claimed(next, bench.call(call))).toMatchObject({
        attempt: 2,
        call: { id: call.id, createdAtMs: call.createdAtMs },
      });
    });

    test('gives up what it holds when it closes', async () => {
      const bench = await newBench();
      const first = await bench.open();
      const received = bench.call();
      const started = bench.call();
      await claimed(first, received, 'received');
      await claimed(first, started, 'started');
      await bench.close(first);
      const next = await bench.open();
      await bench.maintain(next);
      await expectInterrupted(next, received, 'received');
      await expectInterrupted(next, started, 'started');
    });

    test('that has closed its ledger gets nothing more from it, and is told so', async () => {
      const bench = await newBench();
      const ledger = await bench.open();
      const call = bench.call();
      const claim = await claimed(ledger, call);
      await bench.close(ledger);
      await expect(ledger.claim(bench.call(), 'started')).rejects.toBeInstanceOf(LedgerUnavailable);
      await expect(ledger.settle(claim, bench.ended(outcomes.succeeded))).rejects.toBeInstanceOf(
        LedgerUnavailable,
      );
      await expect(ledger.record(bench.call(), bench.ended(outcomes.rejected))).rejects.toBeInstanceOf(
        LedgerUnavailable,
      );
      await expect(ledger.get(call.actor, call.id)).rejects.toBeInstanceOf(LedgerUnavailable);
      await expect(ledger.list({ actor: call.actor, limit: 1 })).rejects.toBeInstanceOf(LedgerUnavailable);
    });

    test('ends the calls that it has lost, and no others', async () => {
      const bench = await newBench();
      const ledger = await bench.open();
      const lost = { received: bench.call(), started: bench.call(), ended: bench.call() };
      const held = { received: bench.call(), started: bench.call() };
      await claimed(ledger, lost.received, 'received');
      await claimed(ledger, lost.started, 'started');
      await ledger.settle(await claimed(ledger, lost.ended), bench.ended(outcomes.succeeded));
      await claimed(ledger, held.received, 'received');
      await claimed(ledger, held.started, 'started');
      const kept = [
        await found(ledger, lost.ended),
        await found(ledger, held.received),
        await found(ledger, held.started),
      ];
      for (const { id } of Object.values(lost)) bench.lost.add(id);
      bench.later(30 * 24 * hourMs);
      // Retention takes the one that had ended; what is on its way has no age.
      await bench.maintain(ledger);
      await expectInterrupted(ledger, lost.received, 'received');
      await expectInterrupted(ledger, lost.started, 'started');
      expect(await found(ledger, held.received)).toEqual(kept[1]);
      expect(await found(ledger, held.started)).toEqual(kept[2]);
    });

    test('that has lost a call can settle its own attempt, and nothing else', async () => {
      const bench = await newBench();
      const ledger = await bench.open();
      const received = bench.call();
      const started = bench.call();
      const first = await claimed(ledger, received, 'received');
      const second = await claimed(ledger, started, 'started');
      bench.lost.add(received.id).add(started.id);
      bench.later(minuteMs);
      await bench.maintain(ledger);
      expect(await ledger.start(first)).toBe(false);
      expect(await ledger.settle(first, bench.ended(outcomes.succeeded))).toBe(false);
      expect(await ledger.settle(second, bench.ended(outcomes.succeeded))).toBe(true);
      expect(await found(ledger, received)).toMatchObject({ status: 'not_sent' });
      expect(await found(ledger, started)).toMatchObject({
        status: 'succeeded',
        outcome: outcomes.succeeded,
      });
    });

    test('is told of the wish to cancel a call that it runs', async () => {
      const bench = await newBench();
      const ledger = await bench.open();
      const call = bench.call();
      await claimed(ledger, call);
      await ledger.requestCancel(await found(ledger, call));
      await until(() => bench.cancelRequests.includes(call.id));
      expect(await found(ledger, call)).toMatchObject({ status: 'started' });
    });

    test('says nothing of a fault while there is none', async () => {
      const bench = await newBench();
      const ledger = await bench.open();
      await claimed(ledger, bench.call());
      expect(ledger.fault()).toBeUndefined();
    });
  });
}

function testRetention(newBench: NewBench): void {
  const settled = async (bench: Workbench, ledger: Ledger, outcome: Outcome, call = bench.call()) => {
    await ledger.settle(await claimed(ledger, call), bench.ended(outcome));
    return found(ledger, call);
  };

  describe('retention', () => {
    test('drops the result of a write after its time, and keeps that the call was', async () => {
      const bench = await newBench();
      const ledger = await bench.open();
      for (const end of ['succeeded', 'failed', 'unknown'] as const) {
        const record = await settled(bench, ledger, outcomes[end]);
        const call: RecordedCall = record;
        bench.later(24 * hourMs - minuteMs);
        await bench.maintain(ledger);
        expect(await found(ledger, call)).toEqual(record);
        bench.later(2 * minuteMs);
        await bench.maintain(ledger);
        const tombstone = { ...record, outcome: undefined, isExpired: true };
        expect(await found(ledger, call)).toEqual(tombstone);
        expect(await ledger.get(call.actor, call.id)).toEqual(tombstone);
      }
    });

    test('drops the results of reads sooner, and rejected calls as a whole', async () => {
      const bench = await newBench();
      const ledger = await bench.open();
      const read = bench.call({ tool: readTool });
      const rejectedWrite = bench.call();
      const noTool = bench.call({ tool: undefined });
      await ledger.record(read, bench.ended(outcomes.succeeded, 1));
      await ledger.record(rejectedWrite, bench.ended(outcomes.rejected, 0));
      await ledger.record(noTool, bench.ended(outcomes.rejected, 0));
      const kept = await settled(bench, ledger, outcomes.succeeded);
      bench.later(14 * minuteMs);
      await bench.maintain(ledger);
      for (const call of [read, rejectedWrite, noTool]) {
        expect(await found(ledger, call)).toMatchObject({ isExpired: false, outcome: expect.anything() });
      }
      bench.later(2 * minuteMs);
      await bench.maintain(ledger);
      expect(await found(ledger, read)).toMatchObject({ isExpired: true, outcome: undefined });
      for (const call of [rejectedWrite, noTool]) expect(await ledger.find(call.key)).toBeUndefined();
      expect(await found(ledger, kept)).toEqual(kept);
    });

    test('counts from the late answer where there was one', async () => {
      const bench = await newBench();
      const ledger = await bench.open();
      const call = bench.call();
      const claim = await claimed(ledger, call);
      await ledger.settle(claim, bench.ended(outcomes.unknown));
      bench.later(23 * hourMs);
      await ledger.settle(claim, bench.ended(outcomes.succeeded, 0));
      bench.later(2 * hourMs);
      await bench.maintain(ledger);
      expect(await found(ledger, call)).toMatchObject({ outcome: outcomes.succeeded, isExpired: false });
    });

    test('leaves nothing after the second time, and the key is free', async () => {
      const bench = await newBench();
      const ledger = await bench.open();
      const write = await settled(bench, ledger, outcomes.succeeded);
      const read = bench.call({ tool: readTool });
      await ledger.record(read, bench.ended(outcomes.succeeded, 1));
      bench.later(7 * 24 * hourMs - minuteMs);
      await bench.maintain(ledger);
      expect(await found(ledger, write)).toMatchObject({ isExpired: true });
      expect(await found(ledger, read)).toMatchObject({ isExpired: true });
      bench.later(2 * minuteMs);
      await bench.maintain(ledger);
      for (const call of [write, read]) {
        expect(await ledger.find(call.key)).toBeUndefined();
        expect(await ledger.get(call.actor, call.id)).toBeUndefined();
      }
      expect(await ledger.list({ actor: write.actor, limit: 10 })).toEqual([]);
      const again = bench.call(write);
      expect(await ledger.claim(again, 'started')).toEqual({
        kind: 'claimed',
        claim: { call: again, attempt: 1 },
      });
    });

    test('leaves nothing of a call that was not sent, which may be tried anew in any case', async () => {
      const bench = await newBench();
      const ledger = await bench.open();
      const notSent = await settled(bench, ledger, outcomes.notSent);
      bench.later(24 * hourMs - minuteMs);
      await bench.maintain(ledger);
      expect(await found(ledger, notSent)).toEqual(notSent);
      bench.later(2 * minuteMs);
      await bench.maintain(ledger);
      expect(await ledger.find(notSent.key)).toBeUndefined();
      const other = bench.call({ ...notSent, input: '{"id":2}' });
      expect(await claimed(ledger, other)).toEqual({ call: other, attempt: 1 });
    });

    test('lets nothing that may have run be tried anew, nor be settled late', async () => {
      const bench = await newBench();
      const ledger = await bench.open();
      const done = await settled(bench, ledger, outcomes.succeeded);
      const unknown = bench.call({ tool: idempotentTool });
      const claim = await claimed(ledger, unknown);
      await ledger.settle(claim, bench.ended(outcomes.unknown));
      bench.later(25 * hourMs);
      await bench.maintain(ledger);
      const tombstones = [await found(ledger, done), await found(ledger, unknown)];
      expect(await ledger.settle(claim, bench.ended(outcomes.succeeded))).toBe(false);
      for (const [index, call] of [done, unknown].entries()) {
        expect(await ledger.claim(bench.call(call), 'started')).toEqual({
          kind: 'known',
          record: tombstones[index],
        });
        await ledger.record(bench.call(call), bench.ended(outcomes.succeeded));
        expect(await found(ledger, call)).toEqual(tombstones[index]);
      }
    });

    test('goes on in the next process', async () => {
      const bench = await newBench();
      const first = await bench.open();
      const record = await settled(bench, first, outcomes.succeeded);
      await bench.close(first);
      bench.later(25 * hourMs);
      const next = await bench.open();
      await bench.maintain(next);
      expect(await found(next, record)).toEqual({ ...record, outcome: undefined, isExpired: true });
    });
  });
}

function testBounds(newBench: NewBench): void {
  const big = (): Outcome => answered(randomBytes(22_500).toString('base64'));
  const reads = async (bench: Workbench, ledger: Ledger, count: number, actor = 'actor-1') => {
    const calls = Array.from({ length: count }, () => bench.call({ actor, tool: readTool }));
    for (const call of calls) await ledger.record(call, bench.ended(big()));
    return calls;
  };
  const writes = async (bench: Workbench, ledger: Ledger, count: number, actor = 'actor-1') => {
    const calls = Array.from({ length: count }, () => bench.call({ actor }));
    for (const call of calls) await ledger.settle(await claimed(ledger, call), bench.ended(big()));
    return calls;
  };
  /** Which of the calls still have their result, by their place. */
  const withResult = async (ledger: Ledger, calls: readonly RecordedCall[]): Promise<number[]> => {
    const left: number[] = [];
    for (const [index, { key }] of calls.entries()) {
      if ((await ledger.find(key))?.outcome !== undefined) left.push(index);
    }
    return left;
  };

  describe('a bound', () => {
    test('on bytes drops results of reads, the oldest first', async () => {
      const bench = await newBench();
      const ledger = await bench.open({ bytesMax: 140_000 });
      const written = await writes(bench, ledger, 3);
      const read = await reads(bench, ledger, 4);
      await bench.maintain(ledger);
      expect(await withResult(ledger, written)).toEqual([0, 1, 2]);
      const left = await withResult(ledger, read);
      expect(left.length).toBeLessThanOrEqual(1);
      expect([[], [3]]).toContainEqual(left);
    });

    test('on bytes drops results of writes when there are none of reads, and keeps that the calls were', async () => {
      const bench = await newBench();
      const ledger = await bench.open({ bytesMax: 140_000 });
      const read = await reads(bench, ledger, 1);
      const written = await writes(bench, ledger, 6);
      await bench.maintain(ledger);
      expect(await withResult(ledger, read)).toEqual([]);
      const left = await withResult(ledger, written);
      expect([
        [3, 4, 5],
        [2, 3, 4, 5],
      ]).toContainEqual(left);
      expect(await found(ledger, written[0] as RecordedCall)).toMatchObject({
        status: 'succeeded',
        isExpired: true,
        attempts: 1,
      });
      expect(await ledger.claim(bench.call(written[0]), 'started')).toMatchObject({ kind: 'known' });
    });

    test('on bytes counts what calls without a result say of themselves', async () => {
      const bench = await newBench();
      const ledger = await bench.open({ bytesMax: 140_000 });
      const long = '\0'.repeat(250);
      const rejected = Array.from({ length: 40 }, (_, index) =>
        bench.call({ callId: `${long}${index}`, run: long, turn: long, name: long, tool: undefined }),
      );
      for (const call of rejected) await ledger.record(call, bench.ended(outcomes.rejected, 0));
      await bench.maintain(ledger);
      const left = ids(await ledger.list({ actor: 'actor-1', limit: 100 }));
      // Each takes more than 6000 bytes.
      expect(left.length).toBeLessThan(24);
      expect(left.length).toBeGreaterThan(15);
      expect(left).toEqual(ids(rejected.reverse().slice(0, left.length)));
    });

    test('on the bytes of one actor does not touch the results of another', async () => {
      const bench = await newBench();
      const ledger = await bench.open({ actorBytesMax: 140_000 });
      const others = await writes(bench, ledger, 4, 'actor-2');
      const own = await writes(bench, ledger, 8);
      await bench.maintain(ledger);
      expect(await withResult(ledger, others)).toEqual([0, 1, 2, 3]);
      expect([
        [5, 6, 7],
        [4, 5, 6, 7],
      ]).toContainEqual(await withResult(ledger, own));
    });

    test('never drops what is within it', async () => {
      const bench = await newBench();
      const ledger = await bench.open({ bytesMax: 1_000_000, actorBytesMax: 400_000 });
      const own = await writes(bench, ledger, 5);
      const read = await reads(bench, ledger, 5);
      const others = await reads(bench, ledger, 10, 'actor-2');
      await bench.maintain(ledger);
      expect(await withResult(ledger, own)).toHaveLength(5);
      expect(await withResult(ledger, read)).toHaveLength(5);
      expect(await withResult(ledger, others)).toHaveLength(10);
    });

    test('on the records of one actor removes those of reads, the oldest first', async () => {
      const bench = await newBench();
      const ledger = await bench.open({ actorRecordsMax: 6 });
      const others = await reads(bench, ledger, 6, 'actor-2');
      const written = await writes(bench, ledger, 4);
      const read = await reads(bench, ledger, 5);
      await bench.maintain(ledger);
      expect(await withResult(ledger, written)).toHaveLength(4);
      expect(await withResult(ledger, others)).toHaveLength(6);
      const left = await withResult(ledger, read);
      expect([[4], [3, 4]]).toContainEqual(left);
      expect(await ledger.find((read[0] as RecordedCall).key)).toBeUndefined();
      expect(await ledger.claim(bench.call(), 'started')).toMatchObject({ kind: 'claimed' });
    });

    test('on the records of one actor refuses new calls where all are of writes', async () => {
      const bench = await newBench();
      const ledger = await bench.open({ actorRecordsMax: 6 });
      const written = await writes(bench, ledger, 6);
      await bench.maintain(ledger);
      const refused = bench.call();
      const result = await ledger.claim(refused, 'started');
      expect(result).toEqual({ kind: 'quota_exceeded', retryAfterMs: expect.any(Number) });
      expect(result.kind === 'quota_exceeded' && result.retryAfterMs > 0).toBe(true);
      expect(await ledger.find(refused.key)).toBeUndefined();
      // It is one actor's, and leaves what is recorded already alone.
      expect(await withResult(ledger, written)).toHaveLength(6);
      expect(await ledger.claim(bench.call(written[0]), 'started')).toMatchObject({ kind: 'known' });
      expect(await ledger.claim(bench.call({ actor: 'actor-2' }), 'started')).toMatchObject({
        kind: 'claimed',
      });
    });

    test('on the records of one actor does not keep a call from being tried anew', async () => {
      const bench = await newBench();
      const ledger = await bench.open({ actorRecordsMax: 6 });
      const notSent = bench.call();
      await ledger.settle(await claimed(ledger, notSent), bench.ended(outcomes.notSent, 0));
      await writes(bench, ledger, 5);
      await bench.maintain(ledger);
      expect(await ledger.claim(bench.call(notSent), 'started')).toMatchObject({ kind: 'claimed' });
    });

    test('on the records of one actor is lifted when their time is over', async () => {
      const bench = await newBench();
      const ledger = await bench.open({ actorRecordsMax: 3 });
      await writes(bench, ledger, 3);
      await bench.maintain(ledger);
      expect(await ledger.claim(bench.call(), 'started')).toMatchObject({ kind: 'quota_exceeded' });
      bench.later(8 * 24 * hourMs);
      await bench.maintain(ledger);
      expect(await ledger.claim(bench.call(), 'started')).toMatchObject({ kind: 'claimed' });
    });
  });
}

/** The list of one server, read at this time. */
export const toolList = (readAtMs: number, facts: Partial<StoredToolList> = {}): StoredToolList => ({
  alias: 'shop',
  source: 'digest of the settings',
  tools: [{ name: `find_${readAtMs}`, inputSchema: { type: 'object' } }],
  refused: [],
  readAtMs,
  ...facts,
});

const byAlias = async (ledger: ToolListStore): Promise<ReadonlyMap<string, StoredToolList>> =>
  new Map((await ledger.loadToolLists()).map((list) => [list.alias, list]));

function testToolLists(newBench: NewBench): void {
  describe('the tool list of a server', () => {
    test('is there in the next process, as it was saved', async () => {
      const bench = await newBench();
      const killed = await bench.open();
      expect(await killed.loadToolLists()).toEqual([]);
      const strange = 'a\0b \ud800 \u{1f600} \u2028 " %';
      const schema = `{"type":"object","properties":{"__proto__":{"const":1e300},"":{"enum":["\\u0000",-0.1]}}}`;
      const lists = [
        toolList(bench.nowMs, {
          tools: [
            {
              name: strange,
              title: strange,
              description: strange,
              inputSchema: JSON.parse(schema),
              outputSchema: JSON.parse(schema),
              annotations: { readOnlyHint: true },
            },
            { name: 'plain', inputSchema: {} },
          ],
          refused: [{ tool: strange, reason: strange }],
        }),
        toolList(bench.nowMs, { alias: 'empty', tools: [] }),
      ];
      await Promise.all(lists.map((list) => killed.saveToolList(list)));
      await bench.crash(killed);
      const loaded = await byAlias(await bench.open());
      expect([...loaded.keys()].sort()).toEqual(['empty', 'shop']);
      for (const list of lists) {
        const found = loaded.get(list.alias);
        expect(found).toEqual(list);
        expect(JSON.stringify(found?.tools)).toBe(JSON.stringify(list.tools));
      }
    });

    test('gives way to a newer one of the same settings, and to any of other settings', async () => {
      const bench = await newBench();
      const ledger = await bench.open();
      const steps: readonly (readonly [StoredToolList, isKept: boolean])[] = [
        [toolList(2_000), true],
        [toolList(1_000), false],
        [toolList(2_000, { tools: [] }), true],
        [toolList(3_000), true],
        [toolList(1_500, { source: 'other settings' }), true],
        [toolList(1_499, { source: 'other settings', tools: [] }), false],
      ];
      let kept: StoredToolList | undefined;
      for (const [list, isKept] of steps) {
        await ledger.saveToolList(list);
        if (isKept) kept = list;
        expect(await ledger.loadToolLists()).toEqual([kept]);
      }
    });

    test('is one of a hundred that are saved at once, each of them by its last', async () => {
      const bench = await newBench();
      const ledger = await bench.open();
      const aliases = Array.from({ length: 100 }, (_, index) => `server-${index}`);
      const lists = [1, 2, 3].flatMap((readAtMs) => aliases.map((alias) => toolList(readAtMs, { alias })));
      await Promise.all(lists.map((list) => ledger.saveToolList(list)));
      expect(await byAlias(ledger)).toEqual(new Map(lists.slice(200).map((list) => [list.alias, list])));
    });

    test('is no record: it counts for no actor, and nothing that records go by touches it', async () => {
      const bench = await newBench();
      const bounds = { bytesMax: 1_000, actorBytesMax: 1_000, actorRecordsMax: 1 };
      const ledger = await bench.open(bounds);
      const tools = [{ name: 'find', description: 'x'.repeat(100_000), inputSchema: {} }];
      const list = toolList(bench.nowMs, { tools });
      await ledger.saveToolList(list);
      const call = bench.call();
      await ledger.settle(await claimed(ledger, call), bench.ended(outcomes.succeeded));
      await bench.maintain(ledger);
      expect((await found(ledger, call)).outcome).toEqual(outcomes.succeeded);
      bench.later(30 * 24 * hourMs);
      await bench.maintain(ledger);
      expect(await ledger.find(call.key)).toBeUndefined();
      expect(await ledger.loadToolLists()).toEqual([list]);
    });

    test('is refused by a ledger that is closed', async () => {
      const bench = await newBench();
      const ledger = await bench.open();
      await bench.close(ledger);
      await expect(ledger.saveToolList(toolList(1))).rejects.toBeInstanceOf(LedgerUnavailable);
      await expect(ledger.loadToolLists()).rejects.toBeInstanceOf(LedgerUnavailable);
    });
  });
}

function testLargeToolLists(newBench: NewBench): void {
  const ofBytes = (bytes: number, readAtMs: number): StoredToolList => {
    const tools = Array.from({ length: 16 }, (_, index) => ({
      name: `tool_${index}`,
      description: randomBytes(bytes / 32).toString('hex'),
      inputSchema: { type: 'object' },
    }));
    return toolList(readAtMs, { tools });
  };

  test('a tool list of almost 8 MiB is kept, and one that is larger is refused and changes nothing', async () => {
    const bench = await newBench();
    const ledger = await bench.open();
    const large = ofBytes(8_350_000, 1);
    await ledger.saveToolList(large);
    const tooLarge = ledger.saveToolList(ofBytes(8_400_000, 2));
    await expect(tooLarge).rejects.toBeInstanceOf(ToolListTooLarge);
    await expect(tooLarge).rejects.toThrow(/^the tool list of shop is larger than 8388608 bytes/);
    expect(JSON.stringify(await ledger.loadToolLists())).toBe(JSON.stringify([large]));
    expect(ledger.fault()).toBeUndefined();
  });
}

function testReplicas(newBench: NewBench): void {
  describe('two processes side by side', () => {
    test('keep one tool list for a server: the newest, whoever has read it', async () => {
      const bench = await newBench();
      const [a, b] = [await bench.open(), await bench.open()];
      await Promise.all([a.saveToolList(toolList(2)), b.saveToolList(toolList(1))]);
      for (const ledger of [a, b]) expect(await ledger.loadToolLists()).toEqual([toolList(2)]);
      await b.saveToolList(toolList(3));
      expect(await a.loadToolLists()).toEqual([toolList(3)]);
    });

    test('see what the other has written', async () => {
      const bench = await newBench();
      const [a, b] = [await bench.open(), await bench.open()];
      const call = bench.call();
      const claim = await claimed(a, call);
      expect(await found(b, call)).toMatchObject({ id: call.id, status: 'started' });
      await a.settle(claim, bench.ended(outcomes.succeeded));
      const record = await found(a, call);
      expect(await found(b, call)).toEqual(record);
      expect(await b.get(call.actor, call.id)).toEqual(record);
      expect(await b.list({ actor: call.actor, limit: 10 })).toEqual([record]);
    });

    test('never both get the same call', async () => {
      const bench = await newBench();
      const ledgers = [await bench.open(), await bench.open()];
      const calls = Array.from({ length: 200 }, () => bench.call());
      const results = await Promise.all(
        calls.map((call) => Promise.all(ledgers.map((ledger) => ledger.claim(bench.call(call), 'started')))),
      );
      for (const pair of results) expect(pair.map(({ kind }) => kind).sort()).toEqual(['claimed', 'known']);
    });

    test('leave each other the calls they run', async () => {
      const bench = await newBench();
      const a = await bench.open();
      const b = await bench.open({}, { isHeld: () => false });
      const call = bench.call({ tool: idempotentTool });
      const claim = await claimed(a, call);
      bench.later(24 * hourMs);
      await bench.maintain(b);
      expect(await b.claim(bench.call(call), 'started')).toMatchObject({
        kind: 'known',
        record: { status: 'started' },
      });
      expect(await a.settle(claim, bench.ended(outcomes.succeeded))).toBe(true);
    });

    test('end what the other leaves behind when it dies', async () => {
      const bench = await newBench();
      const [a, b] = [await bench.open(), await bench.open()];
      const received = bench.call();
      const started = bench.call();
      await claimed(a, received, 'received');
      await claimed(a, started, 'started');
      await bench.crash(a);
      await bench.maintain(b);
      await expectInterrupted(b, received, 'received');
      await expectInterrupted(b, started, 'started');
    });

    test('tell each other of the wish to cancel', async () => {
      const bench = await newBench();
      const asked: string[] = [];
      const a = await bench.open({}, { onCancelRequested: (id) => void asked.push(id) });
      const b = await bench.open();
      const call = bench.call();
      await claimed(a, call);
      await b.requestCancel(await found(b, call));
      await until(() => asked.includes(call.id));
    });

    test('may settle through the other what they claimed, under its attempt only', async () => {
      const bench = await newBench();
      const [a, b] = [await bench.open(), await bench.open()];
      const call = bench.call();
      const first = await claimed(a, call);
      await a.settle(first, bench.ended(outcomes.notSent, 0));
      const second = await claimed(b, bench.call(call));
      expect(second.attempt).toBe(2);
      expect(await a.start(first)).toBe(false);
      expect(await a.settle(first, bench.ended(outcomes.succeeded))).toBe(false);
      expect(await b.settle(second, bench.ended(outcomes.failed))).toBe(true);
      expect(await found(a, call)).toMatchObject({ status: 'failed', attempt: 2 });
    });
  });
}

const ids = (records: readonly ({ readonly id: string } | undefined)[]): string[] =>
  records.flatMap((record) => (record === undefined ? [] : [record.id]));
