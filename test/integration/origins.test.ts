import { mkdtempSync, realpathSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Callgate, type ConfigFile, runCli, startCallgate } from '../support/callgate.ts';
import { exampleConfig } from '../support/example-config.ts';
import { labConfig, labServer, startHttpLab } from '../support/lab.ts';
import { everythingServer } from '../support/reference-servers.ts';

interface Tool {
  readonly name: string;
  readonly description: string;
  readonly parameters: Record<string, unknown>;
}

interface ServerEntry {
  readonly alias: string;
  readonly state: string;
  readonly stage?: string;
  readonly last_error?: string;
}

interface TurnAnswer {
  readonly append: readonly { readonly type: string; readonly call_id: string; readonly output: string }[];
  readonly calls: readonly { readonly call_id: string; readonly status: string; readonly code?: string }[];
}

/** Starts a callgate for one test, with a token for everything, and stops it afterwards whatever happens. */
async function withCallgate(
  config: ConfigFile,
  body: (gate: Callgate, token: string) => Promise<void>,
): Promise<void> {
  const gate = await startCallgate(config);
  try {
    const scopes = Object.keys(config.mcpServers).map((alias) => `tools:${alias}:*`);
    await body(gate, await gate.token([...scopes, 'callgate:operate']));
  } finally {
    await gate.stop();
  }
}

async function declared(gate: Callgate, token: string): Promise<readonly Tool[]> {
  const { body } = await gate.get<{ tools: readonly Tool[] }>('/v1/declarations?format=openai-responses', {
    token,
  });
  return body.tools;
}

const names = async (gate: Callgate, token: string) => (await declared(gate, token)).map((tool) => tool.name);

async function server(gate: Callgate, token: string, alias: string): Promise<ServerEntry | undefined> {
  const { body } = await gate.get<{ servers: readonly ServerEntry[] }>('/v1/servers', { token });
  return body.servers.find((entry) => entry.alias === alias);
}

const turnOf = (name: string, inputs: readonly unknown[]) =>
  inputs.map((input, index) => ({
    type: 'function_call',
    call_id: `call_${index}`,
    name,
    arguments: JSON.stringify(input),
  }));

interface Whereabouts {
  readonly pid: number;
  readonly cwd: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
}

async function whereabouts(
  gate: Callgate,
  token: string,
  headers?: Record<string, string>,
): Promise<Whereabouts> {
  const { envelope } = await gate.call(token, crypto.randomUUID(), 'lab__where', {}, headers);
  return JSON.parse(envelope.content[0]?.text ?? '') as Whereabouts;
}

