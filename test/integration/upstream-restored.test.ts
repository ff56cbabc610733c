import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import type { StoredToolList } from '../../src/dispatch/ports.ts';
import { listSource } from '../../src/upstream/list-source.ts';
import type { ServerSettings } from '../../src/upstream/settings.ts';
import { openUpstreams } from '../../src/upstream/upstreams.ts';
import { until } from '../support/until.ts';
import { nodeStdio, server, someone, textOf, WatchedUpstreams } from '../support/upstream.ts';

// Servers whose tools are known before they are up, and connections that are opened when they are needed.

const notesServer = fileURLToPath(new URL('../support/servers/notes.mjs', import.meta.url));
const running: WatchedUpstreams[] = [];
let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'callgate-restored-'));
});
afterEach(async () => {
  for (const watched of running.splice(0)) await watched.upstreams.stop();
  rmSync(folder, { recursive: true });
});

const storedList = (settings: ServerSettings): StoredToolList => ({
  alias: settings.alias,
  source: listSource(settings),
  tools: [{ name: 'note', inputSchema: { type: 'object' } }],
  refused: [],
  readAtMs: 1,
});

function start(settings: ServerSettings, stored: readonly StoredToolList[]): WatchedUpstreams {
  const watched = new WatchedUpstreams([settings], [], [], stored);
  running.push(watched);
  return watched;
}

const starts = (): number => {
  try {
    return readFileSync(join(folder, 'starts'), 'utf8').trim().split('\n').length;
  } catch {
    return 0;
  }
};

describe('a server whose tools are known from before', () => {
  test('is stale with these tools until it has listed them again', async () => {
    const watched = start(server('one', nodeStdio(notesServer)), [
      storedList(server('one', nodeStdio(notesServer))),
    ]);
    await watched.upstreams.restored;
    expect(watched.status().state).toBe('stale');
    expect(watched.lists.map(({ tools }) => tools.map(({ name }) => name))).toEqual([['note']]);
    await watched.upstreams.firstListings;
    expect(watched.status().state).toBe('ready');
  });

  test('takes a call that waits for its connection', async () => {
    const settings = server('one', nodeStdio(notesServer));
    const watched = start(settings, [storedList(settings)]);
    await watched.upstreams.restored;
    expect(textOf(await watched.call('note', { text: 'x' }))).toContain('"x"');
  });

  test('that does not come up any more is told to be unavailable, and stays stale', async () => {
    const settings = server('one', nodeStdio('-e', 'process.exit(3)'));
    const watched = start(settings, [storedList(settings)]);
    await watched.upstreams.firstListings;
    expect(await watched.call('note')).toMatchObject({ code: 'server_unavailable', sent: false });
    expect(watched.status()).toMatchObject({ state: 'stale', stage: 'initialize', lastExitCode: 3 });
  });

  test('with a list that cannot be used any more starts without it', async () => {
    const settings = server('one', nodeStdio(notesServer));
    const events: string[] = [];
    const note = (event: string): void => void events.push(event);
    let lists = 0;
    const upstreams = openUpstreams([settings], [], [storedList(settings)], {
      log: { info: note, warn: note, error: note },
      redact: (text) => text,
      nowMs: () => Date.now(),
      monotonicMs: () => performance.now(),
      onTools: () => {
        lists++;
        if (lists === 1) throw new Error('no such form of a tool');
      },
    });
    await upstreams.restored;
    expect(events).toContain('tools.not_restored');
    void upstreams.start();
    await upstreams.firstListings;
    expect(upstreams.statuses()).toMatchObject([{ alias: 'one', state: 'ready' }]);
    await upstreams.stop();
  });

  test('under the alias of another server before is not taken for that one', async () => {
    const settings = server('one', nodeStdio(notesServer));
    const watched = start(settings, [storedList(server('one', nodeStdio(notesServer, 'other')))]);
    await watched.upstreams.restored;
    expect(watched.lists).toEqual([]);
    expect(watched.status().state).toBe('connecting');
  });
});

