import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Callgate, type Execution, startCallgate } from '../support/callgate.ts';
import { scriptedServer, scriptFolder } from '../support/scripted.ts';

const inputSchema = {
  type: 'object',
  additionalProperties: false,
  properties: {
    depth: { type: 'integer', default: 2 },
    sheet: { type: 'string' },
    tags: { type: 'array', items: { type: 'string' } },
    id: { type: 'integer' },
  },
};

/** Node 22 and later can write a number with more digits than a double holds. */
const canCarryDigits = 'rawJSON' in JSON;

describe('the arguments as a server gets them (O06)', () => {
  const folder = scriptFolder();
  let gate: Callgate;
  let token: string;

  beforeAll(async () => {
    const tools = [{ definition: { name: 'take', inputSchema } }];
    gate = await startCallgate({ mcpServers: { s: scriptedServer(folder.path('tools.json'), tools) } });
    token = await gate.token(['tools:s:*']);
  });
  afterAll(async () => {
    await gate.stop();
    folder.remove();
  });

  /** What became of this text of arguments: the code, the findings, and the line that the server read, if any. */
  const take = async (text: string) => {
    const before = gate.executions().length;
    const intent = { type: 'function_call', call_id: crypto.randomUUID(), name: 's__take', arguments: text };
    const { headers, body } = await gate.post<{ output: string }>('/v1/calls', intent, { token });
    const got = gate.executions()[before] as (Execution & { raw: string }) | undefined;
    const sent = got === undefined ? undefined : got.raw.match(/"arguments":(\{.*?\})[,}]/)?.[1];
    return { code: headers.get('callgate-code') ?? undefined, output: body.output, sent };
  };

  test.each([
    ['{"sheet":"1"}', '{"sheet":"1"}'],
    ['{"sheet": "x", "id": 3}', '{"sheet":"x","id":3}'],
    ['"{\\"sheet\\":\\"1\\"}"', '{"sheet":"1"}'],
    ['{}', '{}'],
  ])('%s arrives as %s, with nothing added', async (text, sent) => {
    expect(await take(text)).toMatchObject({ code: undefined, sent });
  });

  test.each([
    ['{"tags":"[\\"x\\"]"}', '/tags', 'array'],
    ['{"depth":"3"}', '/depth', 'integer'],
    ['{"sheet":1}', '/sheet', 'string'],
    ['{"sheet":"1","extra":true}', 'extra', ''],
    ['"\\"{\\\\\\"sheet\\\\\\":\\\\\\"1\\\\\\"}\\""', 'object', ''],
    ['{"sheet":"1"}{"sheet":"2"}', '', ''],
    ['{"sheet":"1","sheet":"2"}', 'sheet', ''],
    ['{"id":1e999}', '', ''],
    ['{"id":NaN}', '', ''],
  ])('%s is refused, with path and type, and nothing is sent', async (text, path, wanted) => {
    const { code, output, sent } = await take(text);
    expect([code, sent]).toEqual(['invalid_arguments', undefined]);
    expect(output).toContain(path);
    expect(output).toContain(wanted);
  });

  test('a number beyond 2^53 arrives with all its digits, or is not sent', async () => {
    const { code, sent } = await take('{"id":1917043659912705296}');
    expect([code, sent]).toEqual(
      canCarryDigits ? [undefined, '{"id":1917043659912705296}'] : ['invalid_arguments', undefined],
    );
  });
});