describe('L: an MCP plugin of an agent library', () => {
  test('L1: a stdio server gets its command, args, env and cwd', async () => {
    const cwd = realpathSync(mkdtempSync(join(tmpdir(), 'callgate-cwd-')));
    const { command, args } = labServer() as { command: string; args: readonly string[] };
    const entry = labServer({
      command,
      args: [...args, '--colour', 'two words'],
      cwd,
      env: { LAB_SOURCE: 'shelf' },
    });

    await withCallgate({ mcpServers: { lab: entry } }, async (gate, token) => {
      const where = await whereabouts(gate, token);
      expect(where.cwd).toBe(cwd);
      expect(where.args).toEqual(['--colour', 'two words']);
      expect(where.env.LAB_SOURCE).toBe('shelf');
    });
  });

  test('L1: a Streamable HTTP server gets its url and headers', async () => {
    const log = join(mkdtempSync(join(tmpdir(), 'callgate-http-')), 'executions.jsonl');
    const lab = await startHttpLab(log);
    const entry = { url: lab.url, headers: { Authorization: 'Bearer for-the-lab', 'X-Team': 'desk' } };
    const gate = await startCallgate({ mcpServers: { lab: entry } }, { executionsLog: log });
    try {
      const { envelope } = await gate.call(await gate.token(['tools:lab:*']), 'call_http', 'lab__echo', {
        text: 'hello',
      });
      expect(envelope).toMatchObject({ ok: true, content: [{ text: 'hello' }] });
      expect(gate.executions()[0]?.headers).toMatchObject({
        authorization: 'Bearer for-the-lab',
        'x-team': 'desk',
      });
    } finally {
      await gate.stop();
      lab.stop();
    }
  });

  test('L2: the alias becomes the prefix of the tools, and two equal aliases end the start', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'callgate-twice-'));
    const entry = JSON.stringify(labServer());
    writeFileSync(join(folder, 'callgate.json'), `{"mcpServers":{"lab":${entry},"lab":${entry}}}`);

    const { code, stderr } = await runCli(['serve', '--config', join(folder, 'callgate.json')]);
    expect(code).toBe(78);
    expect(stderr).toMatch(/callgate\.json:1:\d+.*lab/);

    await withCallgate(labConfig(), async (gate, token) => {
      for (const name of await names(gate, token)) expect(name).toMatch(/^lab__/);
    });
  });

  test('L3: include and exclude choose tools by the names that the server gives them', async () => {
    await withCallgate(
      labConfig({ include: ['echo', 'co*', 'crash'], exclude: ['crash'] }),
      async (gate, token) => {
        expect(await names(gate, token)).toEqual(['lab__count', 'lab__echo']);
        const { envelope } = await gate.call(token, 'call_left_out', 'lab__where', {});
        expect(envelope.error?.code).toBe('unknown_tool');
      },
    );
  });

  test('L5: each tool has its own time limit, length of output and rendering', async () => {
    const tools = { hang: { timeoutMs: 200 }, long: { outputCharsMax: 100 }, 'e*': { render: 'text' } };
    await withCallgate(labConfig({ tools }), async (gate, token) => {
      const hang = await gate.call(token, 'call_hang', 'lab__hang', {});
      expect(hang.headers.get('callgate-status')).toBe('unknown');
      expect(hang.envelope).toMatchObject({ ok: false, error: { code: 'timeout', may_have_executed: true } });

      const long = await gate.call(token, 'call_long', 'lab__long', { chars: 5_000 });
      expect(long.envelope.ok).toBe(true);
      expect(long.envelope.content[0]?.text.length).toBeLessThanOrEqual(100);
      expect(long.envelope.content[0]?.text).toMatch(/^x+.*more characters/);

      const echo = {
        type: 'function_call',
        call_id: 'call_echo',
        name: 'lab__echo',
        arguments: '{"text":"plain"}',
      };
      const { body } = await gate.post('/v1/calls', echo, { token });
      expect(body).toEqual({ type: 'function_call_output', call_id: 'call_echo', output: 'plain' });
    });
  });

  test('L6, L9: a lost server is opened again, and the call that was lost with it is not repeated', async () => {
    await withCallgate(labConfig(), async (gate, token) => {
      const before = await whereabouts(gate, token);
      const lost = await gate.call(token, 'call_crash', 'lab__crash', {});
      expect(lost.httpStatus).toBe(200);
      expect(lost.envelope.error).toMatchObject({
        code: 'connection_lost',
        server: 'lab',
        may_have_executed: true,
      });

      expect((await whereabouts(gate, token)).pid).not.toBe(before.pid);
      expect(gate.executions().filter((execution) => execution.tool === 'crash')).toHaveLength(1);
    });
  });

  test('L7: one connection serves many runs, also at the same time, and no run closes it', async () => {
    await withCallgate(labConfig(), async (gate, token) => {
      const runs = ['run-a', 'run-b', 'run-c'].map((run) =>
        whereabouts(gate, token, { 'callgate-run': run }),
      );
      const pids = new Set((await Promise.all(runs)).map((where) => where.pid));
      pids.add((await whereabouts(gate, token)).pid);
      expect(pids.size).toBe(1);
    });
  });

  test('L8: a loose input schema is completed, and the tool then is checked like any other', async () => {
    await withCallgate(labConfig(), async (gate, token) => {
      const loose = (await declared(gate, token)).find((tool) => tool.name === 'lab__loose');
      expect(loose?.parameters).toEqual({ type: 'object', properties: {}, required: ['a'] });

      const refused = await gate.call(token, 'call_bad', 'lab__loose', { b: 1 });
      expect(refused.envelope.error?.code).toBe('invalid_arguments');
      const taken = await gate.call(token, 'call_good', 'lab__loose', { a: 1 });
      expect(taken.envelope.content[0]?.text).toBe('{"a":1}');
    });
  });

  test('L9: an error of the tool becomes a text for the model to read', async () => {
    await withCallgate(labConfig({ render: 'text' }), async (gate, token) => {
      const intent = { type: 'function_call', call_id: 'call_fail', name: 'lab__fail', arguments: '{}' };
      const { body, headers } = await gate.post('/v1/calls', intent, { token });
      expect(body).toEqual({
        type: 'function_call_output',
        call_id: 'call_fail',
        output: '[tool error] quota exceeded',
      });
      expect(headers.get('callgate-code')).toBe('tool_error');
    });
  });

  test('L10: text stays inline, media become markers with their size, a link becomes one line', async () => {
    await withCallgate(labConfig({ render: 'text' }), async (gate, token) => {
      const intent = { type: 'function_call', call_id: 'call_media', name: 'lab__media', arguments: '{}' };
      const { body } = await gate.post<{
        output: readonly { type: string; text?: string; image_url?: string }[];
      }>('/v1/calls', intent, { token });
      const [text, image] = body.output;
      expect(text?.text?.split('\n')).toEqual([
        'a picture and a sound',
        '[image image/png, 70 bytes, attached]',
        '[audio audio/wav, 70 bytes, not shown]',
        '[resource link] manual https://example.com/manual',
        '[resource file:///note.txt]',
        'an embedded note',
      ]);
      expect(image?.image_url).toMatch(/^data:image\/png;base64,/);
      expect(text?.text).not.toContain('iVBOR');
    });
  });

  test('L11: calls run at the same time, and concurrencyMax separates those of one server', async () => {
    await withCallgate(labConfig({ concurrencyMax: 1 }), async (gate, token) => {
      const { body } = await gate.post<TurnAnswer>('/v1/turns', turnOf('lab__count', [{}, {}, {}, {}]), {
        token,
      });
      const insideAtOnce = body.append.map((item) => JSON.parse(item.output).content[0].text);
      expect(insideAtOnce).toEqual(['1', '1', '1', '1']);
    });
    await withCallgate(labConfig(), async (gate, token) => {
      const { body } = await gate.post<TurnAnswer>(
        '/v1/turns',
        turnOf('lab__meet', [{ party: 2 }, { party: 2 }]),
        {
          token,
        },
      );
      expect(body.calls.map((call) => call.status)).toEqual(['succeeded', 'succeeded']);
    });
  });

  test("L12: a stdio server gets a minimal environment, not its host's", async () => {
    const gate = await startCallgate(labConfig(), { env: { HOST_SECRET: 'do-not-hand-on' } });
    try {
      const { env } = await whereabouts(gate, await gate.token(['tools:lab:*']));
      const inherited = Object.keys(env).filter((name) => name !== 'EXECUTIONS_LOG');
      expect(['HOME', 'LOGNAME', 'PATH', 'SHELL', 'TERM', 'USER']).toEqual(expect.arrayContaining(inherited));
      expect(inherited).toContain('PATH');
    } finally {
      await gate.stop();
    }
  });

  test('L13: of a server that also has prompts, resources and sampling, only tools are offered', async () => {
    await withCallgate({ mcpServers: { everything: everythingServer } }, async (gate, token) => {
      const offered = await names(gate, token);
      expect(offered).toContain('everything__echo');
      // These appear only for hosts that say they can sample, elicit or name roots.
      expect(offered.filter((name) => /sampling|elicitation|roots/.test(name))).toEqual([]);
      expect((await gate.get('/v1/prompts', { token })).status).toBe(404);
    });
  });
});

