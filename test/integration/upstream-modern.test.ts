import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import type { JsonObject } from '../../src/core/json.ts';
import { createRedactor } from '../../src/core/redact.ts';
import type { Attempt, Progress, ToolCall } from '../../src/dispatch/ports.ts';
import type { Connection } from '../../src/upstream/connection.ts';
import { Deadline } from '../../src/upstream/deadline.ts';
import { LegacyConnection } from '../../src/upstream/legacy-connection.ts';
import { ModernConnection } from '../../src/upstream/modern-connection.ts';
import type { ServerSettings, TransportSettings } from '../../src/upstream/settings.ts';
import { type ModernHttpServer, modernFile, startModernHttp } from '../support/modern.ts';
import { until } from '../support/until.ts';
import {
  http,
  nodeStdio,
  server,
  someone,
  textOf as textOfAttempt,
  WatchedUpstreams,
} from '../support/upstream.ts';

type Call = Partial<Omit<ToolCall, 'arguments'>> & { readonly inputSchema?: unknown };

/** One connection under watch. */
interface Link {
  readonly connection: Connection;
  /** Why it was lost, if it was. */
  readonly lost: string[];
  readonly changes: () => number;
  call(tool: string, args?: ToolCall['arguments'], more?: Call): ReturnType<Connection['callTool']>;
}

const opened: Connection[] = [];
const processes: ModernHttpServer[] = [];

afterEach(async () => {
  await Promise.all(opened.splice(0).map((connection) => connection.close()));
  await Promise.all(processes.splice(0).map((process) => process.kill()));
});

const stdio = (...args: string[]): TransportSettings => nodeStdio(modernFile, ...args);

async function startHttp(...args: string[]): Promise<ModernHttpServer> {
  const peer = await startModernHttp(...args);
  processes.push(peer);
  return peer;
}

/** A server that answers a call with the code of the error that its own request was refused with. */
const asking = `
  const send = (message) => console.log(JSON.stringify({ jsonrpc: '2.0', ...message }));
  let call;
  require('node:readline').createInterface({ input: process.stdin }).on('line', (line) => {
    const { id, method, error } = JSON.parse(line);
    const capabilities = { tools: {} };
    if (method === 'server/discover')
      send({ id, result: { resultType: 'complete', supportedVersions: ['2026-07-28'], capabilities } });
    else if (method === 'tools/call') {
      call = id;
      send({ id: 'ask', method: 'sampling/createMessage', params: { messages: [], maxTokens: 1 } });
    } else if (id === 'ask')
      send({ id: call, result: { resultType: 'complete', content: [{ type: 'text', text: String(error.code) }] } });
  });`;

/** A server that confirms each subscription and ends the first one at once, as for a restart of its own. */
const ending = `
  const send = (message) => console.log(JSON.stringify({ jsonrpc: '2.0', ...message }));
  let subscriptions = 0;
  require('node:readline').createInterface({ input: process.stdin }).on('line', (line) => {
    const { id, method } = JSON.parse(line);
    const capabilities = { tools: { listChanged: true } };
    if (method === 'server/discover')
      send({ id, result: { resultType: 'complete', supportedVersions: ['2026-07-28'], capabilities } });
    else if (method === 'subscriptions/listen') {
      const _meta = { 'io.modelcontextprotocol/subscriptionId': id };
      const notifications = { toolsListChanged: true };
      send({ method: 'notifications/subscriptions/acknowledged', params: { _meta, notifications } });
      subscriptions += 1;
      if (subscriptions === 1) send({ id, result: { resultType: 'complete', _meta } });
    }
  });`;

const nowMs = (): number => performance.now();

function link(
  Adapter: typeof ModernConnection | typeof LegacyConnection,
  transport: TransportSettings,
  more: Partial<ServerSettings> = {},
): Link {
  const lost: string[] = [];
  let changes = 0;
  const connection = new Adapter(server('one', transport, more), {
    log: { info: () => {}, warn: () => {}, error: () => {} },
    redact: createRedactor([]),
    credentials: undefined,
    onLost: (reason) => void lost.push(reason),
    onToolsChanged: () => {
      changes++;
    },
  });
  return {
    connection,
    lost,
    changes: () => changes,
    call: (tool, args = {}, { timeoutMs = 20_000, timeoutTotalMs = 60_000, ...others } = {}) => {
      const call = {
        alias: 'one',
        tool,
        arguments: args,
        inputSchema: {},
        caller: someone,
        id: 'an-id',
        timeoutMs,
        timeoutTotalMs,
        mayRepeat: false,
        signal: new AbortController().signal,
        onProgress: () => {},
        onLateAnswer: () => {},
        ...others,
      };
      return connection.callTool(call, new Deadline(nowMs, timeoutMs, timeoutTotalMs), 1);
    },
  };
}

