import { expect, test } from 'vitest';
import { createActor } from '../../src/access/actor.ts';
import { type AuditTrail, createAuditTrail } from '../../src/telemetry/audit.ts';
import type { LineSink } from '../../src/telemetry/line-sink.ts';
import { createTestService, functionCall, type TestServiceOptions, tool } from '../support/service.ts';

/** An audit trail, and what it has written: lines, and which of them are not to wait. */
function trail(): { audit: AuditTrail; lines: string[]; urgent: string[] } {
  const lines: string[] = [];
  const urgent: string[] = [];
  const sink = {
    write: (line: string) => void lines.push(line),
    writeSoon: (line: string) => void urgent.push(line),
  };
  return { audit: createAuditTrail(sink as unknown as LineSink), lines, urgent };
}

const createService = (options: TestServiceOptions = {}) =>
  createTestService({ servers: [{ alias: 'docs', tools: [tool('search')] }], ...options });

const scopes = ['tools:docs:*'];
const parsed = (lines: readonly string[]) => lines.map((line) => JSON.parse(line));

test('every finished call leaves one line of JSON, a refused one and one of an unknown name too (AZ-8)', async () => {
  const { audit, lines } = trail();
  const service = createService();
  await service.post('/v1/calls', functionCall('c1', 'docs__search', { q: 'P5' }), { scopes });
  await service.post('/v1/calls', functionCall('c2', 'docs__search', {}), { scopes: ['tools:docs:other'] });
  await service.post('/v1/calls', functionCall('c3\n"x', 'nope', {}), { scopes });
  for (const finished of service.finished) audit.finished(finished);

  expect(lines).toHaveLength(3);
  for (const line of lines) expect(line).toMatch(/^[^\n]*\n$/);
  const [allowed, refused, unknown] = parsed(lines);
  expect(allowed).toMatchObject({
    level: 'info',
    event: 'call.finished',
    call_id: 'c1',
    name: 'docs__search',
    server: 'docs',
    tool: 'search',
    class: 'write',
    decision: 'allow',
    status: 'succeeded',
    arguments_sha256: expect.stringMatching(/^[0-9a-f]{64}$/),
    iss: expect.any(String),
    sub: expect.any(String),
  });
  expect(refused).toMatchObject({ call_id: 'c2', server: 'docs', decision: 'deny', code: 'forbidden' });
  expect(unknown).toMatchObject({ call_id: 'c3\n"x', decision: 'deny', code: 'unknown_tool' });
  expect(unknown).not.toHaveProperty('server');
  expect(lines.join('')).not.toContain('P5');
});

test('each attempt of a write leaves a line of its own, which does not wait (I8)', async () => {
  const { audit, lines, urgent } = trail();
  const service = createService({
    behaviours: {
      'docs:search': () => ({
        kind: 'failed',
        code: 'server_unavailable',
        message: 'gone',
        sent: false,
        mayHaveExecuted: false,
        attempts: 0,
        upstreamMs: 0,
      }),
    },
  });
  const headers = { 'Callgate-Run': 'r1', 'Callgate-Turn': 't1' };
  for (const _ of [1, 2])
    await service.post('/v1/calls', functionCall('c1', 'docs__search', { q: 'P5' }), { scopes, headers });
  for (const admitted of service.admitted) audit.admitted(admitted);

  expect(lines).toEqual([]);
  for (const line of urgent) expect(line).toMatch(/^[^\n]*\n$/);
  const [first, second] = parsed(urgent);
  expect(first).toMatchObject({
    level: 'info',
    event: 'call.admitted',
    call_id: 'c1',
    name: 'docs__search',
    run: 'r1',
    turn: 't1',
    attempt: 1,
    server: 'docs',
    tool: 'search',
    class: 'write',
    arguments_sha256: service.finished[0]?.argumentsHash,
    iss: expect.any(String),
    actor: 'user',
    sub: expect.any(String),
    client: expect.any(String),
  });
  expect(second).toMatchObject({ id: first.id, attempt: 2 });
  expect(second.request_id).not.toBe(first.request_id);
  expect(urgent.join('')).not.toContain('P5');
});

test('a repeat leaves a line with what it was answered, and with the id of the call it repeats', async () => {
  const { audit, lines } = trail();
  const service = createService();
  for (const input of [{}, {}, { other: 1 }])
    await service.post('/v1/calls', functionCall('c1', 'docs__search', input), { scopes });
  for (const replayed of service.replayed) audit.replayed(replayed);

  const [same, other] = parsed(lines);
  const id = service.finished[0]?.settled.id;
  expect(same).toMatchObject({
    event: 'call.replayed',
    id,
    call_id: 'c1',
    status: 'succeeded',
    actor: 'user',
  });
  expect(same).toHaveProperty('request_id');
  expect(other).toMatchObject({ event: 'call.replayed', status: 'rejected', code: 'call_id_reused' });
});

test('an answer that came late, and the word of an operator, leave a line', async () => {
  const { audit, lines } = trail();
  const service = createService();
  await service.post('/v1/calls', functionCall('c1', 'docs__search', {}), { scopes });
  const [admitted] = service.admitted;
  if (admitted === undefined) throw new Error('no call was admitted');
  const { id } = admitted.claim.call;
  audit.settledLate({ claim: admitted.claim, outcome: { status: 'succeeded' } });
  audit.settledByOperator({ id, status: 'failed', note: 'the payment "P5" is\nnot there', user: 'ops' });

  const [late, word] = parsed(lines);
  expect(late).toMatchObject({
    event: 'call.settled_late',
    id,
    attempt: 1,
    status: 'succeeded',
    server: 'docs',
  });
  expect(word).toEqual({
    level: 'info',
    time: expect.any(String),
    event: 'call.settled_by_operator',
    id,
    status: 'failed',
    note: 'the payment "P5" is\nnot there',
    user: 'ops',
  });
});

test('two actors with one subject are told apart', async () => {
  const { audit, lines } = trail();
  const service = createService();
  await service.post('/v1/calls', functionCall('c1', 'docs__search', {}), { scopes });
  const [finished] = service.finished;
  if (finished === undefined) throw new Error('no call finished');
  const client = createActor({ ...finished.caller.actor, kind: 'client', client: 'other' });
  audit.finished(finished);
  audit.finished({ ...finished, caller: { ...finished.caller, actor: client } });
  expect(parsed(lines).map(({ client: name }) => name)).toEqual([finished.caller.actor.client, 'other']);
});
