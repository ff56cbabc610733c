import { describe, expect, test } from 'vitest';
import { limits } from '../../../src/core/limits.ts';
import { dispatch } from '../../../src/dispatch/dispatch.ts';
import type { SettledCall } from '../../../src/dispatch/ports.ts';
import type { CallRecord } from '../../../src/dispatch/record.ts';
import { MemoryLedger } from '../../support/memory-ledger.ts';
import { registryOf, tool } from '../../support/service.ts';
import {
  aliases,
  answer,
  callerOf,
  failure,
  type Kind,
  kinds,
  nameOf,
  Pipeline,
  type PostFacts,
  servers,
} from './pipeline.ts';

/** Ends of a first attempt, by the state that they leave. */
const ends = {
  succeeded: () => answer('one'),
  failed: () => failure('server_error'),
  notSent: () => failure('server_unavailable', { sent: false }),
  unknown: () => failure('timeout'),
} as const;

/** A pipeline in which the call has been posted once, with this end. */
async function ended(kind: Kind, end: keyof typeof ends, pipeline = new Pipeline()) {
  pipeline.behaviour = ends[end];
  const first = await pipeline.post(kind).settled;
  pipeline.behaviour = () => answer('two');
  return { pipeline, first };
}

const only = ({ ledger }: Pipeline): CallRecord => {
  expect(ledger.records.size).toBe(1);
  return [...ledger.records.values()][0] as CallRecord;
};

const text = ({ outcome }: SettledCall): unknown => outcome.result?.content[0]?.text;

