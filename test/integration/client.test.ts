import { writeFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { CallgateError, type Client, createClient } from '../../src/client/client.ts';
import { type Callgate, startCallgate } from '../support/callgate.ts';
import { labServer } from '../support/lab.ts';
import { scriptedServer, scriptFolder } from '../support/scripted.ts';
import { TcpProxy } from '../support/tcp-proxy.ts';
import { until } from '../support/until.ts';

let folder: ReturnType<typeof scriptFolder>;
let gate: Callgate;
let proxy: TcpProxy;
let client: Client;
let statuses: number[] = [];

const slow = ['cut', 'early', 'late', 'nameless', 'ended'];

beforeAll(async () => {
  folder = scriptFolder();
  const pay = (name: string) => ({
    definition: { name, inputSchema: { type: 'object' } },
    waitsFor: folder.path(name),
    result: { content: [{ type: 'text', text: `${name} is paid` }] },
  });
  gate = await startCallgate({
    mcpServers: { shop: scriptedServer(folder.path('tools.json'), slow.map(pay)), lab: labServer() },
  });
  const { hostname, port } = new URL(gate.url);
  proxy = await TcpProxy.open({ host: hostname, port: Number(port) });
  client = createClient({
    url: proxy.through(gate.url),
    token: () => gate.token(['tools:shop:*', 'tools:lab:*']),
    timeoutMs: 30_000,
    fetch: async (input, init) => {
      const response = await fetch(input, init);
      statuses.push(response.status);
      return response;
    },
  });
});
afterAll(async () => {
  await proxy.close();
  await gate.stop();
  folder.remove();
});

const use = (id: string, name: string, input: object = {}) => ({ type: 'tool_use', id, name, input });
const executions = (name: string): number => gate.executions().filter(({ tool }) => tool === name).length;

describe('the client', () => {
  test('gets declarations once and asks only whether they have changed', async () => {
    statuses = [];
    const first = await client.declarations({ format: 'anthropic', server: 'shop' });
    const second = await client.declarations({ format: 'anthropic', server: 'shop' });
    expect(first.tools.map((tool) => tool.name)).toEqual(slow.map((name) => `shop__${name}`).sort());
    expect(second).toEqual(first);
    expect(statuses).toEqual([200, 304]);
  });

  test('runs the calls of an answer, whatever becomes of each', async () => {
    const answer = {
      content: [use('a', 'lab__echo', { text: 'hi' }), use('b', 'lab__fail'), use('c', 'clock')],
    };
    const { append, calls, left } = await client.turn(answer, { format: 'anthropic', unknown: 'leave' });
    expect(append).toEqual([
      {
        role: 'user',
        content: [
          { type: 'tool_result', tool_use_id: 'a', content: 'hi' },
          { type: 'tool_result', tool_use_id: 'b', content: 'quota exceeded', is_error: true },
        ],
      },
    ]);
    expect(calls.map(({ status, code }) => [status, code])).toEqual([
      ['succeeded', undefined],
      ['failed', 'tool_error'],
    ]);
    expect(left).toEqual([{ index: 2, call_id: 'c', name: 'clock' }]);
  });

  test('runs nothing twice when its connection is cut in the middle', async () => {
    const answer = { content: [use('cut', 'shop__cut')] };
    const turn = client.turn(answer, { format: 'anthropic', run: 'r', turn: '1' });
    await until(() => executions('cut') === 1);
    proxy.cut();
    writeFileSync(folder.path('cut'), '');
    const { append, calls } = await turn;
    expect(append[0]?.content[0]?.content).toBe('cut is paid');
    expect(calls[0]).toMatchObject({ status: 'succeeded', replay_protected: true });
    expect(executions('cut')).toBe(1);
  });

  test('waits for calls that take longer than a request is held', async () => {
    statuses = [];
    const answer = { output: [{ type: 'function_call', call_id: 'e', name: 'shop__early', arguments: '' }] };
    const turn = client.turn(answer, { format: 'openai-responses', wait: 0 });
    await until(() => statuses.length === 1);
    writeFileSync(folder.path('early'), '');
    expect((await turn).calls[0]).toMatchObject({ status: 'succeeded' });
    expect(statuses[0]).toBe(202);
    expect(statuses.at(-1)).toBe(200);
    expect(executions('early')).toBe(1);
  });

  test('knows a call without an id again while it waits', async () => {
    const answer = { message: { role: 'assistant', tool_calls: [{ function: { name: 'shop__nameless' } }] } };
    statuses = [];
    const turn = client.turn(answer, { format: 'ollama', wait: 0 });
    await until(() => statuses.length === 1);
    writeFileSync(folder.path('nameless'), '');
    const { append, calls } = await turn;
    expect(append).toMatchObject([{ role: 'tool', tool_name: 'shop__nameless' }]);
    expect(calls[0]).toMatchObject({ status: 'succeeded', replay_protected: true });
    expect(executions('nameless')).toBe(1);
  });

  test('gives up in time, and the same turn again collects what has run', async () => {
    const answer = { content: [use('late', 'shop__late')] };
    const error = await client.turn(answer, { format: 'anthropic', wait: 0, timeoutMs: 500 }).catch(String);
    expect(error).toMatch(/^CallgateError: calls have not ended in 500 ms/);
    writeFileSync(folder.path('late'), '');
    const { calls } = await client.turn(answer, { format: 'anthropic' });
    expect(calls[0]).toMatchObject({ status: 'succeeded' });
    expect(executions('late')).toBe(1);
  });

  test('runs one call and looks it up', async () => {
    const call = {
      type: 'function_call',
      call_id: 'one',
      name: 'lab__echo',
      arguments: { text: 'x' },
    } as const;
    const first = await client.call(call, { run: 'r2', render: 'text' });
    expect(first).toMatchObject({
      output: { call_id: 'one', output: 'x' },
      status: 'succeeded',
      replayed: false,
    });
    expect(await client.call(call, { run: 'r2' })).toMatchObject({ id: first.id, replayed: true });
    expect(await client.record(first.id)).toMatchObject({ id: first.id, run: 'r2', status: 'succeeded' });
    expect(await client.cancel(first.id)).toMatchObject({ id: first.id, status: 'succeeded' });
    await client.endRun('r2');
  });

  test('cancels a call that runs', async () => {
    const answer = { content: [use('ended', 'shop__ended')] };
    const turn = client.turn(answer, { format: 'anthropic', wait: 0 });
    await until(() => executions('ended') === 1);
    const token = await gate.token(['tools:shop:*']);
    const list = await gate.get<{ calls: { id: string }[] }>('/v1/calls?call_id=ended', { token });
    await client.cancel(list.body.calls[0]?.id ?? '');
    expect((await turn).calls[0]).toMatchObject({ code: 'cancelled', may_have_executed: true });
  });

  test('says why a request was refused', async () => {
    const stranger = createClient({ url: gate.url, token: 'no-token' });
    const error: unknown = await stranger.declarations({ format: 'mcp' }).catch((thrown) => thrown);
    expect(error).toBeInstanceOf(CallgateError);
    expect(error).toMatchObject({ code: 'invalid_token', status: 401, requestId: expect.any(String) });
  });
});
