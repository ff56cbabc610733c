import { describe, expect, test } from 'vitest';
import type { Authenticator } from '../../../src/auth/bearer.ts';
import { fail } from '../../../src/core/result.ts';
import { Admission } from '../../../src/http/admission.ts';
import type { ServerStatus } from '../../../src/upstream/settings.ts';
import { openapiText } from '../../support/contract.ts';
import { createTestService, functionCall, mintToken, type TestServer, tool } from '../../support/service.ts';

const docs: TestServer = { alias: 'docs', tools: [tool('ping'), tool('bad', { type: 'string' })] };
const operator = { scopes: ['callgate:operate'] };

describe('the list of servers', () => {
  test('shows every server with its state, its tools and what is withheld', async () => {
    const statuses: ServerStatus[] = [
      {
        alias: 'docs',
        state: 'ready',
        since: 1_700_000_000_000,
        attempts: 0,
        protocolVersion: '2025-06-18',
        connections: 1,
        breaker: 'closed',
      },
      {
        alias: 'tickets',
        state: 'backoff',
        stage: 'spawn',
        since: 1_700_000_000_000,
        attempts: 3,
        lastError: 'it ended with exit code 1',
        lastExitCode: 1,
        nextTryAt: 1_700_000_004_000,
        stderr: ['boom'],
        connections: 0,
        breaker: 'half_open',
      },
    ];
    const service = createTestService({ servers: [docs], service: { serverStatuses: () => statuses } });
    const { json } = await service.get('/v1/servers', operator);
    expect(json.servers[0]).toMatchObject({
      alias: 'docs',
      state: 'ready',
      tools: 1,
      protocol_version: '2025-06-18',
    });
    expect(json.servers[0].withheld).toHaveLength(1);
    expect(json.servers[0].withheld[0].tool).toBe('bad');
    expect(json.servers[1]).toEqual({
      alias: 'tickets',
      state: 'backoff',
      stage: 'spawn',
      since: '2023-11-14T22:13:20.000Z',
      attempts: 3,
      last_error: 'it ended with exit code 1',
      last_exit_code: 1,
      next_try_at: '2023-11-14T22:13:24.000Z',
      connections: 0,
      breaker: 'half_open',
      stderr: ['boom'],
      tools: 0,
      withheld: [],
    });
  });

  test('needs the scope of an operator, which the challenge names (AUTH-20)', async () => {
    const service = createTestService({ servers: [docs] });
    const { status, json, headers } = await service.get('/v1/servers', { scopes: ['tools:*:*'] });
    expect(status).toBe(403);
    expect(json.code).toBe('insufficient_scope');
    expect(headers.get('www-authenticate')).toBe(
      'Bearer error="insufficient_scope", scope="callgate:operate", resource_metadata="https://callgate.test/.well-known/oauth-protected-resource"',
    );
  });
});

describe('the tokens of a request (AUTH-20)', () => {
  const metadata = 'resource_metadata="https://callgate.test/.well-known/oauth-protected-resource"';
  const routes = ['/v1/declarations', '/v1/calls', '/v1/turns', '/v1/servers'];
  const send = (
    service: ReturnType<typeof createTestService>,
    path: string,
    token: string | null,
    header?: string,
  ) => {
    const method = path === '/v1/calls' || path === '/v1/turns' ? 'POST' : 'GET';
    return service.request(method, path, {
      token,
      ...(header === undefined ? {} : { headers: { authorization: header } }),
    });
  };

  test.each(routes)('without any, %s answers 401 and a challenge without an error', async (path) => {
    const { status, json, headers } = await send(createTestService(), path, null);
    expect(status).toBe(401);
    expect(json.code).toBe('unauthenticated');
    expect(headers.get('www-authenticate')).toBe(`Bearer ${metadata}`);
  });

  test.each(routes)('with one that is not accepted, %s answers 401 and never says why', async (path) => {
    const service = createTestService();
    const { status, json, headers } = await send(service, path, 'anything');
    expect(status).toBe(401);
    expect(json.code).toBe('invalid_token');
    expect(headers.get('www-authenticate')).toBe(`Bearer error="invalid_token", ${metadata}`);
    expect(service.events.find(({ event }) => event === 'token.refused')?.fields.reason).toBeTypeOf('string');
  });

  test('only in the URL are none, and beside another one are refused', async () => {
    const service = createTestService();
    const token = await mintToken('tools:*:*');
    const only = await send(service, `/v1/declarations?access_token=${token}`, null);
    expect([only.status, only.json.code]).toEqual([401, 'unauthenticated']);
    const both = await send(service, `/v1/declarations?access_token=${token}`, token);
    expect([both.status, both.json.code]).toEqual([400, 'invalid_request']);
    expect(both.headers.get('www-authenticate')).toBe(`Bearer error="invalid_request", ${metadata}`);
    expect(both.text).not.toContain(token.slice(0, 20));
  });

  test('that come twice are refused', async () => {
    const token = await mintToken();
    const twice = await send(
      createTestService(),
      '/v1/declarations',
      null,
      `Bearer ${token}, Bearer ${token}`,
    );
    expect([twice.status, twice.json.code]).toEqual([400, 'invalid_request']);
  });

  test('of another scheme are none', async () => {
    const basic = await send(createTestService(), '/v1/declarations', null, 'Basic dXNlcjpwYXNz');
    expect([basic.status, basic.json.code]).toEqual([401, 'unauthenticated']);
  });

  test('cannot be judged while the keys are missing, which is no fault of the caller', async () => {
    const authenticator: Authenticator = {
      ...createTestService().service.authenticator,
      authenticate: () => fail({ code: 'keys_unavailable', retryAfterS: 7 }),
    };
    const service = createTestService({ authenticator });
    const { status, json, headers } = await service.get('/v1/declarations');
    expect([status, json.code, headers.get('retry-after')]).toEqual([503, 'keys_unavailable', '7']);
    expect((await service.post('/v1/turns', [])).status).toBe(503);
  });

  test('without a grant are accepted: nothing is declared, and calls are forbidden', async () => {
    const service = createTestService({ servers: [docs] });
    expect((await service.get('/v1/declarations')).json.tools).toEqual([]);
    const { status, headers } = await service.post('/v1/calls', functionCall('c', 'docs__ping'));
    expect([status, headers.get('callgate-code')]).toEqual([200, 'forbidden']);
  });
});

