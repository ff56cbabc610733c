import { describe, expect, test } from 'vitest';
import type { JsonObject } from '../../../src/core/json.ts';
import { canCarryExactNumbers } from '../../../src/core/json.ts';
import { dispatch } from '../../../src/dispatch/dispatch.ts';
import type { DispatchPorts } from '../../../src/dispatch/ports.ts';
import { nativeFormat } from '../../../src/formats/formats.ts';
import type { Binding } from '../../../src/tools/registry.ts';
import { createTestService, functionCall, type TestServer, textResult, tool } from '../../support/service.ts';

const strict: JsonObject = {
  type: 'object',
  properties: { id: { type: 'integer' } },
  required: ['id'],
  additionalProperties: false,
};
const pay: TestServer = { alias: 'pay', tools: [{ ...tool('order', strict), description: 'Orders.' }] };
const mayAll = { scopes: ['tools:pay:*'] };

describe('the order of the pipeline', () => {
  /** Ports whose every step writes down that it was reached. */
  function watched(toolClass: 'read' | 'write'): { ports: DispatchPorts; steps: string[] } {
    const steps: string[] = [];
    const { service, ledger } = createTestService({ servers: [{ ...pay, policy: { class: toolClass } }] });
    const { dispatch: ports } = service;
    const stepped =
      <In extends unknown[], Out>(step: string, take: (...args: In) => Out) =>
      (...args: In): Out => {
        steps.push(step);
        return take(...args);
      };
    ledger.find = stepped('recall', ledger.find.bind(ledger));
    ledger.claim = stepped('claim', ledger.claim.bind(ledger));
    ledger.start = stepped('start', ledger.start.bind(ledger));
    ledger.settle = stepped('settle', ledger.settle.bind(ledger));
    ledger.record = stepped('record', ledger.record.bind(ledger));
    const watch = (binding: Binding): Binding => ({
      ...binding,
      target: {
        ...binding.target,
        // What only the check of the rights reads, though perhaps more than once.
        get alias() {
          if (steps.at(-1) !== 'authorise') steps.push('authorise');
          return binding.target.alias;
        },
      },
      checkArguments: (value) => {
        steps.push('check arguments');
        return binding.checkArguments(value);
      },
    });
    const registry = ports.registry();
    return {
      steps,
      ports: {
        ...ports,
        registry: () => ({
          ...registry,
          find: (name) => {
            steps.push('find');
            const found = registry.find(name);
            return found === undefined ? undefined : watch(found);
          },
        }),
        upstream: {
          ...ports.upstream,
          callTool: async (call) => {
            steps.push('send');
            return ports.upstream.callTool(call);
          },
        },
        observer: {
          ...ports.observer,
          callAdmitted: () => void steps.push('admit'),
          callFinished: () => void steps.push('observe'),
        },
      },
    };
  }

  const run = async (
    grants: readonly { alias: string; tool: string }[],
    name: string,
    input: string,
    toolClass: 'read' | 'write' = 'write',
  ) => {
    const { ports, steps } = watched(toolClass);
    const actor = {
      issuer: 'i',
      kind: 'user',
      subject: 's',
      client: 'c',
      grants,
      grantsKey: JSON.stringify(grants),
      adminScopes: new Set<string>(),
    } as const;
    const call = { callId: 'c', name, arguments: input };
    const { outcome } = await dispatch(
      call,
      {
        actor,
        requestId: 'r',
        run: undefined,
        turn: undefined,
        token: undefined,
        format: nativeFormat,
        declarationsChanged: false,
      },
      ports,
    ).settled;
    return { code: outcome.error?.code, steps };
  };
  const grants = [{ alias: 'pay', tool: '*' }];

  test('is recall, find, authorise, check, claim, send, settle', async () => {
    expect(await run(grants, 'pay__order', '{"id":1}')).toEqual({
      code: undefined,
      steps: [
        'recall',
        'find',
        'authorise',
        'check arguments',
        'claim',
        'admit',
        'send',
        'settle',
        'observe',
      ],
    });
  });

  test('has no claim in it for a tool that only reads', async () => {
    expect(await run(grants, 'pay__order', '{"id":1}', 'read')).toEqual({
      code: undefined,
      steps: ['recall', 'find', 'authorise', 'check arguments', 'send', 'record', 'observe'],
    });
  });

  test('ends before the arguments are looked at where the right is missing (AZ-3)', async () => {
    for (const input of ['{"id":1}', '{', '{}']) {
      expect(await run([], 'pay__order', input)).toEqual({
        code: 'forbidden',
        steps: ['recall', 'find', 'authorise', 'record', 'observe'],
      });
    }
  });

  test('ends before anything is sent where the arguments do not fit', async () => {
    expect(await run(grants, 'pay__order', '{}')).toEqual({
      code: 'invalid_arguments',
      steps: ['recall', 'find', 'authorise', 'check arguments', 'record', 'observe'],
    });
    expect(await run(grants, 'pay__order', '{')).toEqual({
      code: 'invalid_arguments',
      steps: ['recall', 'find', 'authorise', 'record', 'observe'],
    });
  });

  test('ends at once for a name that is not there', async () => {
    expect(await run(grants, 'pay__nothing', '{}')).toEqual({
      code: 'unknown_tool',
      steps: ['recall', 'find', 'record', 'observe'],
    });
  });
});

