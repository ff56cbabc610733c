import { spawn } from 'node:child_process';
import { createServer } from 'node:net';
import { afterEach, describe, expect, test } from 'vitest';
import { FaultHttpServer, type FaultHttpServerOptions } from '../support/fault-http-server.ts';
import { referenceServer } from '../support/reference-servers.ts';
import { http, nodeStdio, server, textOf, WatchedUpstreams } from '../support/upstream.ts';

const cleanUps: (() => Promise<void>)[] = [];

afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0)) await cleanUp();
});

async function start(
  options: FaultHttpServerOptions,
): Promise<{ peer: FaultHttpServer; watched: WatchedUpstreams }> {
  const peer = await FaultHttpServer.start(options);
  const watched = new WatchedUpstreams([server('one', http(peer.url))]);
  cleanUps.push(
    () => watched.upstreams.stop(),
    () => peer.stop(),
  );
  await watched.upstreams.firstListings;
  return { peer, watched };
}

const tool = (name: unknown): Record<string, unknown> => ({ name, inputSchema: { type: 'object' } });

describe('tool lists', () => {
  test('all pages are read, and a cursor that leads in a circle ends the list', async () => {
    const pages: Readonly<Record<string, unknown>> = {
      first: { tools: [tool('a')], nextCursor: 'p2' },
      p2: { tools: [tool('b')], nextCursor: 'p3' },
      p3: { tools: [tool('c')], nextCursor: 'p2' },
    };
    const { peer, watched } = await start({
      methods: {
        'tools/list': ({ json, result, params }) => json(result(pages[String(params.cursor ?? 'first')])),
      },
    });
    expect(watched.lists[0]?.tools.map(({ name }) => name)).toEqual(['a', 'b', 'c']);
    expect(watched.lists[0]?.refused).toEqual([
      { tool: '(the rest of the list)', reason: 'the server gave the same cursor twice' },
    ]);
    expect(peer.counts['tools/list']).toBe(3);
  });

  test('one bad tool costs that tool only', async () => {
    const { watched } = await start({
      methods: {
        'tools/list': ({ json, result }) =>
          json(result({ tools: [{ name: 'bad', inputSchema: null }, tool('echo')] })),
      },
    });
    expect(watched.lists[0]).toMatchObject({ tools: [{ name: 'echo' }], refused: [{ tool: 'bad' }] });
    expect(textOf(await watched.call('echo', { text: 'ok' }))).toBe('ok');
  });

  test('a list that cannot be read keeps the last good one, and the server can still be called', async () => {
    let isBroken = false;
    const { peer, watched } = await start({
      hasEvents: true,
      methods: {
        'tools/list': ({ json, result }) => json(result({ tools: isBroken ? 'none' : [tool('echo')] })),
      },
    });
    await peer.when(() => peer.openStreams === 1);
    isBroken = true;
    peer.notify('notifications/tools/list_changed');
    await watched.when(() => watched.events('server.list_failed').length === 1);
    expect(watched.status()).toMatchObject({ state: 'stale', stage: 'list' });
    expect(watched.lists.length).toBe(1);
    expect(textOf(await watched.call('echo', { text: 'ok' }))).toBe('ok');
    isBroken = false;
    await watched.when(() => watched.lists.length === 2);
    expect(watched.status().state).toBe('ready');
  });

  test('five notices in a burst lead to at most two looks, and cut no call (O15)', async () => {
    const { peer, watched } = await start({ hasEvents: true });
    await peer.when(() => peer.openStreams === 1);
    const call = watched.call('wait', { ms: 500 });
    for (let n = 0; n < 5; n++) peer.notify('notifications/tools/list_changed');
    expect(textOf(await call)).toBe('waited');
    await watched.when(() => watched.lists.length >= 2);
    expect(peer.counts['tools/list']).toBeLessThanOrEqual(3);
  });

  test('notices without end lead to fewer and fewer looks, and the last one to one more', async () => {
    const changed = { jsonrpc: '2.0', method: 'notifications/tools/list_changed' };
    const times: number[] = [];
    const { peer, watched } = await start({
      methods: {
        // The notice comes before the answer: each look is out of date when it ends.
        'tools/list': ({ stream, result, response, server: { listed } }) => {
          times.push(performance.now());
          const write = stream();
          if (times.length < 6) write(changed);
          write(result({ tools: listed }));
          response.end();
        },
      },
    });
    await peer.when(() => times.length === 5);
    peer.listed = [tool('last')];
    await watched.when(() => watched.lists.at(-1)?.tools[0]?.name === 'last');
    const gaps = times.slice(1).map((time, index) => time - (times[index] ?? 0));
    for (const [index, gapMs] of [100, 100, 200, 400].entries()) {
      // Timers may run a millisecond early.
      expect(gaps[index]).toBeGreaterThan(gapMs - 5);
    }
    await watched.when(() => watched.lists.length === 6);
  });

  test('a schema nested 5,000 levels deep costs its tool only', async () => {
    const deep = `${'{"items":'.repeat(5_000)}{}${'}'.repeat(5_000)}`;
    const { watched } = await start({
      methods: {
        'tools/list': ({ response, id }) =>
          response
            .writeHead(200, { 'content-type': 'application/json' })
            .end(
              `{"jsonrpc":"2.0","id":${id},"result":{"tools":[{"name":"deep","inputSchema":${deep}},${JSON.stringify(tool('echo'))}]}}`,
            ),
      },
    });
    expect(watched.lists[0]).toMatchObject({ tools: [{ name: 'echo' }], refused: [{ tool: 'deep' }] });
    expect(textOf(await watched.call('echo', { text: 'ok' }))).toBe('ok');
  });

  test('a server without the capability and the method has no tools, and is well', async () => {
    const { watched } = await start({
      methods: {
        initialize: ({ json, result }) =>
          json(
            result({
              protocolVersion: '2025-06-18',
              capabilities: {},
              serverInfo: { name: 'x', version: '1' },
            }),
          ),
        'tools/list': ({ json, id }) => json({ jsonrpc: '2.0', id, error: { code: -32601, message: 'no' } }),
      },
    });
    expect(watched.lists).toEqual([{ alias: 'one', tools: [], refused: [] }]);
    expect(watched.status().state).toBe('ready');
  });
});