/** A connection that is closed after the test. */
function ownLink(...args: Parameters<typeof link>): Link {
  const opening = link(...args);
  opened.push(opening.connection);
  return opening;
}

const kinds = ['stdio', 'HTTP'] as const;

/** A connection to a process of the test's own. */
async function openOwn(kind: (typeof kinds)[number]): Promise<Link> {
  const opening = ownLink(ModernConnection, kind === 'stdio' ? stdio() : http((await startHttp()).url));
  expect(await opening.connection.open()).toBeUndefined();
  return opening;
}

const textOf = (result: Awaited<ReturnType<Connection['callTool']>>): string =>
  String(result.ok ? result.value.content[0]?.text : `failed: ${result.error.code}: ${result.error.message}`);

const parsed = (result: Awaited<ReturnType<Connection['callTool']>>): unknown => JSON.parse(textOf(result));

describe.each(kinds)('a server that speaks only 2026-07-28, over %s', (kind) => {
  let shared: Link;
  let peer: ModernHttpServer | undefined;
  let transport: TransportSettings;

  beforeAll(async () => {
    peer = kind === 'HTTP' ? await startModernHttp() : undefined;
    transport = peer === undefined ? stdio() : http(peer.url);
    shared = link(ModernConnection, transport);
    expect(await shared.connection.open()).toBeUndefined();
  });
  afterEach(() => {
    expect(shared.lost).toEqual([]);
  });
  afterAll(async () => {
    await shared.connection.close();
    await peer?.kill();
  });

  test('refuses the older handshake in a way that says so, and is spoken to in its own', async () => {
    const older = ownLink(LegacyConnection, transport);
    expect(await older.connection.open()).toMatchObject({ stage: 'initialize', needsModern: true });
    expect(shared.connection.protocolVersion).toBe('2026-07-28');
  });

  test('lists its tools and answers calls side by side, in the kinds of result that there are', async () => {
    const { connection, call } = shared;
    const { tools, refused } = await connection.listTools();
    expect(tools.map(({ name }) => name)).toContain('echo');
    // Only over HTTP is there a header that the annotation could mean.
    const reason = expect.stringContaining('x-mcp-header at "n"');
    expect(refused).toEqual(kind === 'stdio' ? [] : [{ tool: 'faulty_mirror', reason }]);
    expect(tools.some(({ name }) => name === 'faulty_mirror')).toBe(kind === 'stdio');

    const texts = Array.from({ length: 20 }, (_, index) => `hällo ${index}`);
    const answers = await Promise.all(texts.map((text) => call('echo', { text })));
    expect(answers.map(textOf)).toEqual(texts);
    expect(await call('list')).toMatchObject({ ok: true, value: { structuredContent: [1, 2, 3] } });
    expect(await call('fail')).toMatchObject({ ok: true, value: { isError: true } });
  });

  test('gets the id of each call', async () => {
    const meta = { 'callgate/call': 'an-id', progressToken: expect.any(Number) };
    expect(parsed(await shared.call('meta'))).toMatchObject(meta);
  });

  test('tells of progress, which begins the time anew', async () => {
    const told: Progress[] = [];
    const onProgress = (progress: Progress): void => void told.push(progress);
    const result = await shared.call('slow', { steps: 6, ms: 100 }, { timeoutMs: 500, onProgress });
    expect(textOf(result)).toBe('slow but sure');
    expect(told.at(-1)).toEqual({ progress: 6, total: 6, message: 'step 6' });
  });

  test('hears that a call is cancelled, or over its time', async () => {
    const { call } = shared;
    const seen = async (hanging: number, cancelled: number): Promise<boolean> =>
      textOf(await call('hanging')) === JSON.stringify({ hanging, cancelled });
    const controller = new AbortController();
    const hanging = call('hang', {}, { signal: controller.signal });
    await until(() => seen(1, 0));
    controller.abort('its caller asked for that');
    expect(await hanging).toMatchObject({ ok: false, error: { code: 'cancelled', sent: true } });
    await until(() => seen(0, 1));

    expect(await call('hang', {}, { timeoutMs: 300 })).toMatchObject({
      ok: false,
      error: { code: 'timeout', sent: true, mayHaveExecuted: true, resend: 'never' },
    });
    await until(() => seen(0, 2));
  });

  test('may want more input, which is neither an error of it nor a success (MT-17)', async () => {
    const wanted = { ok: false, error: { code: 'input_required', sent: true, resend: 'never' } };
    expect(await shared.call('ask')).toMatchObject(wanted);
    expect(await shared.call('wait')).toMatchObject(wanted);
  });

  test('answers with an error of its own to a tool that it does not have', async () => {
    expect(await shared.call('none')).toMatchObject({
      ok: false,
      error: { code: 'server_error', mayHaveExecuted: false, details: { json_rpc_code: -32602 } },
    });
  });

  test('costs only its own call with an answer over the limit', async () => {
    expect(await shared.call('large')).toMatchObject({ ok: false, error: { code: 'output_too_large' } });
    expect(textOf(await shared.call('echo', { text: 'still here' }))).toBe('still here');
  });

  test('tells that its tools have changed', async () => {
    const { connection, call, changes } = shared;
    // The subscription may be confirmed after the first of these changes.
    await until(async () => textOf(await call('grow')) === 'grown' && changes() > 0);
    const { tools } = await connection.listTools();
    expect(tools.map(({ name }) => name)).toContain('more');
  });

  test('is lost when its process ends during a call', async () => {
    const { call, lost } = await openOwn(kind);
    expect(await call('crash')).toMatchObject({
      ok: false,
      error: { code: 'connection_lost', sent: true, mayHaveExecuted: true, resend: 'if_repeatable' },
    });
    await until(() => lost.length === 1);
    expect(await call('echo', { text: 'x' })).toMatchObject({
      ok: false,
      error: { code: 'server_unavailable', sent: false, resend: 'always' },
    });
  });
});

