import { expect, test } from 'vitest';
import { callBytes, callText, withOutcome } from '../../../src/ledger/row.ts';

const call = {
  id: '0198c0de-1f2a-7abc-8def-0123456789ab',
  key: 'key',
  fingerprint: 'fingerprint',
  actor: 'actor-1',
  run: undefined,
  turn: undefined,
  callId: 'é\0',
  name: 'pay__order',
  tool: undefined,
  createdAtMs: 1,
};
const facts = { ...call, status: 'succeeded', attempt: 1, attempts: 1, updatedAtMs: 2 } as const;

test('an outcome is parsed once, and stays with copies of its record', () => {
  const record = withOutcome(facts, '{"status":"succeeded"}');
  const { outcome } = record;
  expect(outcome).toEqual({ status: 'succeeded' });
  expect(record.outcome).toBe(outcome);
  expect({ ...record, status: 'failed' }).toMatchObject({ outcome: { status: 'succeeded' } });
  expect(record.isExpired).toBe(false);
});

test('an outcome that is damaged harms nobody who does not ask for it', () => {
  const record = withOutcome(facts, '{"status":');
  expect([record.status, record.isExpired]).toEqual(['succeeded', false]);
  expect(record.outcome).toMatchObject({
    status: 'unknown',
    error: { code: 'ledger_unavailable', mayHaveExecuted: true, retryable: false },
  });
});

test('a record without an outcome is expired only at its end', () => {
  expect(withOutcome(facts, null)).toMatchObject({ outcome: undefined, isExpired: true });
  expect(withOutcome({ ...facts, status: 'started' }, null)).toMatchObject({ isExpired: false });
});

test('what a call takes is counted in bytes of its text', () => {
  expect(callBytes(call)).toBe(new TextEncoder().encode(callText(call)).length);
  expect(callBytes({ ...call, callId: '\0'.repeat(256) })).toBeGreaterThan(1_500);
});
