import { expect, test } from 'vitest';
import { Deadline } from '../../../src/upstream/deadline.ts';

let nowMs = 1_000;
const start = (timeoutMs: number, totalMs?: number): Deadline => {
  nowMs = 1_000;
  return new Deadline(() => nowMs, timeoutMs, totalMs);
};

test('without progress the shorter of the two limits ends a call, and is named', () => {
  const usual = start(60, 600);
  expect([usual.remainingMs(), usual.limit]).toEqual([60, { ms: 60, kind: 'answer' }]);
  const short = start(600, 60);
  expect([short.remainingMs(), short.limit]).toEqual([60, { ms: 60, kind: 'total' }]);
  expect(start(60).limit).toEqual({ ms: 60, kind: 'answer' });
});

test('progress begins the time anew and never passes the whole time', () => {
  const deadline = start(60, 100);
  nowMs += 30;
  deadline.beginAnew();
  expect([deadline.remainingMs(), deadline.limit]).toEqual([60, { ms: 60, kind: 'silence' }]);
  nowMs += 30;
  deadline.beginAnew();
  expect([deadline.remainingMs(), deadline.passedMs()]).toEqual([40, 60]);
  expect(deadline.limit).toEqual({ ms: 100, kind: 'total' });
});
