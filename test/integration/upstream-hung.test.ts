import { fileURLToPath } from 'node:url';
import { afterEach, describe, expect, test } from 'vitest';
import type { Attempt } from '../../src/dispatch/ports.ts';
import { until } from '../support/until.ts';
import { faultStdio, nodeStdio, server, textOf, WatchedUpstreams } from '../support/upstream.ts';

// Servers that are there and do not answer any more.

const notesServer = fileURLToPath(new URL('../support/servers/notes.mjs', import.meta.url));
const running: WatchedUpstreams[] = [];
afterEach(async () => {
  for (const watched of running.splice(0)) await watched.upstreams.stop();
});

async function start(...args: ConstructorParameters<typeof WatchedUpstreams>): Promise<WatchedUpstreams> {
  const watched = new WatchedUpstreams(...args);
  running.push(watched);
  await watched.upstreams.firstListings;
  return watched;
}

const pidOf = (attempt: Attempt): number => (JSON.parse(String(textOf(attempt))) as { pid: number }).pid;

describe('a server that hangs', () => {
  test('is replaced after a call that it has left without an answer', async () => {
    const watched = await start([server('one', nodeStdio(notesServer))]);
    const pid = pidOf(await watched.call('note', { text: 'x' }));
    process.kill(pid, 'SIGSTOP');
    expect(await watched.call('note', { text: 'y' }, { timeoutMs: 200 })).toMatchObject({ code: 'timeout' });
    await until(() => watched.events('server.connection_lost').length === 1);
    expect(watched.events('server.connection_lost')).toMatchObject([
      { reason: 'the server does not answer any more' },
    ]);
    expect(pidOf(await watched.call('note', { text: 'z' }))).not.toBe(pid);
  });

  test('in one call only is left alone', async () => {
    const watched = await start([server('one', faultStdio())]);
    expect(await watched.call('never', {}, { timeoutMs: 100 })).toMatchObject({ code: 'timeout' });
    // The server answers the question whether it is alive before it answers this.
    expect(textOf(await watched.call('echo', { text: 'x' }))).toBe('x');
    expect(watched.events('server.connection_lost')).toEqual([]);
  });
});
