import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { JsonObject } from '../../../src/core/json.ts';
import type { Attempt } from '../../../src/dispatch/ports.ts';
import {
  createTestService,
  functionCall,
  type TestServer,
  type TestServiceOptions,
  textResult,
  tool,
} from '../../support/service.ts';

const lab: TestServer = {
  alias: 'lab',
  tools: [
    tool('echo', { type: 'object', properties: { q: { type: 'string' } }, required: ['q'] }),
    tool('ping'),
    tool('die'),
  ],
};
const mayAll = { scopes: ['tools:lab:*'] };
const lost: Attempt = {
  kind: 'failed',
  code: 'connection_lost',
  message: 'the connection to the server "lab" ended during the call',
  sent: true,
  mayHaveExecuted: true,
  attempts: 1,
  upstreamMs: 1,
};
const start = (options: TestServiceOptions = {}) => createTestService({ servers: [lab], ...options });
const ids = (items: { call_id: string }[]): string[] => items.map((item) => item.call_id);

/** A door that a behaviour waits at until the test opens it. */
function door(): { open: () => void; passed: Promise<void> } {
  let open = (): void => {};
  const passed = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { open, passed };
}

describe('a turn', () => {
  test('gives one output for each call, in the order of the calls, each with its own result (O18)', async () => {
    const y = door();
    const service = start({
      behaviours: {
        'lab:echo': async ({ arguments: { q } }) => {
          // X may only end after Y has.
          if (q === 'X') await y.passed;
          else y.open();
          return textResult(String(q));
        },
        'lab:die': () => lost,
      },
    });
    const { json } = await service.post(
      '/v1/turns',
      [
        functionCall('c1', 'lab__echo', { q: 'X' }),
        functionCall('c2', 'lab__echo', { q: 'Y' }),
        functionCall('c3', 'lab__nothing'),
        functionCall('c4', 'lab__echo', { q: 5 }),
        functionCall('c5', 'lab__die'),
      ],
      mayAll,
    );
    expect(ids(json.append)).toEqual(['c1', 'c2', 'c3', 'c4', 'c5']);
    expect(ids(json.calls)).toEqual(['c1', 'c2', 'c3', 'c4', 'c5']);
    expect(json.calls.map((call: { status: string; code?: string }) => [call.status, call.code])).toEqual([
      ['succeeded', undefined],
      ['succeeded', undefined],
      ['rejected', 'unknown_tool'],
      ['rejected', 'invalid_arguments'],
      ['unknown', 'connection_lost'],
    ]);
    expect(json.append[0].output).toContain('"X"');
    expect(json.append[1].output).toContain('"Y"');
    expect(json.calls.map((call: { attempts: number }) => call.attempts)).toEqual([1, 1, 0, 0, 1]);
    expect(json.calls.map((call: { may_have_executed: boolean }) => call.may_have_executed)).toEqual([
      true,
      true,
      false,
      false,
      true,
    ]);
    expect(json.left).toEqual([]);
  });

  test('runs its calls side by side', async () => {
    const all = door();
    let running = 0;
    const service = start({
      behaviours: {
        'lab:ping': async () => {
          running += 1;
          if (running === 64) all.open();
          await all.passed;
          return textResult('pong');
        },
      },
    });
    const calls = Array.from({ length: 64 }, (_, index) => functionCall(`c${index}`, 'lab__ping'));
    const { json } = await service.post('/v1/turns', calls, mayAll);
    expect(json.append).toHaveLength(64);
  });

  test('runs them one after another where the caller says so', async () => {
    const seen: string[] = [];
    const service = start({
      behaviours: {
        'lab:echo': async ({ arguments: { q } }) => {
          seen.push(`${q} begins`);
          await new Promise((resolve) => setImmediate(resolve));
          seen.push(`${q} ends`);
          return q === 'b' ? lost : textResult('');
        },
      },
    });
    const calls = ['a', 'b', 'c'].map((q) => functionCall(q, 'lab__echo', { q }));
    const { json } = await service.post('/v1/turns?order=sequential', calls, mayAll);
    expect(seen).toEqual(['a begins', 'a ends', 'b begins', 'b ends', 'c begins', 'c ends']);
    expect(ids(json.append)).toEqual(['a', 'b', 'c']);
  });

  test('takes a whole Responses object, and leaves alone all that is no finished call', async () => {
    const service = start();
    const response = {
      id: 'resp_1',
      object: 'response',
      created_at: 1_700_000_000,
      status: 'completed',
      error: null,
      model: 'a-model',
      output_text: '',
      output: [
        { type: 'reasoning', id: 'rs_1', summary: [] },
        { type: 'message', id: 'm1', role: 'assistant', content: [{ type: 'output_text', text: 'hi' }] },
        { ...functionCall('c1', 'lab__ping'), id: 'fc_1', status: 'completed', namespace: null },
        { ...functionCall('c2', 'lab__ping'), status: 'incomplete' },
        { ...functionCall('c3', 'lab__ping'), status: 'in_progress' },
        { type: 'function_call_output', call_id: 'c0', output: 'old' },
        { type: 'mcp_call', id: 'mcp_1', name: 'lab__ping', arguments: '{}' },
      ],
      usage: { input_tokens: 1 },
    };
    const { json } = await service.post('/v1/turns', response, mayAll);
    expect(ids(json.append)).toEqual(['c1']);
    expect(service.sent).toHaveLength(1);
  });

  test('that was cut off leaves alone what stands last in it and does not say that it is whole', async () => {
    const appended = async (status: string, last: JsonObject) => {
      const output = [functionCall('c1', 'lab__ping'), { ...functionCall('c2', 'lab__ping'), ...last }];
      return ids((await start().post('/v1/turns', { status, output }, mayAll)).json.append);
    };
    expect(await appended('incomplete', {})).toEqual(['c1']);
    expect(await appended('failed', { status: null })).toEqual(['c1']);
    expect(await appended('incomplete', { status: 'completed' })).toEqual(['c1', 'c2']);
    expect(await appended('completed', {})).toEqual(['c1', 'c2']);
  });

  test.each([
    ['an empty list', []],
    ['an answer without calls', { output: [{ type: 'message', content: [] }] }],
  ])('that is %s gives an empty append', async (_, body) => {
    const { status, json } = await start().post('/v1/turns', body, mayAll);
    expect(status).toBe(200);
    expect(json).toEqual({ append: [], calls: [], left: [] });
  });

  test('takes one item, items with a namespace, custom calls and callers', async () => {
    const caller = { type: 'program', caller_id: 'p' };
    const service = start();
    const one = await service.post('/v1/turns', functionCall('c', 'lab__ping'), mayAll);
    expect(ids(one.json.append)).toEqual(['c']);
    const { json } = await service.post(
      '/v1/turns',
      [
        { ...functionCall('c1', 'ping'), namespace: 'lab' },
        { type: 'custom_tool_call', call_id: 'c2', name: 'lab__echo', input: 'text', caller },
      ],
      mayAll,
    );
    expect(json.append[0]).toMatchObject({ type: 'function_call_output', call_id: 'c1' });
    expect(json.append[1]).toMatchObject({ type: 'custom_tool_call_output', call_id: 'c2', caller });
    expect(json.calls.map((call: { code?: string }) => call.code)).toEqual([undefined, 'invalid_arguments']);
  });

  test('in the neutral format takes and gives calls of that format', async () => {
    const service = start({ behaviours: { 'lab:ping': () => textResult('quota exceeded', true) } });
    const calls = [
      { id: '1', name: 'lab__ping' },
      { id: '2', name: 'lab__echo', arguments: { q: 'x' } },
    ];
    const { json } = await service.post('/v1/turns?format=mcp', calls, mayAll);
    expect(json.append).toEqual([
      {
        id: '1',
        name: 'lab__ping',
        result: {
          content: [{ type: 'text', text: 'quota exceeded' }],
          isError: true,
          _meta: {
            'callgate/error': {
              code: 'tool_error',
              message: 'the tool reported an error; its own words are in the content',
              may_have_executed: true,
              retryable: false,
            },
          },
        },
      },
      {
        id: '2',
        name: 'lab__echo',
        result: { content: [{ type: 'text', text: '{"q":"x"}' }], isError: false },
      },
    ]);
    const one = await service.post('/v1/turns?format=mcp', calls[0], mayAll);
    expect(one.json.append).toHaveLength(1);
  });
});

