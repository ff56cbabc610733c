import { execFileSync } from 'node:child_process';
import { chmod, mkdtemp, realpath, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { type CallToolResult, CallToolResultSchema, McpError } from '@modelcontextprotocol/sdk/types.js';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { EventFields } from '../../src/core/events.ts';
import { createRedactor } from '../../src/core/redact.ts';
import { localFault } from '../../src/upstream/answer-faults.ts';
import { NotSentError } from '../../src/upstream/stdio/batch-writer.ts';
import { killAllGroups, SpawnError } from '../../src/upstream/stdio/child-process.ts';
import { type StdioSettings, StdioTransport } from '../../src/upstream/stdio/stdio-transport.ts';

const faultServer = fileURLToPath(new URL('../support/fault-server.mjs', import.meta.url));
const secret = 's3cret-t0ken';

let folder: string;
let opened: { transport: StdioTransport; pid: number | undefined }[];
let events: { level: string; event: string; fields: EventFields }[];
const log = {
  info: (event: string, fields: EventFields) => void events.push({ level: 'info', event, fields }),
  warn: (event: string, fields: EventFields) => void events.push({ level: 'warn', event, fields }),
  error: (event: string, fields: EventFields) => void events.push({ level: 'error', event, fields }),
};
const named = (event: string) => events.filter((entry) => entry.event === event).map(({ fields }) => fields);

/** The processes that still run, of one group or with one pid. One that has ended and waits to be reaped does not run. */
const running = (kind: 'pid' | 'pgid', id: number): string[] =>
  execFileSync('ps', ['-A', '-o', `${kind}=,stat=,args=`], { encoding: 'utf8' })
    .split('\n')
    .filter((line) => line.trim().startsWith(`${id} `) && !line.trim().startsWith(`${id} Z`));

beforeEach(async () => {
  opened = [];
  events = [];
  folder = await realpath(await mkdtemp(join(tmpdir(), 'callgate-stdio-')));
});

afterEach(async () => {
  for (const { transport, pid } of opened) {
    await transport.close();
    expect(pid === undefined ? [] : running('pgid', pid)).toEqual([]);
  }
  expect(named('server.processes_left')).toEqual([]);
  await rm(folder, { recursive: true });
});

function open(words: readonly string[] = [], changes: Partial<StdioSettings> = {}): StdioTransport {
  const transport = new StdioTransport({
    alias: 'faulty',
    command: process.execPath,
    args: [faultServer, ...words],
    env: {},
    cwd: folder,
    messageBytesMax: 8 * 1_048_576,
    stopGraceMs: 400,
    log,
    redact: createRedactor([secret]),
    ...changes,
  });
  const entry = { transport, pid: undefined as number | undefined };
  opened.push(entry);
  const start = transport.start.bind(transport);
  transport.start = async () => {
    await start();
    entry.pid = transport.pid;
  };
  return transport;
}

async function connect(words: readonly string[] = [], changes: Partial<StdioSettings> = {}) {
  const transport = open(words, changes);
  const client = new Client({ name: 'test', version: '1' }, { capabilities: {} });
  const errors: Error[] = [];
  client.onerror = (error) => errors.push(error);
  await client.connect(transport);
  const call = (name: string, args: Record<string, unknown> = {}): Promise<CallToolResult> =>
    client.request({ method: 'tools/call', params: { name, arguments: args } }, CallToolResultSchema, {
      timeout: 30_000,
    });
  const textOf = async (name: string, args: Record<string, unknown> = {}): Promise<string> => {
    const [block] = (await call(name, args)).content;
    return block?.type === 'text' ? block.text : '';
  };
  return { transport, client, call, textOf, errors };
}

const rejection = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => {
      throw new Error('this was to fail');
    },
    (error: unknown) => error,
  );