describe('what a server receives', () => {
  test('is what the model sent, with nothing added and nothing changed (O06)', async () => {
    const service = createTestService({ servers: [{ alias: 'open', tools: [tool('any')] }] });
    const input =
      '{"sheet":"1","flag":"false","n":1.50,"tags":["x"],"constructor":{"a":null},"é":"\\ud83d\\ude00"}';
    await service.post('/v1/calls', functionCall('c', 'open__any', input), { scopes: ['tools:open:*'] });
    expect(service.sent[0]?.arguments).toEqual(JSON.parse(input));
  });

  test('has all digits of a big number, or is not sent (O06)', async () => {
    const service = createTestService({ servers: [pay] });
    const answer = await service.post(
      '/v1/calls',
      functionCall('c', 'pay__order', '{"id":1917043659912705296}'),
      mayAll,
    );
    if (canCarryExactNumbers) {
      expect(answer.headers.get('callgate-status')).toBe('succeeded');
      expect(JSON.stringify(service.sent[0]?.arguments)).toBe('{"id":1917043659912705296}');
    } else {
      expect(answer.headers.get('callgate-code')).toBe('invalid_arguments');
      expect(service.sent).toEqual([]);
    }
  });

  test('was unwrapped once where the model encoded it twice, and the record says so (O06)', async () => {
    const service = createTestService({ servers: [pay] });
    await service.post('/v1/calls', functionCall('c', 'pay__order', '"{\\"id\\":1}"'), mayAll);
    expect(service.sent[0]?.arguments).toEqual({ id: 1 });
    expect(service.finished[0]?.mended).toBe('unwrapped');
  });

  test('goes to the raw name of the tool, with the limits of the operator', async () => {
    const service = createTestService({
      servers: [{ alias: 'ws', tools: [tool('calendar.list'), tool('Get File')], policy: { timeoutMs: 5 } }],
    });
    const { json } = await service.get('/v1/declarations', { scopes: ['tools:ws:*'] });
    for (const { name } of json.tools) {
      await service.post('/v1/calls', functionCall(`call-${name}`, name), { scopes: ['tools:ws:*'] });
    }
    expect(service.sent.map(({ tool: sent, timeoutMs }) => [sent, timeoutMs]).sort()).toEqual([
      ['Get File', 5],
      ['calendar.list', 5],
    ]);
  });
});

describe('what comes back', () => {
  test('is cut to the limit of the tool', async () => {
    const service = createTestService({
      servers: [{ ...pay, policy: { outputCharsMax: 100 } }],
      behaviours: { 'pay:order': () => textResult('x'.repeat(1_000)) },
    });
    const { json } = await service.post(
      '/v1/calls?render=text',
      functionCall('c', 'pay__order', { id: 1 }),
      mayAll,
    );
    expect(json.output).toBe(`${'x'.repeat(69)} [... 931 more characters cut]`);
  });

  test('is remarked on where it does not fit the output schema, and is a success (O07)', async () => {
    const outputSchema = { type: 'object', properties: { data: { type: 'string' } }, required: ['data'] };
    const answer = async (
      result: Parameters<typeof textResult>[0],
      structuredContent?: JsonObject,
      isError = false,
    ) => {
      const service = createTestService({
        servers: [{ alias: 'pay', tools: [{ ...tool('order', strict), outputSchema }] }],
        behaviours: {
          'pay:order': () => ({
            ...textResult(result, isError),
            ...(structuredContent === undefined ? {} : { structuredContent }),
          }),
        },
      });
      const { json } = await service.post('/v1/calls', functionCall('c', 'pay__order', { id: 1 }), mayAll);
      return JSON.parse(json.output);
    };
    expect(await answer('quota exceeded', undefined, true)).toMatchObject({
      ok: false,
      error: { code: 'tool_error' },
    });
    const low = await answer('risk level too low', { error: 1 }, true);
    expect(low).toMatchObject({
      ok: false,
      content: [{ text: 'risk level too low' }],
      structured: { error: 1 },
    });
    const saved = await answer('saved');
    expect(saved).toMatchObject({ ok: true, content: [{ text: 'saved' }] });
    expect(saved.warnings).toHaveLength(1);
    const wrong = await answer('saved', { data: 5 });
    expect(wrong).toMatchObject({ ok: true, structured: { data: 5 } });
    expect(wrong.warnings[0]).toContain('output schema');
    expect(await answer('Error: list of error codes', { data: 'x' })).toEqual({
      ok: true,
      content: [{ type: 'text', text: 'Error: list of error codes' }],
      structured: { data: 'x' },
    });
  });

  test('leaves its facts with the observer, without any value of the arguments', async () => {
    const service = createTestService({ servers: [pay] });
    await service.post('/v1/calls', functionCall('c1', 'pay__order', { id: 7 }), mayAll);
    await service.post('/v1/calls', functionCall('c2', 'pay__order', { id: 'P5-secret' }), mayAll);
    await service.post('/v1/calls', functionCall('c3', 'pay__order', '{'), mayAll);
    const [good, wrong, broken] = service.finished;
    expect(good).toMatchObject({
      settled: { attempts: 1, outcome: { status: 'succeeded' } },
      binding: { name: 'pay__order' },
    });
    expect(good?.argumentsHash).toMatch(/^[0-9a-f]{64}$/);
    expect(wrong).toMatchObject({
      settled: { attempts: 0, outcome: { error: { code: 'invalid_arguments' } } },
    });
    expect(JSON.stringify(wrong?.settled.outcome)).not.toContain('P5-secret');
    expect(broken?.argumentsHash).toMatch(/^[0-9a-f]{64}$/);
  });
});