describe('a turn that is wrong as a whole is refused before anything runs', () => {
  test.each([
    ['in a list', (calls: unknown[]) => calls, ''],
    ['in a whole answer', (calls: unknown[]) => ({ output: calls }), '/output'],
  ])('when a call id stands twice %s (O18)', async (_, wrap, prefix) => {
    const service = start();
    const body = wrap([
      functionCall('dup', 'lab__echo', { q: 'a' }),
      functionCall('other', 'lab__ping'),
      functionCall('dup', 'lab__echo', { q: 'b' }),
    ]);
    const { status, json } = await service.post('/v1/turns', body, mayAll);
    expect(status).toBe(400);
    expect(json.detail).toContain('"dup"');
    expect(json.errors.map(({ pointer }: { pointer: string }) => pointer)).toEqual([
      `${prefix}/0`,
      `${prefix}/2`,
    ]);
    expect(service.sent).toEqual([]);
  });

  test('when a call has no id, an empty one or one of another type (O18)', async () => {
    const service = start();
    const { call_id: _, ...nameless } = functionCall('x', 'lab__ping');
    const long = functionCall('x'.repeat(257), 'lab__ping');
    for (const bad of [nameless, { ...nameless, call_id: '' }, { ...nameless, call_id: 5 }, long]) {
      const { status, json } = await service.post(
        '/v1/turns',
        [functionCall('ok', 'lab__ping'), bad],
        mayAll,
      );
      expect(status).toBe(400);
      expect(json.errors).toHaveLength(1);
      expect(json.errors[0].pointer).toBe('/1/call_id');
    }
    const alone = await service.post('/v1/turns', nameless, mayAll);
    expect(alone.json.errors[0].pointer).toBe('/call_id');
    const answer = await service.post('/v1/turns', { output: [nameless] }, mayAll);
    expect(answer.json.errors[0].pointer).toBe('/output/0/call_id');
    const mcp = await service.post('/v1/turns?format=mcp', [{ name: 'lab__ping' }], mayAll);
    expect(mcp.json.errors[0].pointer).toBe('/0/id');
    expect(service.sent).toEqual([]);
  });

  test('when it has more calls than are taken, and not when the rest of it is long', async () => {
    const service = start();
    const calls = Array.from({ length: 65 }, (_, index) => functionCall(`c${index}`, 'lab__ping'));
    const { status, json } = await service.post('/v1/turns', calls, mayAll);
    expect(status).toBe(400);
    expect(json.detail).toContain('65');
    expect(service.sent).toEqual([]);
    const talk = Array.from({ length: 500 }, () => ({ type: 'message', content: [] }));
    expect((await service.post('/v1/turns', [...talk, ...calls.slice(1)], mayAll)).status).toBe(200);
  });

  test.each([
    ['a string', '"hello"'],
    ['null', 'null'],
    ['a chat completion', { choices: [{ message: { tool_calls: [] } }] }],
    ['an event of a stream', { type: 'response.completed', response: { output: [] } }],
    ['a list of strings', ['hello']],
    ['an output that is no list', { output: {} }],
  ])('when it is %s', async (_, body) => {
    const { status, json } = await start().post('/v1/turns', body, mayAll);
    expect(status).toBe(400);
    expect(json.errors.length).toBeGreaterThan(0);
  });

  test('when a name is missing or too long, with every place that is wrong', async () => {
    const calls = [functionCall('a', ''), functionCall('b', 'x'.repeat(257)), { type: 'function_call' }];
    const { json } = await start().post('/v1/turns', calls, mayAll);
    expect(json.errors.map(({ pointer }: { pointer: string }) => pointer)).toEqual([
      '/0/name',
      '/1/name',
      '/2/call_id',
      '/2/name',
    ]);
  });

  test('when a word in the query is none that is known', async () => {
    for (const query of [
      'order=random',
      'unknown=drop',
      'render=html',
      'format=',
      'wait=5',
      'order=parallel&order=parallel',
    ]) {
      expect((await start().post(`/v1/turns?${query}`, [], mayAll)).status).toBe(400);
    }
  });
});