describe('starting', () => {
  test('the child gets exactly the environment and the folder of its settings', async () => {
    process.env.CALLGATE_TEST_CANARY = 'must not be seen';
    const { textOf, transport } = await connect([], { env: { SOURCE: 'docs' } });
    delete process.env.CALLGATE_TEST_CANARY;
    const seen = JSON.parse(await textOf('surroundings'));
    expect(seen.env).toEqual({ SOURCE: 'docs' });
    expect(seen.cwd).toBe(folder);
    expect(seen.pid).toBe(transport.pid);
  });

  test.each([
    ['a missing command', { command: '/nowhere/at/all' }, 'command_missing'],
    [
      'a command that PATH does not have',
      { command: 'no-such-command-here', env: { PATH: '/usr/bin' } },
      'command_missing',
    ],
    ['a missing folder', { cwd: '/nowhere/at/all' }, 'cwd_missing'],
    ['a folder that is a file', { cwd: faultServer }, 'cwd_missing'],
    ['an argument that no process can have', { args: ['a\0b'] }, 'spawn_failed'],
  ] as const)('%s is told apart', async (_name, changes, fault) => {
    const transport = open([], changes);
    const error = await rejection(new Client({ name: 'test', version: '1' }).connect(transport));
    expect(error).toBeInstanceOf(SpawnError);
    expect((error as SpawnError).fault).toBe(fault);
    await expect(transport.send({ jsonrpc: '2.0', method: 'x' })).rejects.toBeInstanceOf(NotSentError);
  });

  test('a command that is not executable is told apart', async () => {
    const command = join(folder, 'server');
    await writeFile(command, 'text');
    await chmod(command, 0o644);
    const error = await rejection(open([], { command }).start());
    expect((error as SpawnError).fault).toBe('command_not_executable');
  });

  test('a server that prints its reason and exits leaves the reason and its exit code behind (O12)', async () => {
    const transport = open(['exit-at-start=3']);
    const error = await rejection(new Client({ name: 'test', version: '1' }).connect(transport));
    expect(error).toBeInstanceOf(McpError);
    expect(transport.exitStatus).toEqual({ code: 3, signal: null });
    expect(transport.stderrTail()).toHaveLength(20);
    expect(transport.stderrTail().at(-1)).toBe('cannot start: reason 20');
    expect(named('server.stderr')[0]).toEqual({ server: 'faulty', text: 'cannot start: reason 1' });
  });

  test('closing a transport that was never started, twice, and then starting it, starts nothing', async () => {
    const transport = open();
    await transport.close();
    await transport.close();
    await expect(transport.start()).rejects.toThrow('only once');
  });

  test('closing while the child is being started ends the child', async () => {
    const transport = open();
    const started = transport.start();
    await transport.close();
    await started;
    expect(transport.exitStatus).toBeDefined();
  });
});

