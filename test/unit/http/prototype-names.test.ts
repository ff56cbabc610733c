import { beforeEach, describe, expect, test } from 'vitest';
import { createTestService, functionCall, type TestService, tool } from '../../support/service.ts';

const scopes = ['tools:p:*', 'tools:a:*'];
const polluting = '{"__proto__":{"isAdmin":true},"a":1}';
const properties = { a: { type: 'integer' } };

let service: TestService;

beforeEach(() => {
  service = createTestService({
    servers: [
      {
        alias: 'p',
        tools: [
          tool('constructor'),
          tool('__proto__'),
          tool('closed', { type: 'object', properties, additionalProperties: false }),
          tool('open', { type: 'object', properties }),
          tool('needs_to_string', { type: 'object', required: ['toString'] }),
        ],
      },
      { alias: 'a', tools: [tool('ok')] },
    ],
  });
});

const call = async (name: string, input: unknown = {}) => {
  const answer = await service.post('/v1/calls', functionCall(name, name, input), { scopes });
  expect(answer.status).toBe(200);
  expect(({} as { isAdmin?: boolean }).isAdmin).toBeUndefined();
  return { code: answer.headers.get('callgate-code'), text: String(answer.json.output) };
};

describe('names and keys of the object prototype (O22)', () => {
  test('that no server declares are unknown tools', async () => {
    for (const name of ['constructor', 'toString', '__proto__', 'a__constructor', 'a____proto__']) {
      expect([name, (await call(name)).code]).toEqual([name, 'unknown_tool']);
    }
    expect(service.sent).toEqual([]);
  });

  test('that a server declares are declared and reach it', async () => {
    const { json } = await service.get('/v1/declarations', { scopes });
    const names = json.tools.map(({ name }: { name: string }) => name);
    expect(names).toEqual(expect.arrayContaining(['p____proto__', 'p__constructor']));
    expect((await call('p____proto__')).code).toBeNull();
    expect((await call('p__constructor')).code).toBeNull();
    expect(service.sent.map((sent) => sent.tool)).toEqual(['__proto__', 'constructor']);
  });

  test('are named where a closed schema refuses them, and stay ordinary members in an open one', async () => {
    const refused = await call('p__closed', polluting);
    expect(refused.code).toBe('invalid_arguments');
    expect(refused.text).toContain('__proto__');
    expect(service.sent).toEqual([]);
    expect((await call('p__open', polluting)).code).toBeNull();
    expect(JSON.stringify(service.sent[0]?.arguments)).toBe(polluting);
    expect(Object.getPrototypeOf(service.sent[0]?.arguments)).toBe(Object.prototype);
  });

  test('are not found in the prototype where a schema requires them', async () => {
    const { code, text } = await call('p__needs_to_string');
    expect(code).toBe('invalid_arguments');
    expect(text).toContain('toString');
  });
});
