import { expect, test } from 'vitest';
import { createTestService, functionCall, tool } from '../../support/service.ts';

const scopes = ['tools:docs:*'];
const call = functionCall('c', 'docs__search', {});

test('bodies are refused while those in work leave no room, and taken again afterwards (RL-13)', async () => {
  const service = createTestService({ servers: [{ alias: 'docs', tools: [tool('search')] }] });
  const { admission } = service.service;
  expect(admission.takeBytes(134_217_728)).toBe(true);
  const refused = await service.post('/v1/calls', call, { scopes });
  expect([refused.status, refused.json.code, refused.headers.get('retry-after')]).toEqual([
    503,
    'overloaded',
    '1',
  ]);
  expect(service.sent).toEqual([]);
  admission.giveBytes(134_217_728);
  expect((await service.post('/v1/calls', call, { scopes })).status).toBe(200);
});

test('a body gives its room back however its request ends', async () => {
  const service = createTestService({ servers: [{ alias: 'docs', tools: [tool('search')] }] });
  for (const body of ['{', '[]', '"x"', call, { ...call, name: 'nope' }])
    await service.post('/v1/calls', body, { scopes });
  await service.post('/v1/turns', [call, call], { scopes });
  expect(service.service.admission.takeBytes(134_217_728)).toBe(true);
});