describe('the routes of operations', () => {
  test('need no token', async () => {
    const service = createTestService();
    expect((await service.get('/healthz', { token: null })).json).toEqual({ status: 'ok' });
    expect((await service.get('/readyz', { token: null })).json).toEqual({
      status: 'ready',
      waiting_for: [],
    });
    const document = await service.get('/openapi.yaml', { token: null });
    expect(document.text).toBe(openapiText);
    expect(document.headers.get('content-type')).toBe('application/yaml');
  });

  test('say what is missing while it is not ready', async () => {
    const readiness = () => ({ ready: false, waitingFor: ['the keys of a token issuer'] });
    const service = createTestService({ service: { readiness } });
    const { status, json } = await service.get('/readyz', { token: null });
    expect([status, json]).toEqual([
      503,
      { status: 'not ready', waiting_for: ['the keys of a token issuer'] },
    ]);
  });

  test('describe where tokens come from, or say that nobody knows (AUTH-21)', async () => {
    const path = '/.well-known/oauth-protected-resource';
    expect((await createTestService().get(path, { token: null })).json).toEqual({
      resource: 'https://callgate.test',
      authorization_servers: ['https://idp.test/'],
      bearer_methods_supported: ['header'],
    });
    const unknown = createTestService({
      service: { resourceMetadata: undefined, resourceMetadataUrl: undefined },
    });
    expect((await unknown.get(path, { token: null })).status).toBe(404);
    const { headers } = await unknown.get('/v1/declarations', { token: null });
    expect(headers.get('www-authenticate')).toBe('Bearer');
  });

  test('answer HEAD as GET, without a body', async () => {
    const service = createTestService({ servers: [docs] });
    for (const path of ['/healthz', '/readyz', '/openapi.yaml', '/v1/declarations']) {
      const { status, text } = await service.request('HEAD', path, { scopes: ['tools:*:*'] });
      expect([path, status, text]).toEqual([path, 200, '']);
    }
  });
});

describe('while callgate drains', () => {
  test('new calls are refused, and everything else goes on', async () => {
    const admission = new Admission();
    const service = createTestService({ servers: [docs], service: { admission } });
    await admission.close(0);
    for (const path of ['/v1/calls', '/v1/turns']) {
      const { status, json, headers } = await service.post(path, [], { scopes: ['tools:*:*'] });
      expect([status, json.code]).toEqual([503, 'draining']);
      expect(Number(headers.get('retry-after'))).toBeGreaterThan(0);
      expect(headers.get('connection')).toBe('close');
    }
    expect((await service.get('/healthz')).status).toBe(200);
    expect((await service.get('/v1/declarations')).status).toBe(200);
    expect(service.sent).toEqual([]);
  });

  test('a call that runs is waited for', async () => {
    const admission = new Admission();
    let answer = (): void => {};
    const called = new Promise<void>((begun) => {
      const service = createTestService({
        servers: [docs],
        service: { admission },
        behaviours: {
          'docs:ping': () =>
            new Promise((resolve) => {
              answer = () => resolve({ content: [] });
              begun();
            }),
        },
      });
      void service.post('/v1/calls', functionCall('c', 'docs__ping'), { scopes: ['tools:*:*'] });
    });
    await called;
    let isClosed = false;
    const closed = admission.close(600_000).then(() => {
      isClosed = true;
    });
    await new Promise((resolve) => setImmediate(resolve));
    expect(isClosed).toBe(false);
    answer();
    await closed;
    expect(admission.running).toBe(0);
  });
});
