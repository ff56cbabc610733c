import { afterEach, describe, expect, test } from 'vitest';
import type { EventFields } from '../../src/core/events.ts';
import { createRedactor } from '../../src/core/redact.ts';
import { LedgerUnavailable, type StoredToolList, type ToolListStore } from '../../src/dispatch/ports.ts';
import { type LiveRegistry, openLiveRegistry } from '../../src/live-registry.ts';
import { repositoryFolder } from '../support/callgate.ts';
import { configWith, load } from '../support/load-config.ts';
import { until } from '../support/until.ts';
import { someone } from '../support/upstream.ts';

// The registry that follows the tool lists of servers, and what is kept of them for the next start.

const opened: LiveRegistry[] = [];
afterEach(async () => {
  for (const { upstreams } of opened.splice(0)) await upstreams.stop();
});

/** A server that lists `old` the first time and `note` from then on. */
const forgetful = {
  command: process.execPath,
  cwd: repositoryFolder,
  args: [`${repositoryFolder}/test/support/servers/notes.mjs`, '', 'forgetful'],
};

class Store implements Pick<ToolListStore, 'saveToolList'> {
  readonly saved: StoredToolList[] = [];
  failures = 0;

  saveToolList(list: StoredToolList): Promise<void> {
    if (this.failures > 0) {
      this.failures--;
      return Promise.reject(new LedgerUnavailable('the disk is full'));
    }
    this.saved.push(list);
    return Promise.resolve();
  }
}

async function open(
  store: Store,
  stored: readonly StoredToolList[] = [],
): Promise<LiveRegistry & { events: (name: string) => EventFields[] }> {
  const logged: { event: string; fields: EventFields }[] = [];
  const note = (event: string, fields: EventFields): void => void logged.push({ event, fields });
  const live = openLiveRegistry(await load(configWith({ notes: forgetful })), stored, {
    log: { info: note, warn: note, error: note },
    redact: createRedactor([]),
    store,
  });
  opened.push(live);
  void live.upstreams.start();
  const events = (name: string): EventFields[] =>
    logged.filter(({ event }) => event === name).map(({ fields }) => fields);
  return { ...live, events };
}

const names = ({ current }: LiveRegistry): string[] => current().bindings.map(({ name }) => name);
const call = ({ upstreams }: LiveRegistry, tool: string) =>
  upstreams.callTool({
    alias: 'notes',
    tool,
    arguments: { text: 'x' },
    inputSchema: {},
    caller: someone,
    id: 'an-id',
    timeoutMs: 20_000,
    timeoutTotalMs: 20_000,
    mayRepeat: false,
    signal: new AbortController().signal,
    onProgress: () => {},
    onLateAnswer: () => {},
  });

describe('the live registry', () => {
  test('reads a list again when its server does not know a tool, tells what changed, and keeps it', async () => {
    const store = new Store();
    const live = await open(store);
    await live.upstreams.firstListings;
    expect(names(live)).toEqual(['notes__old']);
    expect(await call(live, 'old')).toMatchObject({ code: 'server_error', mayHaveExecuted: false });
    await until(() => names(live)[0] === 'notes__note');
    expect(live.events('tools.changed')).toEqual([
      {
        server: 'notes',
        added: [expect.stringMatching(/^note [0-9a-f]{12}$/)],
        removed: [expect.stringMatching(/^old [0-9a-f]{12}$/)],
        changed: [],
      },
    ]);
    expect(store.saved.map(({ alias, tools }) => [alias, tools.map(({ name }) => name)])).toEqual([
      ['notes', ['old']],
      ['notes', ['note']],
    ]);
  });

  test('has the tools of the last run before its servers are up, and keeps what is new only', async () => {
    const first = new Store();
    await (await open(first)).upstreams.firstListings;
    const second = new Store();
    const live = await open(second, first.saved);
    await live.upstreams.restored;
    expect(names(live)).toEqual(['notes__old']);
    expect(live.upstreams.statuses()[0]?.state).toBe('stale');
    await live.upstreams.firstListings;
    expect([second.saved, live.events('tools.changed')]).toEqual([[], []]);
  });

  test('keeps a list with the next reading that could not be kept with the first', async () => {
    const store = new Store();
    store.failures = 1;
    const live = await open(store);
    await live.upstreams.firstListings;
    await until(() => live.events('tools.not_kept').length === 1);
    expect(live.events('tools.not_kept')).toEqual([{ server: 'notes', reason: 'the disk is full' }]);
    await call(live, 'old');
    await until(() => store.saved.length === 1);
  });
});
