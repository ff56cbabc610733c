import { readFileSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingHttpHeaders, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { json } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type CallAnswer, type Callgate, startCallgate, startDev } from '../support/callgate.ts';
import { labServer } from '../support/lab.ts';
import { scriptedServer, scriptFolder } from '../support/scripted.ts';
import { until } from '../support/until.ts';

const forged = '\r\nlevel=info msg="admin login ok"\u001b[2J\u009b2J\u2028';
const secrets = {
  urlPassword: 'canary-pw1',
  urlQuery: 'canary-K2',
  header: 'canary-T3',
  env: 'canary-E4',
  argument: 'canary-P5',
};

/** A server that repeats its credentials wherever it can. */
async function startLeakyServer(seen: IncomingHttpHeaders[]): Promise<{ server: Server; url: URL }> {
  const server = createServer((request, response) => {
    void (async () => {
      seen.push(request.headers);
      if (request.method !== 'POST') return void response.writeHead(405).end();
      const { id, method, params } = (await json(request)) as {
        id?: number;
        method: string;
        params: { protocolVersion: string };
      };
      const leak = `${String(request.headers.authorization)} ${String(request.headers['x-key'])} ${request.url} ${forged}`;
      const answer = (status: number, body: object): void =>
        void response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
      switch (method) {
        case 'initialize': {
          const serverInfo = { name: leak, version: '1' };
          const result = { protocolVersion: params.protocolVersion, capabilities: { tools: {} }, serverInfo };
          return answer(200, { jsonrpc: '2.0', id, result });
        }
        case 'tools/list': {
          const names = ['fail', 'refuse', `odd${forged}`];
          const tools = names.map((name) => ({ name, description: 'x', inputSchema: { type: 'object' } }));
          const broken = { name: `broken${forged}`, inputSchema: { $ref: `#/${leak}` } };
          return answer(200, { jsonrpc: '2.0', id, result: { tools: [...tools, broken] } });
        }
        case 'tools/call':
          return (params as { name?: string }).name === 'refuse'
            ? answer(200, { jsonrpc: '2.0', id, error: { code: -32603, message: `no: ${leak}` } })
            : answer(500, { message: leak });
        default:
          return void response.writeHead(202).end();
      }
    })();
  });
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve);
  });
  const { port } = server.address() as AddressInfo;
  return { server, url: new URL(`http://127.0.0.1:${port}/mcp`) };
}