describe('calls of names that are not callgate’s', () => {
  const body = [
    { type: 'message', content: [] },
    functionCall('c1', 'local_clock'),
    functionCall('c2', 'lab__gone'),
    functionCall('c3', 'lab__ping'),
    functionCall('c4', 'labs__x'),
    { ...functionCall('c5', 'gone'), namespace: 'lab' },
  ];

  test('are answered as unknown unless the caller wants them left', async () => {
    const { json } = await start().post('/v1/turns', body, mayAll);
    expect(ids(json.append)).toEqual(['c1', 'c2', 'c3', 'c4', 'c5']);
    expect(json.left).toEqual([]);
  });

  test('are left with their place, save for names with a configured alias', async () => {
    const { json } = await start().post('/v1/turns?unknown=leave', { output: body }, mayAll);
    expect(ids(json.append)).toEqual(['c2', 'c3', 'c5']);
    expect(ids(json.calls)).toEqual(['c2', 'c3', 'c5']);
    expect(json.left).toEqual([
      { index: 1, call_id: 'c1', name: 'local_clock' },
      { index: 4, call_id: 'c4', name: 'labs__x' },
    ]);
  });

  test('count when call ids are compared, so that no id is answered twice', async () => {
    const calls = [functionCall('dup', 'local_clock'), functionCall('dup', 'lab__ping')];
    expect((await start().post('/v1/turns?unknown=leave', calls, mayAll)).status).toBe(400);
  });
});