describe('reading', () => {
  test('noise before and between messages, and a message in two halves, do no harm (O11)', async () => {
    const { client, textOf } = await connect(['noise']);
    expect(client.getServerVersion()?.name).toBe('fault-server');
    expect(await textOf('noise')).toBe('after the noise');
    expect(await textOf('halves')).toBe('zweite Hälfte');
    await client.close();
    const noise = named('server.stdout_noise');
    expect(noise[0]).toEqual({ server: 'faulty', text: 'server ready' });
    // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is looked for
    for (const { text } of noise) if (text !== undefined) expect(text).not.toMatch(/[\u0000-\u001f]/);
    expect(noise.map(({ text }) => text)).toContain('{"not":"rpc"}');
  });

  test('a flood of junk lines is logged at most ten times a second, and counted', async () => {
    const { client, textOf } = await connect();
    expect(await textOf('junk_lines', { lines: 50_000 })).toBe('after the junk');
    await client.close();
    const noise = named('server.stdout_noise');
    const logged = noise.filter(({ text }) => text !== undefined).length;
    const counted = noise.reduce((sum, { suppressed }) => sum + Number(suppressed ?? 0), 0);
    expect(logged + counted).toBe(50_000);
    expect(logged).toBeLessThan(500);
  });

  test('noise is cut, and secrets in it are redacted', async () => {
    const { textOf } = await connect(['noise'], { redact: createRedactor(['server ready']) });
    await textOf('junk_bytes', { bytes: 1_000_000 });
    const texts = named('server.stdout_noise').map(({ text }) => String(text));
    expect(texts[0]).toBe('[redacted]');
    for (const text of texts) expect(text.length).toBeLessThanOrEqual(200);
  });

  test.each([false, true])(
    'an answer over the limit fails its own call only (O09, id last: %s)',
    async (idLast) => {
      const { call, textOf } = await connect();
      const second = textOf('wait', { ms: 600 });
      const error = await rejection(call('big', { bytes: 12 * 1_048_576, idLast }));
      expect(localFault(error)).toBe('oversize');
      expect(await second).toBe('waited');
      expect(await textOf('echo', { text: 'still here' })).toBe('still here');
      expect(JSON.parse(await textOf('counts')).big).toBe(1);
      expect(named('server.message_oversize')).toHaveLength(1);
    },
  );

  test('a junk line over the limit fails no call', async () => {
    const { textOf } = await connect([], { messageBytesMax: 1_048_576 });
    expect(await textOf('junk_bytes', { bytes: 3 * 1_048_576 })).toBe('after the junk');
  });

  test('an answer just under the limit arrives whole', async () => {
    const { textOf } = await connect([], { messageBytesMax: 1_048_576 });
    expect(await textOf('big', { bytes: 1_048_000 })).toHaveLength(1_048_000);
  });

  test('a result of 64 MB arrives, and costs no more than its length', async () => {
    const { textOf } = await connect([], { messageBytesMax: 70_000_000 });
    const before = process.cpuUsage();
    expect(await textOf('big', { bytes: 64_000_000 })).toHaveLength(64_000_000);
    const { user, system } = process.cpuUsage(before);
    // About 0.3 s; putting it together anew with each piece takes twenty.
    expect((user + system) / 1e6).toBeLessThan(5);
  });

  test('a result without content is one', async () => {
    const { call } = await connect();
    expect((await call('no_content')).content).toEqual([]);
  });

  test.each(['null_result', 'no_result', 'array_result', 'both', 'string_error_code'])(
    'the malformed answer of %s fails its call at once',
    async (tool) => {
      const { call, textOf } = await connect();
      expect(localFault(await rejection(call(tool)))).toBe('malformed_answer');
      expect(await textOf('echo', { text: 'still here' })).toBe('still here');
      expect(named('server.answer_malformed')).toHaveLength(1);
    },
  );

  test('an error that the server made is not taken for one made here', async () => {
    const { call } = await connect();
    const error = await rejection(call('rpc_error', { code: -32603, data: { fault: 'oversize' } }));
    expect(error).toMatchObject({ code: -32603, data: { fault: 'oversize' } });
    expect(localFault(error)).toBeUndefined();
  });

  test('members beside the result do not make the answer unusable', async () => {
    const { textOf } = await connect();
    expect(await textOf('extra_member')).toBe('with extras');
    expect(await textOf('null_meta')).toBe('x');
  });

  test('answers under a text id, under a foreign id and second answers reach no call', async () => {
    const { client, call, textOf, errors } = await connect();
    const caller = new AbortController();
    const waiting = client.request(
      { method: 'tools/call', params: { name: 'string_id', arguments: {} } },
      CallToolResultSchema,
      {
        signal: caller.signal,
      },
    );
    const foreign = client.request(
      { method: 'tools/call', params: { name: 'foreign_id', arguments: {} } },
      CallToolResultSchema,
      {
        signal: caller.signal,
      },
    );
    await call('twice');
    expect(await textOf('echo', { text: 'in order' })).toBe('in order');
    expect(named('server.answer_unmatched')).toHaveLength(2);
    expect(named('server.answer_late')).toHaveLength(1);
    caller.abort(new Error('enough'));
    await expect(waiting).rejects.toThrow('enough');
    await expect(foreign).rejects.toThrow('enough');
    expect(errors).toEqual([]);
  });

  test.each(['odd_id', 'deep_id', 'deep_method'])('%s in a message ends nothing', async (tool) => {
    const { textOf } = await connect();
    expect(await textOf(tool)).toBe('after it');
    for (const { id } of named('server.answer_unmatched')) expect(id).toBe('(object)');
  });

  test('of a thousand pings at once a hundred are answered, and the next one again', async () => {
    const { textOf } = await connect();
    expect(JSON.parse(await textOf('pings', { count: 1_000 }))).toEqual({ answered: 100, later: true });
    expect(named('server.request_dropped').length).toBeGreaterThan(0);
  });

  test.each(['out', 'err'])(
    'a flood without end on std%s starves nothing, and ends the connection with a reason',
    async (where) => {
      const { transport, textOf } = await connect();
      const closed = new Promise<void>((resolve) => {
        const tell = transport.onclose;
        transport.onclose = () => {
          tell?.();
          resolve();
        };
      });
      expect(await textOf('flood', { where })).toBe('it begins');
      expect(await textOf('echo', { text: 'through it' })).toBe('through it');
      await closed;
      expect(transport.endReason).toContain('that nobody had asked for');
    },
    60_000,
  );

  test('the answer to a call that was cancelled is dropped quietly', async () => {
    const { client, textOf, errors } = await connect();
    const caller = new AbortController();
    const slow = client.request(
      { method: 'tools/call', params: { name: 'wait', arguments: { ms: 50 } } },
      CallToolResultSchema,
      {
        signal: caller.signal,
      },
    );
    caller.abort(new Error('enough'));
    await expect(slow).rejects.toThrow('enough');
    await textOf('wait', { ms: 100 });
    expect(errors).toEqual([]);
  });

  test('stderr is always read, and what is kept of it is bounded, redacted and printable (O12)', async () => {
    const { transport, textOf } = await connect();
    await textOf('stderr_line', { text: `\u001b[31mtoken ${secret}` });
    expect(transport.stderrTail()).toEqual(['[31mtoken [redacted]']);
    for (let round = 0; round < 50; round += 1) expect(await textOf('stderr_flood')).toBe('flooded');
    await transport.close();
    expect(transport.stderrTail().join('').length).toBeLessThanOrEqual(32_768);
  });
});

