import { Ajv2020 } from 'ajv/dist/2020.js';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { createTestService, functionCall, tool } from '../../support/service.ts';

const count = 10_000;
const scopes = ['tools:s:*'];
const properties = { text: { type: 'string' } };

afterEach(() => vi.restoreAllMocks());

describe('ten thousand declared tools', () => {
  const schema = { type: 'object', properties };
  const servers = [
    { alias: 's', tools: Array.from({ length: count }, (_, index) => tool(`t${index}`, schema)) },
  ];

  test('are compiled one by one, at the first call of each, and never for a list', async () => {
    const compile = vi.spyOn(Ajv2020.prototype, 'compile');
    // The contract check of the harness compiles schemas of its own.
    const compiled = (): number =>
      compile.mock.calls.filter(([given]) => JSON.stringify(given).includes('"text"')).length;
    const service = createTestService({ servers });
    for (const format of ['openai-responses', 'mcp']) {
      const { json } = await service.get(`/v1/declarations?format=${format}`, { scopes });
      expect(json.tools).toHaveLength(count);
    }
    expect(compiled()).toBe(0);

    for (const [callId, name, after] of [
      ['c1', 't7', 1],
      ['c2', 't8', 2],
      ['c3', 't7', 2],
      ['c4', 't8', 2],
    ] as const) {
      await service.post('/v1/calls', functionCall(callId, `s__${name}`, { text: 'x' }), { scopes });
      expect(compiled()).toBe(after);
    }
    expect(service.sent).toHaveLength(4);
  });

  test('are served from finished bytes, and neither a list nor a call looks through them again', async () => {
    const service = createTestService({ servers });
    const first = await service.get('/v1/declarations', { scopes });
    const scanned = vi.fn();
    const registry = service.service.dispatch.registry();
    const { bindings } = registry;
    Object.defineProperty(registry, 'bindings', {
      get: () => {
        scanned();
        return bindings;
      },
    });

    const second = await service.get('/v1/declarations', { scopes: [...scopes].reverse() });
    expect(second.text === first.text && second.headers.get('etag') === first.headers.get('etag')).toBe(true);
    const call = await service.post('/v1/calls', functionCall('c', 's__t9999', { text: 'x' }), { scopes });
    expect(call.headers.get('callgate-status')).toBe('succeeded');
    const turn = await service.post('/v1/turns', [functionCall('d', 's__t1', { text: 'x' })], { scopes });
    expect(turn.json.calls[0].status).toBe('succeeded');
    expect(scanned).not.toHaveBeenCalled();
  });
});
