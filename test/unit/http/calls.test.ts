import { describe, expect, test } from 'vitest';
import type { JsonObject } from '../../../src/core/json.ts';
import { createTestService, functionCall, type TestServer, textResult, tool } from '../../support/service.ts';

const query: JsonObject = {
  type: 'object',
  properties: { query: { type: 'string' }, depth: { type: 'integer' } },
  required: ['query'],
  additionalProperties: false,
};
const docs: TestServer = { alias: 'docs', tools: [tool('search', query), tool('ping')] };
const mayAll = { scopes: ['tools:docs:*'] };

describe('a call', () => {
  test('gives one output item under its call_id, and its facts in headers', async () => {
    const service = createTestService({
      servers: [docs],
      behaviours: { 'docs:search': () => textResult('3 pages') },
    });
    const { status, headers, json } = await service.post(
      '/v1/calls',
      functionCall('call_1', 'docs__search', { query: 'retry' }),
      mayAll,
    );
    expect(status).toBe(200);
    expect(json).toEqual({
      type: 'function_call_output',
      call_id: 'call_1',
      output: '{"ok":true,"content":[{"type":"text","text":"3 pages"}]}',
    });
    expect(headers.get('callgate-status')).toBe('succeeded');
    expect(headers.get('callgate-code')).toBeNull();
    expect(service.sent).toEqual([
      expect.objectContaining({
        alias: 'docs',
        tool: 'search',
        arguments: { query: 'retry' },
        id: headers.get('callgate-id'),
        timeoutMs: 60_000,
        timeoutTotalMs: 600_000,
      }),
    ]);
    expect(headers.get('callgate-id')).toBe(service.finished[0]?.settled.id);
  });

  test('takes its arguments as an object too', async () => {
    const service = createTestService({ servers: [docs] });
    const call = { type: 'function_call', call_id: 'c', name: 'docs__search', arguments: { query: 'x' } };
    expect((await service.post('/v1/calls', call, mayAll)).headers.get('callgate-status')).toBe('succeeded');
    expect(service.sent[0]?.arguments).toEqual({ query: 'x' });
  });

  test.each([undefined, null, '', '   ', '{}', 'null'])(
    'reads the arguments %j as none (O04)',
    async (input) => {
      const service = createTestService({ servers: [docs] });
      const call = (name: string) => ({ type: 'function_call', call_id: name, name, arguments: input });
      const ping = await service.post('/v1/calls', call('docs__ping'), mayAll);
      expect(ping.headers.get('callgate-status')).toBe('succeeded');
      expect(service.sent).toHaveLength(1);
      expect(service.sent[0]?.arguments).toEqual({});
      const search = await service.post('/v1/calls', call('docs__search'), mayAll);
      const { error } = JSON.parse(search.json.output);
      expect(error.code).toBe('invalid_arguments');
      expect(error.message).toContain('query');
      expect(error.message).not.toContain('cannot be read');
      expect(service.sent).toHaveLength(1);
    },
  );

  test.each([
    ['[]', 'must be a JSON object'],
    ['5', 'must be a JSON object'],
    ['{"query":', 'cannot be read'],
    ['{"query":"a","query":"b"}', 'appears twice'],
    ['{"query":1e999}', 'cannot be read'],
  ])('refuses the arguments %s without sending anything (O04)', async (input, reason) => {
    const service = createTestService({ servers: [docs] });
    for (const name of ['docs__ping', 'docs__search']) {
      const { status, json } = await service.post('/v1/calls', functionCall('c7', name, input), mayAll);
      expect(status).toBe(200);
      expect(json.call_id).toBe('c7');
      const { ok, error } = JSON.parse(json.output);
      expect(ok).toBe(false);
      expect(error).toMatchObject({ code: 'invalid_arguments', may_have_executed: false, retryable: false });
      expect(error.message).toContain(reason);
    }
    expect(service.sent).toEqual([]);
  });

  test('tells what does not fit, where, and never the value', async () => {
    const service = createTestService({ servers: [docs] });
    const input = { query: 'x', depth: 'canary-value', extra: 'canary-value' };
    const { text, json } = await service.post('/v1/calls', functionCall('c', 'docs__search', input), mayAll);
    expect(text).not.toContain('canary-value');
    const { findings } = JSON.parse(json.output).error;
    expect(findings.map(({ path }: { path: string }) => path).sort()).toEqual(['/depth', '/extra']);
    expect(findings.find(({ path }: { path: string }) => path === '/depth')).toMatchObject({
      received: 'a string of 12 characters',
    });
  });

  test('echoes odd ids and the caller, byte for byte', async () => {
    const service = createTestService({ servers: [docs] });
    for (const id of [
      '__proto__',
      'constructor',
      ' ',
      'ü\u0000\r\n\u2028',
      '\ud83d\ude00',
      'x'.repeat(256),
    ]) {
      const { json } = await service.post('/v1/calls', functionCall(id, 'docs__ping'), mayAll);
      expect(json.call_id).toBe(id);
    }
    const caller = { type: 'program', caller_id: 'p1' };
    const { json } = await service.post('/v1/calls', { ...functionCall('c', 'docs__ping'), caller }, mayAll);
    expect(json.caller).toEqual(caller);
    expect(({} as { isAdmin?: boolean }).isAdmin).toBeUndefined();
  });

  test('finds a tool by namespace and name as by the whole name', async () => {
    const service = createTestService({ servers: [docs] });
    const call = { ...functionCall('c', 'ping'), namespace: 'docs' };
    expect((await service.post('/v1/calls', call, mayAll)).headers.get('callgate-status')).toBe('succeeded');
    const wrong = { ...functionCall('w', 'docs__ping'), namespace: 'docs' };
    expect((await service.post('/v1/calls', wrong, mayAll)).headers.get('callgate-code')).toBe(
      'unknown_tool',
    );
  });

  test('of a custom tool is answered with an output of its own type', async () => {
    const service = createTestService({ servers: [docs] });
    const call = { type: 'custom_tool_call', call_id: 'c', name: 'docs__search', input: 'free text' };
    const { json, headers } = await service.post('/v1/calls', call, mayAll);
    expect(json).toMatchObject({ type: 'custom_tool_call_output', call_id: 'c' });
    expect(headers.get('callgate-code')).toBe('invalid_arguments');
    expect(service.sent).toEqual([]);
  });

  test('is written as the request asks, else as the operator says, else as an envelope', async () => {
    const servers = (render: 'text' | 'envelope' | undefined): TestServer[] => [
      { ...docs, policy: { render } },
    ];
    const output = async (render: 'text' | 'envelope' | undefined, path: string) => {
      const service = createTestService({
        servers: servers(render),
        behaviours: { 'docs:ping': () => textResult('pong') },
      });
      return (await service.post(path, functionCall('c', 'docs__ping'), mayAll)).json.output;
    };
    const envelope = '{"ok":true,"content":[{"type":"text","text":"pong"}]}';
    expect(await output(undefined, '/v1/calls')).toBe(envelope);
    expect(await output('text', '/v1/calls')).toBe('pong');
    expect(await output('text', '/v1/calls?render=envelope')).toBe(envelope);
    expect(await output('envelope', '/v1/calls?render=text')).toBe('pong');
  });

  test('names callers and conversations in the record of the call, never in the answer', async () => {
    const service = createTestService({ servers: [docs] });
    const headers = { 'callgate-run': 'run 1', 'callgate-turn': 'turn 2', 'x-request-id': 'req-3' };
    const { headers: answered, text } = await service.post('/v1/calls', functionCall('c', 'docs__ping'), {
      ...mayAll,
      headers,
    });
    expect(answered.get('x-request-id')).toBe('req-3');
    expect(service.finished[0]?.caller).toMatchObject({ run: 'run 1', turn: 'turn 2', requestId: 'req-3' });
    expect(text).not.toContain('run 1');
  });

  test('answers errors of the server as outputs', async () => {
    const service = createTestService({
      servers: [docs],
      behaviours: {
        'docs:ping': () => ({
          kind: 'failed',
          code: 'timeout',
          message: 'no answer within 60000 ms',
          sent: true,
          mayHaveExecuted: true,
          attempts: 1,
          upstreamMs: 60_000,
        }),
        'docs:search': () => ({
          kind: 'failed',
          code: 'timeout',
          message: 'no free place within 60000 ms',
          sent: false,
          mayHaveExecuted: false,
          attempts: 0,
          upstreamMs: 60_000,
        }),
      },
    });
    const sent = await service.post('/v1/calls', functionCall('c', 'docs__ping'), mayAll);
    expect(sent.headers.get('callgate-status')).toBe('unknown');
    expect(JSON.parse(sent.json.output).error).toMatchObject({
      code: 'timeout',
      may_have_executed: true,
      retryable: false,
      server: 'docs',
    });
    const notSent = await service.post(
      '/v1/calls',
      functionCall('d', 'docs__search', { query: 'x' }),
      mayAll,
    );
    expect(notSent.headers.get('callgate-status')).toBe('not_sent');
    expect(JSON.parse(notSent.json.output).error).toMatchObject({
      may_have_executed: false,
      retryable: true,
    });
  });
});