describe('a repeat', () => {
  test.for(kinds.flatMap((kind) => (['succeeded', 'failed'] as const).map((end) => [kind, end] as const)))(
    'of a call (%s) that has %s gets the same answer, and nothing is sent',
    async ([kind, end]) => {
      const { pipeline, first } = await ended(kind, end);
      const again = await pipeline.post(kind).settled;
      expect(again.outcome).toEqual(first.outcome);
      expect(again).toMatchObject({
        id: first.id,
        attempts: 1,
        replayed: true,
        isRecorded: true,
        recordedAtMs: only(pipeline).updatedAtMs,
        render: first.render,
      });
      expect(first).toMatchObject({
        replayed: false,
        recordedAtMs: undefined,
        attempts: 1,
        isRecorded: true,
      });
      expect(only(pipeline).id).toBe(first.id);
      expect(pipeline.sent).toHaveLength(1);
    },
  );

  test.for(
    kinds.flatMap((kind) => Object.keys(ends).map((end) => [kind, end as keyof typeof ends] as const)),
  )(
    'with other arguments of a call (%s, %s) is refused, and nothing is told or sent',
    async ([kind, end]) => {
      const { pipeline, first } = await ended(kind, end);
      const before = only(pipeline);
      for (const [other, input] of [
        [kind, { n: 2 }],
        [kinds.find((one) => one !== kind) as Kind, {}],
      ] as const) {
        const answered = await pipeline.post(other, { input }).settled;
        expect(answered).toMatchObject({
          outcome: { status: 'rejected', error: { code: 'call_id_reused', mayHaveExecuted: false } },
          attempts: 0,
          replayed: false,
          recordedAtMs: undefined,
          render: undefined,
        });
        expect(answered.id).not.toBe(first.id);
        expect(answered.outcome.result).toBeUndefined();
      }
      expect(only(pipeline)).toEqual(before);
      expect(pipeline.sent).toHaveLength(1);
    },
  );

  test.for(kinds)('of a call (%s) that was not sent is a new attempt under the same id', async (kind) => {
    const { pipeline, first } = await ended(kind, 'notSent');
    const createdAtMs = only(pipeline).createdAtMs;
    const second = await pipeline.post(kind).settled;
    expect(second).toMatchObject({
      id: first.id,
      replayed: false,
      attempts: 1,
      outcome: { status: 'succeeded' },
    });
    expect(pipeline.sent[1]?.call.id).toBe(first.id);
    expect(only(pipeline)).toMatchObject({
      id: first.id,
      createdAtMs,
      attempt: 2,
      attempts: 1,
      status: 'succeeded',
    });
  });

  test('of a write whose end is unknown is never sent again', async () => {
    const { pipeline, first } = await ended('write', 'unknown');
    for (let time = 0; time < 3; time += 1) {
      const again = await pipeline.post('write').settled;
      expect(again).toMatchObject({ id: first.id, outcome: first.outcome, replayed: true });
    }
    expect(pipeline.sent).toHaveLength(1);
  });

  test.for(['read', 'idempotent'] as const)(
    'of a call (%s) whose end is unknown is a new attempt, which counts on',
    async (kind) => {
      const { pipeline, first } = await ended(kind, 'unknown');
      const second = await pipeline.post(kind).settled;
      expect(second).toMatchObject({
        id: first.id,
        replayed: false,
        attempts: 2,
        outcome: { status: 'succeeded' },
      });
      const third = await pipeline.post(kind).settled;
      expect(third).toMatchObject({ id: first.id, replayed: true, attempts: 2 });
      expect(only(pipeline)).toMatchObject({ attempt: 2, attempts: 2 });
      expect(text(third)).toBe('two');
    },
  );

  test.for(['read', 'idempotent'] as const)(
    'of a call (%s) whose end stays unknown is sent so often and no more',
    async (kind) => {
      const { pipeline } = await ended(kind, 'unknown');
      pipeline.behaviour = ends.unknown;
      let last: SettledCall | undefined;
      for (let post = 0; post < limits.claimsMax + 3; post += 1) last = await pipeline.post(kind).settled;
      expect(pipeline.sent).toHaveLength(limits.claimsMax);
      expect(last).toMatchObject({
        replayed: true,
        outcome: { status: 'unknown' },
        attempts: limits.claimsMax,
      });
    },
  );

  test.for(['read', 'idempotent'] as const)(
    'of a call (%s) whose end is unknown does not become harmless by an attempt that was not sent',
    async (kind) => {
      const { pipeline } = await ended(kind, 'unknown');
      pipeline.behaviour = ends.notSent;
      const second = await pipeline.post(kind).settled;
      expect(second.outcome).toMatchObject({
        status: 'unknown',
        error: { code: 'server_unavailable', mayHaveExecuted: true },
      });
      expect(only(pipeline)).toMatchObject({ status: 'unknown', attempts: 1 });
      pipeline.behaviour = () => answer('two');
      expect((await pipeline.post(kind).settled).outcome.status).toBe('succeeded');
    },
  );

  test('of a call whose end is unknown is never one that has certainly not been sent, not even while it waits', async () => {
    const { pipeline } = await ended('idempotent', 'unknown');
    pipeline.canSend = false;
    pipeline.behaviour = () => undefined;
    const second = pipeline.post('idempotent');
    expect(await second.keep()).toMatchObject({ status: 'started' });
    expect(only(pipeline)).toMatchObject({ status: 'started', attempt: 2 });
    (await pipeline.nthSent(1)).answer('two');
    expect((await second.settled).outcome.status).toBe('succeeded');
  });

  test('that is turned away leaves an unknown end as it is', async () => {
    const { pipeline, first } = await ended('idempotent', 'unknown');
    const before = only(pipeline);
    const turnedAway = await pipeline.post('idempotent', { grants: [] }).settled;
    expect(turnedAway.outcome.error?.code).toBe('forbidden');
    pipeline.registry = registryOf([]);
    expect((await pipeline.post('idempotent').settled).outcome.error?.code).toBe('unknown_tool');
    expect(only(pipeline)).toEqual(before);
    pipeline.registry = registryOf(servers);
    expect(await pipeline.post('idempotent').settled).toMatchObject({ id: first.id, attempts: 2 });
  });

  test.for(kinds)(
    'of a rejected call (%s) is looked at anew, with the same arguments and others',
    async (kind) => {
      const pipeline = new Pipeline();
      pipeline.behaviour = () => answer('one');
      const first = await pipeline.post(kind, { grants: [] }).settled;
      expect(first.outcome).toMatchObject({ status: 'rejected', error: { code: 'forbidden' } });
      const second = await pipeline.post(kind, { input: { n: 'x' } }).settled;
      expect(second.outcome).toMatchObject({ status: 'rejected', error: { code: 'invalid_arguments' } });
      const third = await pipeline.post(kind, { input: { n: 1 } }).settled;
      expect(third).toMatchObject({
        id: first.id,
        replayed: false,
        outcome: { status: 'succeeded' },
        attempts: 1,
      });
      expect(only(pipeline)).toMatchObject({ id: first.id, status: 'succeeded' });
      // Now the key has a meaning.
      expect((await pipeline.post(kind, { grants: [] }).settled).outcome.error?.code).toBe('call_id_reused');
    },
  );

  test.for(kinds)(
    'of a call (%s) whose result is no longer kept is told so, and nothing is sent',
    async (kind) => {
      for (const end of ['succeeded', 'unknown'] as const) {
        const { pipeline, first } = await ended(kind, end);
        const record = only(pipeline);
        pipeline.ledger.records.set(record.key, { ...record, outcome: undefined, isExpired: true });
        const again = await pipeline.post(kind).settled;
        expect(again).toMatchObject({
          id: first.id,
          replayed: true,
          recordedAtMs: record.updatedAtMs,
          outcome: {
            status: record.status,
            error: { code: 'call_expired', mayHaveExecuted: true, retryable: false },
          },
        });
        const other = await pipeline.post(kind, { input: { n: 2 } }).settled;
        expect(other.outcome.error?.code).toBe('call_id_reused');
        expect(pipeline.sent).toHaveLength(1);
      }
    },
  );

  test('by another actor, in another run or in another turn is another call', async () => {
    const { pipeline, first } = await ended('write', 'succeeded');
    const others: PostFacts[] = [
      { subject: 'user-2' },
      { run: 'run-1' },
      { turn: 'run-1' },
      { callId: 'call_1' },
    ];
    const settled = await Promise.all(others.map((facts) => pipeline.post('write', facts).settled));
    expect(settled.map(({ replayed }) => replayed)).toEqual([false, false, false, false]);
    expect(new Set([first.id, ...settled.map(({ id }) => id)]).size).toBe(5);
    expect(pipeline.sent).toHaveLength(5);
  });

  test('may write its arguments in another way, as long as they mean the same', async () => {
    const pipeline = new Pipeline();
    pipeline.behaviour = () => answer('one');
    await pipeline.post('write', { input: '{"n":1}' }).settled;
    expect((await pipeline.post('write', { input: ' { "n" : 1.0 } ' }).settled).replayed).toBe(true);
    expect((await pipeline.post('write', { input: '{"n":2}' }).settled).outcome.error?.code).toBe(
      'call_id_reused',
    );
  });
});

