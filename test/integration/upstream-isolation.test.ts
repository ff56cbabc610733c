import { randomUUID } from 'node:crypto';
import { createServer, type IncomingMessage, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { fileURLToPath } from 'node:url';
import { afterEach, describe, expect, test } from 'vitest';
import { createActor } from '../../src/access/actor.ts';
import { Secret } from '../../src/core/secret.ts';
import type { Attempt, Caller, StoredToolList } from '../../src/dispatch/ports.ts';
import { actorText } from '../../src/dispatch/receipt.ts';
import { listSource } from '../../src/upstream/list-source.ts';
import type { ServerSettings } from '../../src/upstream/settings.ts';
import { until } from '../support/until.ts';
import { http, nodeStdio, server, someone, textOf, WatchedUpstreams } from '../support/upstream.ts';

// Connections that belong to an actor, or to one run of an actor (MT-7).

const notesServer = fileURLToPath(new URL('../support/servers/notes.mjs', import.meta.url));
const running: WatchedUpstreams[] = [];
const peers: Server[] = [];
afterEach(async () => {
  for (const watched of running.splice(0)) await watched.upstreams.stop();
  for (const peer of peers.splice(0)) {
    peer.closeAllConnections();
    await new Promise((resolve) => peer.close(resolve));
  }
});

async function start(
  transport: ServerSettings['transport'],
  settings: Partial<ServerSettings>,
): Promise<WatchedUpstreams> {
  const watched = new WatchedUpstreams([server('one', transport, settings)]);
  running.push(watched);
  await watched.upstreams.firstListings;
  return watched;
}

const user = (subject: string, run?: string, token?: string): Caller => ({
  ...someone,
  actor: createActor({ ...someone.actor, kind: 'user', subject }),
  run,
  token: token === undefined ? undefined : new Secret(token),
});

interface Noted {
  readonly pid: number;
  readonly notes: readonly string[];
}
const noted = (attempt: Attempt): Noted => JSON.parse(String(textOf(attempt))) as Noted;

describe('a server with a connection for each actor', () => {
  test('shows an actor nothing of another one, in 10,000 interleaved calls', async () => {
    const peer = await startSessions();
    const watched = await start(http(peer.url), {
      connection: 'actor',
      concurrencyMax: 64,
      queueMax: 20_000,
    });
    const actors = Array.from({ length: 20 }, (_, number) => `user-${number}`);
    const calls = Array.from({ length: 10_000 }, (_, index) => {
      const subject = actors[index % actors.length] ?? '';
      // A new token for every call: the connection belongs to the actor, not to what it shows.
      return watched
        .call('whoami', { subject }, { caller: user(subject, undefined, `token-${index}`) })
        .then((attempt) => ({ subject, told: textOf(attempt) }));
    });
    const answers = await Promise.all(calls);
    expect(answers.filter(({ subject, told }) => told !== subject)).toEqual([]);
    // Its own connection, which lists, and one for each actor.
    expect(peer.sessions()).toBe(actors.length + 1);
    expect(watched.status().connections).toBe(actors.length + 1);
  });

  test('lists its tools over a connection of its own, which takes no call', async () => {
    const watched = await start(nodeStdio(notesServer), { connection: 'actor' });
    const [a, b] = await Promise.all([
      watched.call('note', { text: 'of a' }, { caller: user('a') }),
      watched.call('note', { text: 'of b' }, { caller: user('b') }),
    ]);
    const again = await watched.call('note', { text: 'more' }, { caller: user('a') });
    expect(noted(a).notes).toEqual(['of a']);
    expect(noted(b).notes).toEqual(['of b']);
    expect(noted(again)).toEqual({ pid: noted(a).pid, notes: ['of a', 'more'] });
    expect(noted(a).pid).not.toBe(noted(b).pid);
    expect(watched.status()).toMatchObject({ state: 'ready', connections: 3 });
  });

  test('keeps no more of them than it may, and gives up the one that was unused longest', async () => {
    const watched = await start(nodeStdio(notesServer), { connection: 'actor', connectionsMax: 2 });
    const pids: number[] = [];
    for (const subject of ['a', 'b', 'a', 'c', 'a', 'b']) {
      pids.push(noted(await watched.call('note', { text: subject }, { caller: user(subject) })).pid);
    }
    const [a, b, , , , newB] = pids;
    expect([pids[2], pids[4]]).toEqual([a, a]);
    expect(newB).not.toBe(b);
    expect(watched.status().connections).toBeLessThanOrEqual(3);
  });

  test('is busy when all of them are in use', async () => {
    const watched = await start(nodeStdio(notesServer), { connection: 'actor', connectionsMax: 1 });
    const hanging = watched.call('note', { silent: 1 }, { caller: user('a'), timeoutMs: 1_500 });
    const refused = await watched.call('note', { text: 'b' }, { caller: user('b') });
    expect(refused).toMatchObject({ code: 'server_busy', sent: false, details: { retry_after_ms: 1_000 } });
    expect(await hanging).toMatchObject({ code: 'timeout' });
  });

  test('closes what nobody has used for a while, and opens it again for the next call', async () => {
    const watched = await start(nodeStdio(notesServer), { connection: 'actor', connectionIdleMs: 50 });
    const first = noted(await watched.call('note', { text: 'x' }, { caller: user('a') }));
    await until(() => watched.status().connections === 1);
    const second = noted(await watched.call('note', { text: 'y' }, { caller: user('a') }));
    expect(second.pid).not.toBe(first.pid);
    expect(second.notes).toEqual(['y']);
  });

  test('a connection that breaks is one actor’s trouble, and comes back with the next call', async () => {
    const watched = await start(nodeStdio(notesServer), { connection: 'actor' });
    const a = noted(await watched.call('note', { text: 'a' }, { caller: user('a') }));
    const b = noted(await watched.call('note', { text: 'b' }, { caller: user('b') }));
    process.kill(a.pid, 'SIGKILL');
    await until(() => watched.status().connections === 2);
    expect(noted(await watched.call('note', { text: 'b2' }, { caller: user('b') }))).toEqual({
      pid: b.pid,
      notes: ['b', 'b2'],
    });
    expect(noted(await watched.call('note', { text: 'a2' }, { caller: user('a') })).notes).toEqual(['a2']);
  });
});

describe('a server with a connection for each run', () => {
  test('keeps the runs of one actor apart, and the same run of two actors', async () => {
    const watched = await start(nodeStdio(notesServer), { connection: 'run' });
    const pidOf = async (caller: Caller): Promise<number> =>
      noted(await watched.call('note', { text: 'x' }, { caller })).pid;
    const pids = [
      await pidOf(user('a', 'run-1')),
      await pidOf(user('a', 'run-2')),
      await pidOf(user('b', 'run-1')),
      await pidOf(user('a', 'run-1')),
    ];
    expect(new Set(pids).size).toBe(3);
    expect(pids[3]).toBe(pids[0]);
  });

  test('ends a run with its process, cancels what still runs in it, and leaves others alone', async () => {
    const watched = await start(nodeStdio(notesServer), { connection: 'run' });
    const caller = user('a', 'run-1');
    const { pid } = noted(await watched.call('note', { text: 'x' }, { caller }));
    const other = noted(await watched.call('note', { text: 'x' }, { caller: user('a', 'run-2') }));
    const hanging = watched.call('note', { silent: 1 }, { caller });
    // Behind it on the same pipe: once this one is answered, the other one is with the server.
    await watched.call('note', { text: 'y' }, { caller });
    await watched.upstreams.endRun(actorText(caller.actor), 'run-1');
    expect(await hanging).toMatchObject({ code: 'cancelled', sent: true });
    expect(() => process.kill(pid, 0)).toThrow();
    expect(() => process.kill(other.pid, 0)).not.toThrow();
    expect(noted(await watched.call('note', { text: 'new' }, { caller })).notes).toEqual(['new']);
  });
});

test('a run that ends while its connection is still being made takes its calls with it', async () => {
  const settings = server('one', nodeStdio('-e', 'setInterval(() => {}, 1000)'), { connection: 'run' });
  const list: StoredToolList = {
    alias: 'one',
    source: listSource(settings),
    tools: [{ name: 'note', inputSchema: { type: 'object' } }],
    refused: [],
    readAtMs: 1,
  };
  const watched = new WatchedUpstreams([settings], [], [], [list]);
  running.push(watched);
  await watched.upstreams.restored;
  const caller = user('a', 'run-1');
  const waiting = watched.call('note', {}, { caller });
  await watched.upstreams.endRun(actorText(caller.actor), 'run-1');
  expect(await waiting).toMatchObject({
    code: 'cancelled',
    sent: false,
    message: expect.stringContaining('its run was ended'),
  });
});

/** An MCP server over HTTP that takes the first subject it hears in a session for the owner of the session. */
async function startSessions(): Promise<{ url: string; sessions: () => number }> {
  const owners = new Map<string, string | undefined>();
  const peer = createServer((request, response) => {
    void answer(request).then(({ status, body, session }) => {
      response.writeHead(status, {
        'content-type': 'application/json',
        ...(session === undefined ? {} : { 'mcp-session-id': session }),
      });
      response.end(body === undefined ? undefined : JSON.stringify(body));
    });
  });
  const answer = async (
    request: IncomingMessage,
  ): Promise<{ status: number; body?: unknown; session?: string }> => {
    if (request.method !== 'POST') return { status: request.method === 'DELETE' ? 200 : 405 };
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const { id, method, params } = JSON.parse(Buffer.concat(chunks).toString());
    const session = String(request.headers['mcp-session-id'] ?? '');
    const result = (value: unknown) => ({ status: 200, body: { jsonrpc: '2.0', id, result: value } });
    switch (method) {
      case 'initialize': {
        const made = randomUUID();
        owners.set(made, undefined);
        const { protocolVersion } = params;
        const serverInfo = { name: 'sessions', version: '1' };
        return { ...result({ protocolVersion, capabilities: { tools: {} }, serverInfo }), session: made };
      }
      case 'tools/list':
        return result({ tools: [{ name: 'whoami', inputSchema: { type: 'object' } }] });
      case 'tools/call': {
        if (owners.get(session) === undefined) owners.set(session, params.arguments.subject);
        return result({ content: [{ type: 'text', text: owners.get(session) }] });
      }
      default:
        return { status: 202 };
    }
  };
  await new Promise<void>((resolve) => peer.listen(0, '127.0.0.1', resolve));
  peers.push(peer);
  return {
    url: `http://127.0.0.1:${(peer.address() as AddressInfo).port}/mcp`,
    sessions: () => owners.size,
  };
}