describe('a name that may not be called', () => {
  test('is forbidden, with the smallest missing grant and nothing else of the tool', async () => {
    const service = createTestService({ servers: [docs] });
    const { status, headers, json } = await service.post(
      '/v1/calls',
      functionCall('c', 'docs__search', 'broken'),
      {
        scopes: ['tools:docs:ping'],
      },
    );
    expect(status).toBe(200);
    expect(headers.get('callgate-status')).toBe('rejected');
    expect(JSON.parse(json.output)).toEqual({
      ok: false,
      error: {
        code: 'forbidden',
        message: 'the caller may not use this tool; it needs the grant tools:docs:search:write',
        may_have_executed: false,
        retryable: false,
        missing_grant: 'tools:docs:search:write',
      },
      content: [],
    });
    expect(service.sent).toEqual([]);
  });

  test.each([undefined, 'text', 'envelope'] as const)(
    'looks byte for byte like an unknown one where forbidden tools are hidden (operator renders as %s)',
    async (render) => {
      const hidden = createTestService({ servers: [{ ...docs, policy: { render } }], hideForbidden: true });
      const absent = createTestService({
        servers: [{ alias: 'docs', tools: [tool('ping')] }],
        hideForbidden: true,
      });
      for (const path of ['/v1/calls', '/v1/calls?render=text']) {
        for (const input of ['{}', 'broken', '[]']) {
          const call = functionCall('c', 'docs__search', input);
          const scopes = ['tools:docs:ping'];
          const one = await hidden.post(path, call, { scopes });
          const other = await absent.post(path, call, { scopes });
          expect(one.text).toBe(other.text);
          const facts = (headers: Headers) =>
            [...headers].filter(([name]) => !['callgate-id', 'x-request-id'].includes(name));
          expect(facts(one.headers)).toEqual(facts(other.headers));
        }
      }
      expect(hidden.sent).toEqual([]);
    },
  );

  test.each([
    'constructor',
    'toString',
    '__proto__',
    'docs__constructor',
    'docs____proto__',
    'docs__Search',
    'ping',
  ])('is unknown: %s (O22)', async (name) => {
    const service = createTestService({ servers: [docs] });
    const { headers, json } = await service.post('/v1/calls', functionCall('c', name), mayAll);
    expect(headers.get('callgate-code')).toBe('unknown_tool');
    expect(JSON.parse(json.output).error.message).toContain(JSON.stringify(name));
    expect(service.sent).toEqual([]);
  });

  test('is answered with near names that the caller may use, which are not run', async () => {
    const service = createTestService({ servers: [docs] });
    const near = async (name: string, ...scopes: string[]) => {
      const { json } = await service.post('/v1/calls', functionCall('c', name), { scopes });
      return JSON.parse(json.output).error.near_names;
    };
    expect(await near('docs__Search', 'tools:docs:*')).toEqual(['docs__search']);
    expect(await near('functions.docs__search', 'tools:docs:*')).toEqual(['docs__search']);
    expect(await near('search', 'tools:docs:*')).toEqual(['docs__search']);
    expect(await near('docs__Search', 'tools:docs:ping')).toBeUndefined();
    expect(service.sent).toEqual([]);
  });

  test('says that its server has never listed, to a caller with a grant on it', async () => {
    const service = createTestService({ servers: [docs, { alias: 'slow', hasListed: false }] });
    const call = functionCall('c', 'slow__x');
    const granted = await service.post('/v1/calls', call, { scopes: ['tools:slow:other'] });
    expect(granted.headers.get('callgate-status')).toBe('not_sent');
    expect(JSON.parse(granted.json.output).error).toMatchObject({
      code: 'server_unavailable',
      server: 'slow',
    });
    const foreign = await service.post('/v1/calls', call, mayAll);
    expect(foreign.headers.get('callgate-code')).toBe('unknown_tool');
  });
});