describe('a known call', () => {
  test.for(kinds)('(%s) is answered although its tool has gone or is another now', async (kind) => {
    const { pipeline, first } = await ended(kind, 'succeeded');
    const renamed = servers.map((server) => ({ ...server, tools: [tool('renamed')] }));
    const stricter = servers.map((server) => ({
      ...server,
      tools: [tool('do', { type: 'object', properties: {}, required: ['n'] })],
    }));
    for (const now of [[], renamed, stricter]) {
      pipeline.registry = registryOf(now);
      expect(await pipeline.post(kind).settled).toMatchObject({
        id: first.id,
        replayed: true,
        outcome: first.outcome,
      });
    }
  });

  test('is answered before the registry is asked', async () => {
    const { pipeline } = await ended('write', 'succeeded');
    pipeline.registry = {
      ...pipeline.registry,
      find: () => {
        throw new Error('the registry was asked');
      },
    };
    expect((await pipeline.post('write').settled).replayed).toBe(true);
  });

  test.for(kinds)('(%s) is not shown to who may not make it now (AZ-10)', async (kind) => {
    for (const end of ['succeeded', 'failed'] as const) {
      const { pipeline, first } = await ended(kind, end);
      const answered = await pipeline.post(kind, { grants: ['other'] }).settled;
      expect(answered).toMatchObject({
        outcome: {
          status: 'rejected',
          error: {
            code: 'forbidden',
            details: { missing_grant: `tools:${aliases[kind]}:do:${kind === 'read' ? 'read' : 'write'}` },
          },
        },
        attempts: 0,
        replayed: false,
        recordedAtMs: undefined,
        render: undefined,
      });
      expect(answered.outcome.result).toBeUndefined();
      expect(answered.id).not.toBe(first.id);
      expect((await pipeline.post(kind).settled).outcome).toEqual(first.outcome);
    }
  });

  test('looks like a tool that is not there where forbidden ones are hidden', async () => {
    const { pipeline } = await ended(
      'write',
      'succeeded',
      new Pipeline(new MemoryLedger(), { hideForbidden: true }),
    );
    const hidden = await pipeline.post('write', { grants: [] }).settled;
    const fresh = await pipeline.post('write', { grants: [], callId: 'call_9' }).settled;
    expect(hidden.outcome).toEqual(fresh.outcome);
    expect(hidden.outcome.error?.code).toBe('unknown_tool');
    expect({ ...hidden, id: '', call: '', durationMs: 0 }).toEqual({
      ...fresh,
      id: '',
      call: '',
      durationMs: 0,
    });
  });

  test('is judged by the class and the name that it had', async () => {
    const { pipeline, first } = await ended('write', 'succeeded');
    // The tool is classed read now, and this caller may only read.
    pipeline.registry = registryOf(
      servers.map((server) => ({ ...server, policy: { class: 'read' as const } })),
    );
    const caller = { alias: aliases.write, tool: '*', class: 'read' } as const;
    const plain = callerOf({});
    const reader = { ...plain, actor: { ...plain.actor, grants: [caller], grantsKey: 'reader' } };
    const call = { callId: 'call_0', name: nameOf('write'), arguments: '{}' };
    const { outcome } = await dispatch(call, reader, pipeline.ports).settled;
    expect(outcome.error?.code).toBe('forbidden');
    expect((await pipeline.post('write').settled).id).toBe(first.id);
  });
});

