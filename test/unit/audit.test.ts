import { expect, test } from 'vitest';
import { createActor } from '../../src/access/actor.ts';
import { createAuditTrail } from '../../src/telemetry/audit.ts';
import type { LineSink } from '../../src/telemetry/line-sink.ts';
import { createTestService, functionCall, tool } from '../support/service.ts';

test('every finished call leaves one line of JSON, a refused one and one of an unknown name too (AZ-8)', async () => {
  const lines: string[] = [];
  const audit = createAuditTrail({ write: (line: string) => void lines.push(line) } as unknown as LineSink);
  const service = createTestService({ servers: [{ alias: 'docs', tools: [tool('search')] }] });
  await service.post('/v1/calls', functionCall('c1', 'docs__search', { q: 'P5' }), {
    scopes: ['tools:docs:*'],
  });
  await service.post('/v1/calls', functionCall('c2', 'docs__search', {}), { scopes: ['tools:docs:other'] });
  await service.post('/v1/calls', functionCall('c3\n"x', 'nope', {}), { scopes: ['tools:docs:*'] });
  for (const finished of service.finished) audit(finished);

  expect(lines).toHaveLength(3);
  for (const line of lines) expect(line).toMatch(/^[^\n]*\n$/);
  const [allowed, refused, unknown] = lines.map((line) => JSON.parse(line));
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

test('two actors with one subject are told apart', async () => {
  const lines: string[] = [];
  const audit = createAuditTrail({ write: (line: string) => void lines.push(line) } as unknown as LineSink);
  const service = createTestService({ servers: [{ alias: 'docs', tools: [tool('search')] }] });
  await service.post('/v1/calls', functionCall('c1', 'docs__search', {}), { scopes: ['tools:docs:*'] });
  const [finished] = service.finished;
  if (finished === undefined) throw new Error('no call finished');
  const client = createActor({ ...finished.caller.actor, kind: 'client', client: 'other' });
  audit(finished);
  audit({ ...finished, caller: { ...finished.caller, actor: client } });
  expect(lines.map((line) => JSON.parse(line).client)).toEqual([finished.caller.actor.client, 'other']);
});
