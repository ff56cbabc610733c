import { describe, expect, test } from 'vitest';
import { createTestService, functionCall, type TestServer, tool } from '../../support/service.ts';

const docs: TestServer = { alias: 'docs', tools: [tool('search')] };
const shell: TestServer = { alias: 'shell', tools: [tool('exec')], needsRun: true };
const grants = { scopes: ['tools:docs:*', 'tools:shell:*'] };

describe('a tool that has a connection for each run', () => {
  test('needs the name of the run, and nothing of the request is run without it', async () => {
    const service = createTestService({ servers: [docs, shell] });
    const one = await service.post('/v1/calls', functionCall('c1', 'shell__exec'), grants);
    expect([one.status, one.json.code]).toEqual([400, 'invalid_request']);
    expect(one.json.detail).toContain('Callgate-Run');
    const turn = [functionCall('c1', 'docs__search'), functionCall('c2', 'shell__exec')];
    const whole = await service.post('/v1/turns?format=openai-responses', turn, grants);
    expect(whole.status).toBe(400);
    expect(service.sent).toEqual([]);
  });

  test('is called inside a run', async () => {
    const service = createTestService({ servers: [docs, shell] });
    const { headers } = await service.post('/v1/calls', functionCall('c1', 'shell__exec'), {
      ...grants,
      headers: { 'callgate-run': 'run-1' },
    });
    expect(headers.get('callgate-status')).toBe('succeeded');
    expect(service.sent.map(({ caller }) => caller.run)).toEqual(['run-1']);
  });

  test('is not told of to a caller who may not call it', async () => {
    const service = createTestService({ servers: [docs, shell] });
    const { headers } = await service.post('/v1/calls', functionCall('c1', 'shell__exec'), {
      scopes: ['tools:docs:*'],
    });
    expect(headers.get('callgate-code')).toBe('forbidden');
  });
});

describe('the end of a run', () => {
  test('closes the connections of that run of the caller', async () => {
    const service = createTestService({ servers: [shell] });
    const answer = await service.request('DELETE', '/v1/runs/a%20run%2F1', grants);
    expect([answer.status, answer.text]).toEqual([204, '']);
    expect(service.endedRuns).toEqual([[expect.stringContaining('"user"'), 'a run/1']]);
  });

  test('needs a token and a name', async () => {
    const service = createTestService({ servers: [shell] });
    expect((await service.request('DELETE', '/v1/runs/r', { token: null })).status).toBe(401);
    expect((await service.request('DELETE', `/v1/runs/${'r'.repeat(257)}`, grants)).status).toBe(400);
    expect((await service.request('GET', '/v1/runs/r', grants)).status).toBe(405);
    expect(service.endedRuns).toEqual([]);
  });
});