describe('canaries over every sink, at the loudest log level (O24, AUTH-23, MT-14)', () => {
  const folder = scriptFolder();
  const headers: IncomingHttpHeaders[] = [];
  const answers: CallAnswer[] = [];
  const readings: string[] = [];
  let server: Server;
  let gate: Callgate;
  let token: string;
  let environment: string;

  beforeAll(async () => {
    const leaky = await startLeakyServer(headers);
    server = leaky.server;
    const { host } = leaky.url;
    const file = folder.path('callgate.json');
    writeFileSync(
      file,
      JSON.stringify({
        mcpServers: {
          web: {
            url: `http://user:${secrets.urlPassword}@${host}/mcp?key=${secrets.urlQuery}`,
            headers: { 'X-Key': `Bearer ${secrets.header}` },
          },
          lab: labServer({ env: { LAB_SECRET: secrets.env } }),
          dying: {
            command: process.execPath,
            args: ['-e', `console.error(process.env.SECRET + ${JSON.stringify(forged)}); process.exit(3)`],
            env: { SECRET: secrets.env },
          },
        },
        callgate: { listen: { port: 0, metrics: '127.0.0.1:0' } },
      }),
    );
    gate = await startDev(['--config', file, '--log-level', 'debug']);
    token = await gate.token(['tools:*:*', 'callgate:operate']);
    const call = async (id: string, name: string, input: unknown): Promise<CallAnswer> => {
      const answer = await gate.call(token, id, name, input);
      answers.push(answer);
      return answer;
    };

    const { body } = await gate.get<{ tools: { name: string }[] }>('/v1/declarations', { token });
    readings.push(JSON.stringify(body));
    const odd = body.tools.find(({ name }) => name.startsWith('web__odd'))?.name ?? '';
    const names = ['web__fail', 'web__refuse', odd, 'lab__fail', `lab__${forged}`.slice(0, 60)];
    for (const [index, name] of names.entries()) {
      await call(`id${index}${forged}`, name, { password: secrets.argument });
    }
    await call('c-wrong', 'lab__echo', { text: { password: secrets.argument }, [secrets.argument]: 1 });
    await call('c-crash', 'lab__crash', { password: secrets.argument });
    environment = (await call('c-where', 'lab__where', {})).envelope.content[0]?.text ?? '';

    const { metrics_url: metricsUrl } = await gate.logged(({ event }) => event === 'service.listening');
    readings.push(await (await fetch(`${String(metricsUrl)}/metrics`)).text());
    const { body: health } = await gate.get('/v1/servers', { token });
    readings.push(JSON.stringify(health));
    const refusals = [
      await gate.post('/v1/calls', { password: secrets.argument, call_id: forged }, { token }),
      await gate.post('/v1/calls', `{"password":"${secrets.argument}`, { token }),
      await gate.get('/v1/servers', { token: `${token}x` }),
      await gate.get(`/v1/${encodeURIComponent(forged)}?access_token=${token}`),
    ];
    for (const { status, body: problem } of refusals) {
      expect(status).toBeGreaterThanOrEqual(400);
      readings.push(JSON.stringify(problem));
    }
    readings.push(readFileSync(`${gate.folder}/executions.jsonl`, 'utf8'));
    await until(() => gate.logs().filter(({ event }) => event === 'call.finished').length === answers.length);
    await gate.stop();
  });
  afterAll(() => {
    server.closeAllConnections();
    server.close();
    folder.remove();
  });

  const logText = (): string =>
    gate
      .logs()
      .map((line) => JSON.stringify(line))
      .join('\n');
  const outputText = (): string =>
    answers
      .slice(0, -1)
      .map(({ item }) => JSON.stringify(item))
      .join('\n');

  test('the servers got the credentials that are theirs, so the canaries were there to be leaked', () => {
    const basic = `Basic ${Buffer.from(`user:${secrets.urlPassword}`).toString('base64')}`;
    expect(headers.every((sent) => sent.authorization === basic)).toBe(true);
    expect(headers.every((sent) => sent['x-key'] === `Bearer ${secrets.header}`)).toBe(true);
    expect(answers).toHaveLength(8);
    expect(gate.logs().length).toBeGreaterThan(answers.length);
  });

  test('no secret of the configuration and no argument is in logs, outputs, health, metrics or error bodies', () => {
    const readable = [logText(), outputText(), ...readings.slice(0, -1)].join('\n');
    for (const [name, secret] of Object.entries(secrets))
      expect([name, readable.includes(secret)]).toEqual([name, false]);
    const basic = Buffer.from(`user:${secrets.urlPassword}`).toString('base64');
    expect(readable.includes(basic)).toBe(false);
  });

  test("the caller's token, and its beginning, reach no sink, no server and no child", () => {
    const sinks = [logText(), outputText(), environment, JSON.stringify(headers), ...readings].join('\n');
    for (const part of token.split('.').slice(1)) expect(sinks.includes(part.slice(0, 20))).toBe(false);
  });

  test('what a model reads has the class of the fault, and no stack and no path', () => {
    expect(answers.map(({ envelope }) => envelope.error?.code)).toEqual([
      'protocol_error',
      'server_error',
      'protocol_error',
      'tool_error',
      'unknown_tool',
      'invalid_arguments',
      'connection_lost',
      undefined,
    ]);
    expect(outputText()).not.toMatch(/\bat [\w.]+ \(|node_modules|\/src\/|\/dist\/|\.m?[jt]s:\d/);
  });
});

test('whatever foreign text says, a log record is one line of JSON without control characters (O24)', async () => {
  const folder = scriptFolder();
  const definition = { name: `odd${forged}`, inputSchema: { type: 'object' } };
  const noisy = `console.error(${JSON.stringify(forged)}); console.log(${JSON.stringify(forged)}); process.exit(3)`;
  const gate = await startCallgate({
    mcpServers: {
      odd: scriptedServer(folder.path('tools.json'), [
        { definition },
        { definition: { ...definition, name: `broken${forged}`, inputSchema: { type: forged } } },
      ]),
      noisy: { command: process.execPath, args: ['-e', noisy] },
    },
  });
  const token = await gate.token(['tools:odd:*'], { sub: `me${forged}` });
  const { body } = await gate.get<{ tools: { name: string }[] }>('/v1/declarations', { token });
  const answer = await gate.call(token, `id${forged}`, body.tools[0]?.name ?? '', {});
  await gate.stop();
  folder.remove();

  expect(answer.item.call_id).toBe(`id${forged}`);
  const lines = gate.stdout().split('\n').filter(Boolean);
  expect(lines.length).toBeGreaterThan(4);
  for (const line of lines) expect(line).toMatch(/^\{"/);
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what must not be there
  expect(lines.filter((line) => /[\u0000-\u001f\u007f-\u009f\u2028\u2029]/.test(line))).toEqual([]);
});
