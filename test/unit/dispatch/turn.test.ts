import { describe, expect, test } from 'vitest';
import { dispatchTurn, repeatedCallId } from '../../../src/dispatch/turn.ts';
import { callerOf, nameOf, Pipeline, settleDown } from './pipeline.ts';

const calls = ['call_0', 'call_1', 'call_2'].map((callId) => ({
  callId,
  name: nameOf('write'),
  arguments: '{}',
}));

test('the calls of a turn run side by side, and their outputs stand in its order', async () => {
  const pipeline = new Pipeline();
  const begun: [string, number][] = [];
  const turn = dispatchTurn(calls, 'parallel', callerOf({}), pipeline.ports, ({ call }, index) => {
    begun.push([call.callId, index]);
  });
  await pipeline.nthSent(2);
  for (const sent of pipeline.sent.toReversed()) sent.answer(sent.call.id);
  const settled = await turn.settled;
  expect(settled.map(({ call }) => call.callId)).toEqual(['call_0', 'call_1', 'call_2']);
  expect(settled.map(({ id }) => id)).toEqual(pipeline.sent.map(({ call }) => call.id));
  expect(begun).toEqual([
    ['call_0', 0],
    ['call_1', 1],
    ['call_2', 2],
  ]);
});

test('in sequence a call begins when the one before has ended', async () => {
  const pipeline = new Pipeline();
  const turn = dispatchTurn(calls, 'sequential', callerOf({}), pipeline.ports);
  for (const index of [0, 1, 2]) {
    const sent = await pipeline.nthSent(index);
    await settleDown();
    expect(pipeline.sent).toHaveLength(index + 1);
    expect(turn.begun).toHaveLength(index + 1);
    sent.answer('done');
  }
  expect(await turn.settled).toHaveLength(3);
});

test('a turn that its caller has left begins nothing more, and ends the writes that it has begun', async () => {
  const pipeline = new Pipeline();
  const turn = dispatchTurn(calls, 'sequential', callerOf({}), pipeline.ports);
  const sent = await pipeline.nthSent(0);
  turn.leave();
  expect(sent.call.signal.aborted).toBe(false);
  sent.answer('done');
  expect(await turn.settled).toHaveLength(1);
  expect(pipeline.sent).toHaveLength(1);
});

test('one call that fails touches no other (RL-7)', async () => {
  const pipeline = new Pipeline();
  const mixed = [...calls, { callId: 'call_3', name: 'pay__nothing', arguments: '{}' }];
  const turn = dispatchTurn(mixed, 'parallel', callerOf({}), pipeline.ports);
  await pipeline.nthSent(2);
  pipeline.sent[0]?.fail('connection_lost');
  pipeline.sent[1]?.answer('done');
  pipeline.sent[2]?.fail('server_busy', { sent: false });
  expect((await turn.settled).map(({ outcome }) => outcome.status)).toEqual([
    'unknown',
    'succeeded',
    'not_sent',
    'rejected',
  ]);
});

test('the first call id that stands twice is found', () => {
  expect(repeatedCallId(calls)).toBeUndefined();
  expect(repeatedCallId([...calls, ...calls.toReversed()])).toBe('call_2');
});

describe('when callgate shuts down (RL-8)', () => {
  test('between two calls of a turn in sequence it does not count as idle', async () => {
    const pipeline = new Pipeline();
    const { inFlight } = pipeline.ports;
    const turn = dispatchTurn(calls, 'sequential', callerOf({}), pipeline.ports);
    await pipeline.nthSent(0);
    let isIdle = false;
    const idle = inFlight.idle(60_000).then(() => {
      isIdle = true;
    });
    for (const index of [0, 1, 2]) {
      const sent = await pipeline.nthSent(index);
      expect(isIdle).toBe(false);
      sent.answer('done');
    }
    await idle;
    expect(await turn.settled).toHaveLength(3);
  });

  test('what has not begun when the rest is cancelled is not sent any more, and gets its output', async () => {
    const pipeline = new Pipeline();
    const turn = dispatchTurn(calls, 'sequential', callerOf({}), pipeline.ports);
    await pipeline.nthSent(0);
    pipeline.ports.inFlight.cancelAll('callgate was shut down');
    const settled = await turn.settled;
    expect(settled.map(({ outcome }) => [outcome.status, outcome.error?.code])).toEqual([
      ['unknown', 'cancelled'],
      ['not_sent', 'cancelled'],
      ['not_sent', 'cancelled'],
    ]);
    expect(pipeline.sent).toHaveLength(1);
    expect(pipeline.told('callAdmitted')).toHaveLength(1);
  });
});