describe('writing', () => {
  test('messages keep their order and arrive whole', async () => {
    const { textOf } = await connect();
    const texts = Array.from({ length: 200 }, (_, index) => `${index}`.repeat(index + 1));
    expect(await Promise.all(texts.map((text) => textOf('echo', { text })))).toEqual(texts);
  });

  test('200 calls run side by side', async () => {
    const { textOf } = await connect();
    const texts = await Promise.all(Array.from({ length: 200 }, () => textOf('gather', { count: 200 })));
    expect(new Set(texts)).toEqual(new Set(['all are here']));
  });

  test('an argument of 50 MB arrives whole', async () => {
    const { textOf } = await connect();
    expect(await textOf('length', { text: 'x'.repeat(50_000_000) })).toBe('50000000');
  });

  test('a message that cannot be written as JSON fails alone', async () => {
    const { call, textOf } = await connect();
    expect(await rejection(call('echo', { text: 1n }))).toBeInstanceOf(NotSentError);
    expect(await textOf('echo', { text: 'ok' })).toBe('ok');
  });

  test('what a server does not read is bounded, and what was never written is known when it dies', async () => {
    const { transport, call, textOf } = await connect();
    await textOf('stop_reading');
    const text = 'x'.repeat(1_000_000);
    const results = Promise.all(Array.from({ length: 3 }, () => rejection(call('echo', { text }))));
    await new Promise((resolve) => setImmediate(resolve));
    // The pipe is full now: these wait, and the last ones find no room.
    const waiting = Promise.all(Array.from({ length: 20 }, () => rejection(call('echo', { text }))));
    process.kill(transport.pid ?? 0, 'SIGKILL');
    for (const error of await results) expect(error).toMatchObject({ code: -32000 });
    for (const error of await waiting) expect(error).toBeInstanceOf(NotSentError);
  });

  test('a call to a server that has just died is known not to be sent', async () => {
    const { transport, call } = await connect();
    process.kill(transport.pid ?? 0, 'SIGKILL');
    // Blocks the event loop, so that the death is not noticed before the write.
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 200);
    expect(await rejection(call('echo'))).toBeInstanceOf(NotSentError);
  });

  test('a server that closes its input ends the connection', async () => {
    const { client, call, textOf } = await connect();
    const closed = new Promise<void>((resolve) => {
      client.onclose = resolve;
    });
    await textOf('close_stdin');
    expect(await rejection(call('echo'))).toBeInstanceOf(NotSentError);
    await closed;
  });
});