describe('the observer', () => {
  test('is told of every attempt of a write once, before it is sent, and of repeats as such', async () => {
    const pipeline = new Pipeline();
    const order: string[] = [];
    pipeline.behaviour = () => {
      order.push(`sent after ${pipeline.told('callAdmitted').length}`);
      return failure('server_busy', { sent: false });
    };
    await pipeline.post('write').settled;
    await pipeline.post('write').settled;
    pipeline.behaviour = () => {
      order.push(`sent after ${pipeline.told('callAdmitted').length}`);
      return answer('done');
    };
    await pipeline.post('write').settled;
    await pipeline.post('write').settled;
    expect(order).toEqual(['sent after 1', 'sent after 2', 'sent after 3']);
    expect(pipeline.told('callAdmitted').map(({ claim }) => claim.attempt)).toEqual([1, 2, 3]);
    expect(pipeline.told('callFinished').map(({ settled }) => settled.outcome.status)).toEqual([
      'not_sent',
      'not_sent',
      'succeeded',
    ]);
    expect(pipeline.told('callReplayed')).toHaveLength(1);
    expect(pipeline.facts.at(-1)?.[0]).toBe('callReplayed');
  });

  test('is told of no admission of a read, nor of what was turned away', async () => {
    const pipeline = new Pipeline();
    pipeline.behaviour = () => answer('done');
    await pipeline.post('read').settled;
    await pipeline.post('write', { callId: 'b', grants: [] }).settled;
    await pipeline.post('write', { callId: 'c', input: '{' }).settled;
    expect(pipeline.told('callAdmitted')).toEqual([]);
    expect(pipeline.told('callFinished')).toHaveLength(3);
  });
});
