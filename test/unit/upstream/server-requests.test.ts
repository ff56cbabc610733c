import { expect, test } from 'vitest';
import { ServerRequests } from '../../../src/upstream/server-requests.ts';

const ping = (id: unknown) => ({ jsonrpc: '2.0', id, method: 'ping' });

test('so many requests are admitted as may be unanswered, and more once some are answered', () => {
  const requests = new ServerRequests(3);
  expect([1, 2, 3, 4].map((id) => requests.admit(ping(id)))).toEqual([true, true, true, false]);
  requests.answered(2);
  expect([5, 6].map((id) => requests.admit(ping(id)))).toEqual([true, false]);
});

test('an id counts once as long as it is unanswered, and an odd one never', () => {
  const requests = new ServerRequests(3);
  expect([1, 1, '1', null, {}, []].map((id) => requests.admit(ping(id)))).toEqual([
    true,
    false,
    true,
    false,
    false,
    false,
  ]);
});

test('a request that the server takes back gives its place back', () => {
  const requests = new ServerRequests(1);
  const takenBack = { method: 'notifications/cancelled', params: { requestId: 1 } };
  expect(requests.admit(ping(1))).toBe(true);
  expect(requests.admit(takenBack)).toBe(true);
  expect(requests.admit({ method: 'notifications/cancelled', params: null })).toBe(true);
  expect(requests.admit(ping(2))).toBe(true);
});

test('notifications are admitted that somebody acts on, and nothing without the name of a method', () => {
  const requests = new ServerRequests(0);
  expect(requests.admit({ method: 'notifications/tools/list_changed' })).toBe(true);
  expect(requests.admit({ method: 'notifications/progress' })).toBe(true);
  expect(requests.admit({ method: 'notifications/subscriptions/acknowledged' })).toBe(true);
  expect(requests.admit({ method: 'notifications/message' })).toBe(false);
  expect(requests.admit({ method: { toString: null } })).toBe(false);
  expect(requests.admit({})).toBe(false);
});