describe('the revision of the declarations', () => {
  test('stands on every answer, and is that of the declarations', async () => {
    const service = createTestService({ servers: [docs] });
    const { json } = await service.get('/v1/declarations', mayAll);
    const call = await service.post('/v1/calls', functionCall('c', 'docs__ping'), mayAll);
    expect(call.headers.get('callgate-revision')).toBe(json.revision);
    const turn = await service.post('/v1/turns', [], mayAll);
    expect(turn.headers.get('callgate-revision')).toBe(json.revision);
    const inMcp = await service.get('/v1/declarations?format=mcp', mayAll);
    expect(inMcp.json.revision).not.toBe(json.revision);
    const mcpTurn = await service.post('/v1/turns?format=mcp', [], mayAll);
    expect(mcpTurn.headers.get('callgate-revision')).toBe(inMcp.json.revision);
  });

  test('that the caller sends is compared, and a change is told where it can be the cause', async () => {
    const service = createTestService({ servers: [docs] });
    const { json } = await service.get('/v1/declarations', mayAll);
    const changed = async (name: string, input: unknown) => {
      const headers = { 'callgate-revision': json.revision };
      const answer = await service.post('/v1/calls', functionCall('c', name, input), { ...mayAll, headers });
      return JSON.parse(answer.json.output).error?.declarations_changed;
    };
    expect(await changed('docs__gone', {})).toBeUndefined();
    service.list([{ alias: 'docs', tools: [tool('search', query)] }]);
    expect(await changed('docs__ping', {})).toBe(true);
    expect(await changed('docs__search', {})).toBe(true);
    expect(await changed('docs__search', 'broken')).toBe(true);
    expect(await changed('docs__search', { query: 'x' })).toBeUndefined();
  });
});