const everything = referenceServer('everything');

describe('the reference server', () => {
  test('is listed and called over stdio', async () => {
    const watched = new WatchedUpstreams([server('one', nodeStdio(everything))]);
    cleanUps.push(() => watched.upstreams.stop());
    await watched.upstreams.firstListings;
    expect(watched.lists[0]?.tools.length).toBe(12);
    // The thirteenth can only be run as a task.
    expect(watched.lists[0]?.refused).toMatchObject([{ tool: 'simulate-research-query' }]);
    expect(textOf(await watched.call('echo', { message: 'hi' }))).toBe('Echo: hi');
    expect(await watched.call('get-structured-content', { location: 'New York' })).toMatchObject({
      result: { structuredContent: { temperature: expect.any(Number) } },
    });
  });

  test('is listed and called over Streamable HTTP, where each answer is a stream with event ids', async () => {
    const port = await new Promise<number>((resolve) => {
      const probe = createServer().listen(0, '127.0.0.1', () => {
        const { port: free } = probe.address() as { port: number };
        probe.close(() => resolve(free));
      });
    });
    const child = spawn(process.execPath, [everything, 'streamableHttp'], {
      env: { ...process.env, PORT: String(port) },
      stdio: 'ignore',
    });
    const watched = new WatchedUpstreams([server('one', http(`http://127.0.0.1:${port}/mcp`))]);
    cleanUps.push(
      () => watched.upstreams.stop(),
      async () => void child.kill('SIGKILL'),
    );
    await watched.when(() => watched.lists.length > 0);
    expect(watched.lists[0]?.tools.length).toBe(12);
    const texts = await Promise.all([1, 2, 3].map((n) => watched.call('echo', { message: `${n}` })));
    expect(texts.map(textOf)).toEqual(['Echo: 1', 'Echo: 2', 'Echo: 3']);
  });
});