describe('over HTTP', () => {
  let peer: ModernHttpServer;

  beforeAll(async () => {
    peer = await startModernHttp();
  });
  afterAll(() => peer.kill());

  async function openShared(): Promise<Link> {
    const opening = ownLink(ModernConnection, http(peer.url));
    expect(await opening.connection.open()).toBeUndefined();
    return opening;
  }

  test('headers say what is called, and repeat the arguments that are marked for it', async () => {
    const { connection, call } = await openShared();
    const { tools } = await connection.listTools();
    const inputSchema = tools.find(({ name }) => name === 'mirrored')?.inputSchema as JsonObject;
    const headers = parsed(
      await call('mirrored', { region: 'Zürich', place: { zip: 8001 } }, { inputSchema }),
    );
    expect(headers).toEqual({
      'mcp-method': 'tools/call',
      'mcp-name': 'mirrored',
      'mcp-param-region': '=?base64?WsO8cmljaA==?=',
      'mcp-param-zip': '8001',
      'mcp-session-id': null,
    });
  });

  test('a call without the headers that its tool wants has not run', async () => {
    const { call, lost } = await openShared();
    expect(await call('mirrored', { region: 'eu' })).toMatchObject({
      ok: false,
      error: { code: 'server_error', mayHaveExecuted: false, details: { json_rpc_code: -32020 } },
    });
    expect(lost).toEqual([]);
  });

  test('a server that was started again is reached by the next connection', async () => {
    const first = await startHttp();
    const before = ownLink(ModernConnection, http(first.url));
    expect(await before.connection.open()).toBeUndefined();
    await first.kill();
    expect(await before.call('echo', { text: 'x' })).toMatchObject({
      ok: false,
      error: { code: 'server_unavailable', sent: false },
    });
    expect(before.lost).toEqual(['it refused the connection (ECONNREFUSED)']);
    const gone = await ownLink(ModernConnection, http(first.url)).connection.open();
    expect(gone).toMatchObject({ stage: 'connect', reason: 'it refused the connection (ECONNREFUSED)' });

    await startHttp(String(first.port));
    const after = ownLink(ModernConnection, http(first.url));
    expect(await after.connection.open()).toBeUndefined();
    expect(textOf(await after.call('echo', { text: 'back' }))).toBe('back');
  });

  test('calls that run are left to their ends when the connection is retired', async () => {
    const { connection, call } = await openShared();
    const running = call('slow', { steps: 3, ms: 50 });
    await connection.retire();
    expect(textOf(await running)).toBe('slow but sure');
  });
});