describe('any mixture of calls', () => {
  const kinds = ['lab__ping', 'lab__die', 'lab__gone', 'elsewhere', 'lab__echo'] as const;
  const wanted = {
    lab__ping: undefined,
    lab__die: 'connection_lost',
    lab__gone: 'unknown_tool',
    elsewhere: 'unknown_tool',
    lab__echo: 'invalid_arguments',
  };

  test('gets each call_id exactly once, in the order of the input, each with its own outcome (RL-7)', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.uniqueArray(fc.tuple(fc.string({ minLength: 1, maxLength: 20 }), fc.constantFrom(...kinds)), {
          selector: ([id]) => id,
          maxLength: 12,
        }),
        fc.constantFrom('parallel', 'sequential'),
        async (calls, order) => {
          const service = start({ behaviours: { 'lab:die': () => lost } });
          const body = calls.map(([id, name]) => functionCall(id, name));
          const { json } = await service.post(`/v1/turns?order=${order}`, body, mayAll);
          expect(ids(json.append)).toEqual(calls.map(([id]) => id));
          expect(
            json.calls.map(({ call_id, code }: { call_id: string; code?: string }) => [call_id, code]),
          ).toEqual(calls.map(([id, name]) => [id, wanted[name]]));
        },
      ),
      { numRuns: 60 },
    );
  });
});

describe('a turn whose outputs are too many bytes together', () => {
  const text = 'x'.repeat(15_000_000);
  const calls = Array.from({ length: 9 }, (_, index) => functionCall(`c${index}`, 'lab__ping'));
  const startLarge = () =>
    createTestService({
      servers: [{ ...lab, policy: { outputCharsMax: 16_000_000 } }],
      behaviours: { 'lab:ping': () => textResult(text) },
    });

  test('is refused as JSON when its calls have run, each of which can be had by itself', async () => {
    const service = startLarge();
    const { status, json } = await service.post('/v1/turns', calls, mayAll);
    expect([status, json.code]).toEqual([413, 'payload_too_large']);
    expect(json.detail).toMatch(
      /^the calls have run, .* 13500\d{4} bytes together, more than 134217728: post its/,
    );
    const one = await service.post('/v1/turns', calls.slice(8), mayAll);
    expect(one.json.calls).toMatchObject([{ call_id: 'c8', replayed: true }]);
    expect(service.sent).toHaveLength(9);
    expect(service.service.admission.running).toBe(0);
  });

  test('gets all its outputs as a stream, which then breaks off instead of repeating them', async () => {
    const service = startLarge();
    const headers = { accept: 'text/event-stream', 'content-type': 'application/json', 'x-request-id': 'r' };
    const response = await service.open('POST', '/v1/turns', { ...mayAll, headers }, JSON.stringify(calls));
    let outputs = 0;
    const readAll = async () => {
      for await (const chunk of response.body as ReadableStream<Uint8Array>) {
        const bytes = Buffer.from(chunk);
        if (bytes.includes('event: output')) outputs += 1;
        expect(bytes.includes('event: done')).toBe(false);
      }
    };
    await expect(readAll()).rejects.toThrow('more than 134217728 bytes together');
    expect(outputs).toBe(9);
    expect(service.events.at(-1)).toMatchObject({
      event: 'stream.too_large',
      fields: { request_id: 'r', bytes_max: 134_217_728 },
    });
    expect(service.service.admission.running).toBe(0);
  });

  test('is cut as a stream where nobody takes them', async () => {
    const service = startLarge();
    const headers = { accept: 'text/event-stream', 'content-type': 'application/json' };
    const eleven = [...calls, functionCall('c9', 'lab__ping'), functionCall('c10', 'lab__ping')];
    const response = await service.open('POST', '/v1/turns', { ...mayAll, headers }, JSON.stringify(eleven));
    while (service.service.admission.running > 0) await new Promise((resolve) => setImmediate(resolve));
    expect(service.events.at(-1)?.event).toBe('stream.stalled');
    await expect(response.text()).rejects.toThrow('takes nothing');
  });
});