describe('M: a synchronous tool source for a small agent', () => {
  let gate: Callgate;
  let token: string;

  beforeAll(async () => {
    gate = await startCallgate(labConfig({ tools: { hang: { timeoutMs: 200 } } }));
    token = await gate.token(['tools:lab:*', 'callgate:operate']);
  });
  afterAll(() => gate.stop());

  test('M1: a server is connected once, not once a call, and its process ends with callgate', async () => {
    const own = await startCallgate(labConfig());
    const reader = await own.token(['tools:lab:*']);
    const pids = [await whereabouts(own, reader), await whereabouts(own, reader)].map((where) => where.pid);
    expect(pids[0]).toBe(pids[1]);

    expect(await own.stop()).toBe(0);
    expect(() => process.kill(pids[0] ?? 0, 0)).toThrow('ESRCH');
  });

  test('M1: connecting has a time limit, and a server that never answers holds up no other', async () => {
    const silent = { command: process.execPath, args: ['-e', 'setInterval(() => {}, 1000)'] };
    const config = {
      mcpServers: { silent, lab: labServer() },
      callgate: { servers: { silent: { connectTimeoutMs: 200 } } },
    };
    await withCallgate(config, async (mixed, operator) => {
      expect(await server(mixed, operator, 'silent')).toMatchObject({ stage: 'initialize' });
      expect((await server(mixed, operator, 'silent'))?.last_error).toBeTruthy();
      expect((await whereabouts(mixed, operator)).pid).toBeGreaterThan(0);

      const { envelope } = await mixed.call(operator, 'call_silent', 'silent__anything', {});
      expect(envelope.error).toMatchObject({ code: 'server_unavailable', may_have_executed: false });
      expect(envelope.error?.message).toContain('silent');
    });
  });

  test('M2: a name that two servers share is told apart by its prefix', async () => {
    await withCallgate(exampleConfig(), async (two, reader) => {
      const search = (await names(two, reader)).filter((name) => name.endsWith('search'));
      expect(search).toEqual(['docs__search', 'tickets__search']);
    });
  });

  test('M3: the description that a model sees can be written by the operator', async () => {
    const settings = { descriptionPrefix: '[lab]', tools: { echo: { description: 'Says it again.' } } };
    await withCallgate(labConfig(settings), async (own, reader) => {
      const tools = await declared(own, reader);
      expect(tools.find((tool) => tool.name === 'lab__echo')?.description).toBe('[lab] Says it again.');
      expect(tools.find((tool) => tool.name === 'lab__hang')?.description).toBe("[lab] The lab's hang.");
    });
  });

  test('M4: whatever goes wrong becomes an output under the id of its call, and the next call works', async () => {
    const faults = [
      ['lab__nothing', 'unknown_tool'],
      ['lab__fail', 'tool_error'],
      ['lab__throw', 'server_error'],
      ['lab__hang', 'timeout'],
      ['lab__crash', 'connection_lost'],
    ] as const;
    for (const [name, code] of faults) {
      const { httpStatus, item, envelope } = await gate.call(token, `call_${name}`, name, {});
      expect(httpStatus, name).toBe(200);
      expect(item, name).toMatchObject({ type: 'function_call_output', call_id: `call_${name}` });
      expect(envelope, name).toMatchObject({ ok: false, error: { code } });
    }
    expect((await gate.call(token, 'call_after', 'lab__echo', { text: 'still here' })).envelope.ok).toBe(
      true,
    );
  });

  test('M5: a tool that failed and a call that failed are told apart', async () => {
    const tool = await gate.call(token, 'call_tool', 'lab__fail', {});
    expect(tool.headers.get('callgate-status')).toBe('failed');
    expect(tool.envelope.content[0]?.text).toBe('quota exceeded');

    const call = await gate.call(token, 'call_call', 'lab__crash', {});
    expect(call.headers.get('callgate-status')).toBe('unknown');
    expect(call.envelope.content).toEqual([]);
  });

  test('M6: content other than text is handed on whole where the format is neutral', async () => {
    const { body } = await gate.post<{
      append: readonly { result: { content: readonly { type: string }[] } }[];
    }>('/v1/turns?format=mcp', [{ id: 'call_media', name: 'lab__media', arguments: {} }], { token });
    const types = body.append[0]?.result.content.map((block) => block.type);
    expect(types).toEqual(['text', 'image', 'audio', 'resource_link', 'resource']);
  });

  test('M7: to the model a remote tool looks like any other function', async () => {
    for (const tool of await declared(gate, token)) {
      expect(Object.keys(tool).sort()).toEqual(['description', 'name', 'parameters', 'strict', 'type']);
      expect(tool.name).toMatch(/^[A-Za-z0-9_-]{1,64}$/);
    }
  });

  test('M8: the calls of one turn run at the same time, and their outputs keep its order', async () => {
    const { body } = await gate.post<TurnAnswer>(
      '/v1/turns',
      turnOf('lab__meet', [{ party: 3 }, { party: 3 }, { party: 3 }]),
      { token },
    );
    expect(body.append.map((item) => item.call_id)).toEqual(['call_0', 'call_1', 'call_2']);
    for (const item of body.append) expect(JSON.parse(item.output).content[0].text).toBe('met 3');
  });
});