describe('ending', () => {
  test.each(['exit', 'half_then_exit'])(
    '%s in the middle of a call fails all calls at once',
    async (tool) => {
      const { transport, call } = await connect();
      const others = Array.from({ length: 10 }, () => rejection(call('never')));
      const errors = [await rejection(call(tool)), ...(await Promise.all(others))];
      for (const error of errors) expect(error).toMatchObject({ code: -32000 });
      expect(transport.exitStatus).toEqual({ code: 1, signal: null });
      await expect(transport.send({ jsonrpc: '2.0', method: 'x' })).rejects.toBeInstanceOf(NotSentError);
    },
  );

  test('an answer without a final line feed is read before the end', async () => {
    const { textOf } = await connect();
    expect(await textOf('answer_then_exit')).toBe('last words');
  });

  test('a polite server ends by itself, and a call that runs meanwhile is still answered', async () => {
    const { client, transport, textOf } = await connect(['ignore-stdin-end'], { stopGraceMs: 2_000 });
    const answer = textOf('wait', { ms: 100 });
    // Written before stdin ends.
    await textOf('echo');
    const closed = client.close();
    expect(await answer).toBe('waited');
    await closed;
    expect(transport.exitStatus).toEqual({ code: null, signal: 'SIGTERM' });
  });

  const stubborn = [process.execPath, faultServer, 'ignore-sigterm', 'ignore-stdin-end'];
  const quoted = stubborn.map((part) => `'${part}'`).join(' ');
  test.each([
    ['sh -c', '/bin/sh', ['-c', `trap '' TERM; ${quoted}; echo over`]],
    [
      'two shells, as npx has them',
      '/bin/sh',
      ['-c', `trap '' TERM; sh -c "${quoted}; echo over"; echo over`],
    ],
    [
      'a program that waits, as uvx does',
      process.execPath,
      [
        '-e',
        `process.on('SIGTERM', () => {});
         require('node:child_process').spawn(${JSON.stringify(stubborn[0])}, ${JSON.stringify(stubborn.slice(1))}, { stdio: 'inherit' });`,
      ],
    ],
  ])(
    'nothing is left of %s and a server that ignore the end of stdin and SIGTERM (O10)',
    async (_name, command, args) => {
      const { transport, client, textOf } = await connect([], { command, args });
      const { pid } = JSON.parse(await textOf('surroundings'));
      expect(pid).not.toBe(transport.pid);
      const startedMs = performance.now();
      await client.close();
      // The grace, the time for the kernel, and much for a busy machine.
      expect(performance.now() - startedMs).toBeLessThan(400 + 1_000 + 3_000);
      expect(running('pid', pid)).toEqual([]);
      expect(transport.exitStatus).toEqual({ code: null, signal: 'SIGKILL' });
    },
  );

  test('the server of a launcher that dies by itself is ended too', async () => {
    const script = `'${process.execPath}' '${faultServer}' ignore-sigterm ignore-stdin-end & wait`;
    // A shell gives a background command no stdin unless told to.
    const { transport, client, call, textOf } = await connect([], {
      command: '/bin/sh',
      args: ['-c', `exec 3<&0; ${script.replace(' &', ' <&3 &')}`],
    });
    const { pid } = JSON.parse(await textOf('surroundings'));
    const closed = new Promise<void>((resolve) => {
      client.onclose = resolve;
    });
    const open = rejection(call('never'));
    process.kill(transport.pid ?? 0, 'SIGKILL');
    expect(await open).toMatchObject({ code: -32000 });
    await closed;
    await transport.close();
    expect(running('pid', pid)).toEqual([]);
  });

  test('a pipe held by a process that left the group does not hold up the end', async () => {
    const stray = `const c = require('node:child_process').spawn('sleep', ['30'], { detached: true, stdio: 'inherit' }); c.unref(); console.error(c.pid);`;
    const transport = open([], { args: ['-e', stray] });
    const closed = new Promise<void>((resolve) => {
      transport.onclose = resolve;
    });
    await transport.start();
    await closed;
    expect(transport.exitStatus).toEqual({ code: 0, signal: null });
    process.kill(Number(transport.stderrTail()[0]), 'SIGKILL');
  });

  test('killAllGroups ends every group without waiting', async () => {
    const script = `trap '' TERM; '${process.execPath}' '${faultServer}' ignore-sigterm ignore-stdin-end; echo over`;
    const { transport, client } = await connect([], { command: '/bin/sh', args: ['-c', script] });
    const closed = new Promise<void>((resolve) => {
      client.onclose = resolve;
    });
    killAllGroups();
    await closed;
    expect(transport.exitStatus).toEqual({ code: null, signal: 'SIGKILL' });
  });
});
