import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { EventFields } from '../../src/core/events.ts';
import { Watchdog } from '../../src/upstream/stdio/watchdog.ts';
import { startCallgate } from '../support/callgate.ts';
import { allGone, descendantsOf, type ProcessEntry } from '../support/processes.ts';
import { until } from '../support/until.ts';

const holderScript = fileURLToPath(new URL('../support/child-holder.mjs', import.meta.url));
const faultServer = fileURLToPath(new URL('../support/fault-server.mjs', import.meta.url));
const stubborn = [process.execPath, faultServer, 'ignore-sigterm', 'ignore-stdin-end'];

const holders: ChildProcess[] = [];
let folder: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'callgate-watchdog-'));
});
afterAll(async () => {
  for (const holder of holders) holder.kill('SIGKILL');
  await rm(folder, { recursive: true });
});

/** A launcher script in a file of its own. */
async function launcher(name: string, text: string): Promise<string> {
  const file = join(folder, name);
  await writeFile(file, text);
  await chmod(file, 0o755);
  return file;
}

/** Starts a process that holds these children, and waits until each of them has started so many processes below it. */
async function hold(children: readonly (readonly string[])[], processes: number) {
  const holder = spawn(process.execPath, [holderScript, JSON.stringify(children)], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  holders.push(holder);
  await once(createInterface({ input: holder.stdout }), 'line');
  // Those of the children, and the watchdog.
  const all = (): readonly ProcessEntry[] => descendantsOf(holder.pid ?? 0);
  await until(() => all().length >= processes + 1);
  const watchdog = (): ProcessEntry | undefined =>
    all().find(({ command }) => command.endsWith('callgate-watchdog'));
  return { holder, all, watchdog };
}

// The tests wait for other processes most of their time, so they do it together.
describe.concurrent('when a process with children is killed with SIGKILL', () => {
  test('nothing is left of them, of what they started, and of the watchdog (MT-10)', async () => {
    const quoted = stubborn.map((part) => `'${part}'`).join(' ');
    // As npx does: a shell between, which takes the signals.
    const npx = await launcher('npx', `#!/bin/sh\ntrap '' TERM\nsh -c "${quoted}"\necho over\n`);
    // As uvx does: starts the server, hands its own pipes on, and waits.
    const uvx = await launcher(
      'uvx.mjs',
      `import { spawn } from 'node:child_process';
       process.on('SIGTERM', () => {});
       spawn(${JSON.stringify(stubborn[0])}, ${JSON.stringify(stubborn.slice(1))}, { stdio: 'inherit' });`,
    );
    const background = `trap '' TERM; sleep 1000 & (trap '' TERM; sleep 1001; sleep 1002) & wait; wait`;
    const { holder, all } = await hold(
      [stubborn, ['sh', '-c', background], [npx], [process.execPath, uvx]],
      // The server; a shell, a process, a subshell with one more; two shells and a server; a launcher and a server.
      1 + 4 + 3 + 2,
    );
    const entries = all();
    holder.kill('SIGKILL');
    await allGone(entries);
  });

  test('so it is with callgate as a whole', async () => {
    const quoted = stubborn.map((part) => `'${part}'`).join(' ');
    const shell = { command: '/bin/sh', args: ['-c', `trap '' TERM; ${quoted}; echo over`] };
    const gate = await startCallgate({
      mcpServers: { shell, node: { command: stubborn[0], args: stubborn.slice(1) } },
    });
    // Fails if any process below callgate is left.
    await gate.stop('SIGKILL');
  });

  test('a watchdog that was killed before has been replaced by one that knows all of them', async () => {
    const { holder, all, watchdog } = await hold([stubborn, stubborn], 2);
    const first = watchdog();
    process.kill(first?.pid ?? 0, 'SIGKILL');
    await until(() => watchdog() !== undefined && watchdog()?.pid !== first?.pid);
    const entries = all();
    expect(entries).toHaveLength(3);
    holder.kill('SIGKILL');
    await allGone(entries);
  });

  test('the watchdog is still there after the signals that end everybody else', async () => {
    const { holder, all, watchdog } = await hold([stubborn], 1);
    const entries = all();
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.kill(watchdog()?.pid ?? 0, signal);
    holder.kill('SIGKILL');
    await allGone(entries);
  });
});

test.concurrent('a process that has ended its children comes to its own end, and its watchdog with it', async () => {
  const { holder, all } = await hold([[process.execPath, faultServer], stubborn], 2);
  const entries = all();
  holder.stdin?.end();
  expect(await once(holder, 'exit')).toEqual([0, null]);
  await allGone(entries);
});

describe.concurrent('the watchdog', () => {
  const watched = (shell: string) => {
    const events: { event: string; fields: EventFields; atMs: number }[] = [];
    const note = (event: string, fields: EventFields): void =>
      void events.push({ event, fields, atMs: performance.now() });
    return { watchdog: new Watchdog(shell), log: { info: note, warn: note, error: note }, events };
  };

  test('is told of each group once it lives and once it is gone', async () => {
    const told = join(folder, 'told');
    const shell = await launcher('shell', `#!/bin/sh\nexec cat > '${told}'\n`);
    const { watchdog, log, events } = watched(shell);
    watchdog.ready(log);
    watchdog.watch(71);
    watchdog.watch(72);
    watchdog.forget(71);
    watchdog.forget(71);
    const text = (): Promise<string> => readFile(told, 'utf8').catch(() => '');
    await until(async () => (await text()).endsWith('-71\n'));
    expect(await text()).toBe('+71\n+72\n-71\n');
    // The next one hears of those only that still live.
    process.kill(watchdog.pid ?? 0, 'SIGKILL');
    await until(async () => (await text()) === '+72\n');
    expect(events).toMatchObject([
      { event: 'process.watchdog_ended', fields: { reason: 'it ended with SIGKILL' } },
    ]);
    watchdog.forget(72);
  });

  test('that cannot be started harms nothing, is told of, and is not tried without a pause', async () => {
    const { watchdog, log, events } = watched(join(folder, 'no-shell'));
    watchdog.ready(log);
    watchdog.watch(71);
    await until(() => events.length >= 3);
    // Once more at once, and from then on after a pause.
    expect((events[2]?.atMs ?? 0) - (events[1]?.atMs ?? 0)).toBeGreaterThan(100);
    expect(events[0]?.fields.reason).toContain('ENOENT');
    watchdog.forget(71);
  });
});