describe('over stdio', () => {
  test('an answer that comes after its call was given up is told', async () => {
    const { call } = await openOwn('stdio');
    const late: Attempt[] = [];
    const onLateAnswer = (attempt: Attempt): void => void late.push(attempt);
    const given = await call('deaf', {}, { timeoutMs: 100, onLateAnswer });
    expect(given).toMatchObject({ ok: false, error: { code: 'timeout' } });
    await until(() => late.length === 1);
    expect(late[0]).toMatchObject({ kind: 'answered', result: { content: [{ text: 'deaf' }] } });
  });

  test('a question of the server, which this era does not have, is refused at once (MT-17)', async () => {
    const { connection, call } = ownLink(ModernConnection, nodeStdio('-e', asking));
    expect(await connection.open()).toBeUndefined();
    expect(textOf(await call('any'))).toBe('-32601');
  });

  test('a subscription that has ended is opened again, and the list is looked at', async () => {
    const { connection, changes } = ownLink(ModernConnection, nodeStdio('-e', ending));
    expect(await connection.open()).toBeUndefined();
    await until(() => changes() === 1);
  });

  test('a server that ends before it has answered is reported with its exit code', async () => {
    expect(
      await ownLink(ModernConnection, nodeStdio('-e', 'process.exit(4)')).connection.open(),
    ).toMatchObject({
      stage: 'initialize',
      reason: 'its process ended before it had answered server/discover (exit code 4)',
    });
  });

  test('a server of the earlier era refuses, and one that says nothing is given up', async () => {
    const lab = modernFile.replace('modern.mjs', 'lab.mjs');
    const older = ownLink(ModernConnection, nodeStdio(lab));
    expect(await older.connection.open()).toMatchObject({
      reason: 'it refused server/discover (JSON-RPC code -32601)',
    });

    const silent = nodeStdio('-e', 'setInterval(() => {}, 1000)');
    expect(
      await ownLink(ModernConnection, silent, { connectTimeoutMs: 100 }).connection.open(),
    ).toMatchObject({
      reason: 'it did not answer server/discover within 100 ms',
    });
  });
});

test.each(kinds)('a server of both eras keeps the older one, over %s', async (kind) => {
  const transport = kind === 'stdio' ? stdio('--dual') : http((await startHttp('0', '--dual')).url);
  const { connection, call } = ownLink(LegacyConnection, transport);
  expect(await connection.open()).toBeUndefined();
  expect(connection.protocolVersion).toBe('2025-11-25');
  expect(textOf(await call('echo', { text: 'x' }))).toBe('x');
});

describe('how the era of a server is found out', () => {
  test.each(kinds)('by its refusal, once for all connections that come after, over %s', async (kind) => {
    const transport = kind === 'stdio' ? stdio() : http((await startHttp()).url);
    const watched = new WatchedUpstreams([server('one', transport)]);
    try {
      await watched.upstreams.firstListings;
      expect(watched.status()).toMatchObject({ state: 'ready', protocolVersion: '2026-07-28' });
      expect(textOfAttempt(await watched.call('echo', { text: 'x' }))).toBe('x');
      expect(watched.events('server.connect_failed')).toEqual([]);

      // A server over HTTP has to be started again by somebody else.
      if (kind === 'HTTP') return;
      await watched.call('crash');
      await watched.when(() => watched.events('server.connected').length === 2);
      expect(textOfAttempt(await watched.call('echo', { text: 'back' }))).toBe('back');
      expect(watched.status()).toMatchObject({ state: 'ready', protocolVersion: '2026-07-28' });
    } finally {
      await watched.upstreams.stop();
    }
  });

  test.each([
    ['a method that it does not know', 404, { error: { code: -32601, message: 'Method not found' } }],
    ['a request without the headers of its era', 400, { error: { code: -32020, message: 'Mcp-Method?' } }],
    [
      'a version of its own',
      200,
      {
        result: { protocolVersion: '2026-07-28', capabilities: {}, serverInfo: { name: 'x', version: '1' } },
      },
    ],
  ])('by how it takes initialize: as %s', async (_, status, answer) => {
    const peer = createServer((_, response) => {
      response.writeHead(status, { 'content-type': 'application/json' });
      response.end(JSON.stringify({ jsonrpc: '2.0', id: 0, ...answer }));
    });
    peer.listen(0, '127.0.0.1');
    await once(peer, 'listening');
    try {
      const { port } = peer.address() as AddressInfo;
      const older = ownLink(LegacyConnection, http(`http://127.0.0.1:${port}/`));
      expect(await older.connection.open()).toMatchObject({ needsModern: true });
    } finally {
      peer.close();
      peer.closeAllConnections();
    }
  });
});