describe('a server that need not be kept connected', () => {
  const settings = (): ServerSettings =>
    server('one', nodeStdio(notesServer, join(folder, 'starts')), {
      keepConnected: false,
      connectionIdleMs: 50,
    });

  test('is not started before its first call where its tools are known', async () => {
    const watched = start(settings(), [storedList(settings())]);
    await watched.upstreams.firstListings;
    expect(starts()).toBe(0);
    expect(watched.status()).toMatchObject({ state: 'stale', stage: 'idle', attempts: 0, connections: 0 });
    // Nothing is to come that a name of no tool could be waiting for.
    expect(watched.upstreams.hasListed('one')).toBe(true);
    expect(textOf(await watched.call('note', { text: 'x' }))).toContain('"x"');
    expect(starts()).toBe(1);
    await watched.upstreams.stop();
    expect(watched.status().state).toBe('stopped');
    expect(watched.status()).not.toHaveProperty('stage');
  });

  test('is started once to list its tools, closed when idle, and started again by a call', async () => {
    const watched = start(settings(), []);
    await watched.upstreams.firstListings;
    expect(starts()).toBe(1);
    await until(() => watched.status().connections === 0);
    expect(watched.status()).toMatchObject({ state: 'stale', stage: 'idle' });
    await Promise.all([watched.call('note', { text: 'x' }), watched.call('note', { text: 'y' })]);
    expect(starts()).toBe(2);
    await until(() => watched.status().connections === 0);
  });

  test('is closed in spite of its list, which is read again every minute', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    try {
      const watched = start({ ...settings(), connectionIdleMs: 90_000 }, []);
      await watched.upstreams.firstListings;
      await vi.advanceTimersByTimeAsync(60_000);
      await watched.when(() => watched.lists.length === 2);
      await vi.advanceTimersByTimeAsync(30_000);
      expect(watched.status()).toMatchObject({ state: 'stale', stage: 'idle', connections: 0 });
    } finally {
      vi.useRealTimers();
    }
  });

  test('lists its tools anew in a time of use, also where calls have connections of their own', async () => {
    const ofActors: ServerSettings = { ...settings(), connection: 'actor', connectionIdleMs: 300_000 };
    const watched = start(ofActors, [storedList(ofActors)]);
    await watched.upstreams.firstListings;
    expect(starts()).toBe(0);
    expect(textOf(await watched.call('note', { text: 'x' }, { caller: someone }))).toContain('"x"');
    await watched.when(() => watched.lists.length === 2);
    await until(() => watched.status().state === 'ready');
    expect(watched.status().connections).toBe(2);
  });
});

describe('a server that falls over again and again', () => {
  test('is not started by each call that comes, however well it does in between', async () => {
    const watched = start(
      server('one', nodeStdio(notesServer, join(folder, 'starts')), {
        backoffMinMs: 60_000,
        backoffMaxMs: 60_000,
      }),
      [],
    );
    await watched.upstreams.firstListings;
    for (let round = 0; round < 12; round++) {
      await watched.call('note', { text: 'x' });
      await watched.call('note', { exit: 5 });
    }
    expect(starts()).toBe(6);
    expect(await watched.call('note', { text: 'x' })).toMatchObject({
      code: 'server_unavailable',
      sent: false,
    });
    expect(watched.status()).toMatchObject({
      state: 'stale',
      stage: 'connect',
      lastExitCode: 5,
      nextTryAt: expect.any(Number),
      breaker: 'closed',
    });
  });
});

describe('what a server says on stderr', () => {
  test('is shown while it has not answered yet', async () => {
    const watched = start(server('one', nodeStdio(notesServer, '', 'mute')), []);
    await until(() => watched.status().stderr !== undefined);
    expect(watched.status()).toMatchObject({ state: 'connecting', stderr: ['waiting for a key'] });
  });
});
