import { execFileSync } from 'node:child_process';
import { closeSync, mkdtempSync, openSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, expect, test } from 'vitest';
import { type Callgate, startCallgate } from '../support/callgate.ts';
import { until } from '../support/until.ts';

const script = fileURLToPath(new URL('../support/servers/held.sh', import.meta.url));
const good = Array.from({ length: 45 }, (_, index) => `good${index + 1}`);

interface Shown {
  readonly alias: string;
  readonly state: string;
  readonly stage?: string;
  readonly last_error?: string;
  readonly last_exit_code?: number;
}

const folder = mkdtempSync(join(tmpdir(), 'callgate-many-'));
const gate = join(folder, 'gate');
let callgate: Callgate | undefined;
afterEach(async () => {
  await callgate?.stop();
  rmSync(folder, { recursive: true });
});

test('of fifty servers five are broken: callgate answers before any of them is up, and offers all that work', async () => {
  execFileSync('mkfifo', [gate]);
  const sh = (text: string): object => ({ command: 'sh', args: ['-c', text] });
  callgate = await startCallgate({
    mcpServers: {
      missing: { command: 'no-such-command-anywhere' },
      dies: sh('echo "no licence found" >&2; exit 3'),
      hangs: sh('while read -r line; do :; done'),
      babbles: sh('while read -r line; do echo "[info] listening"; done'),
      lost: { url: 'http://127.0.0.1:9/mcp' },
      ...Object.fromEntries(good.map((alias) => [alias, { command: 'sh', args: [script, gate] }])),
    },
    callgate: {
      limits: { readyAfterMs: 10 },
      defaults: { stopGraceMs: 500, backoffMinMs: 50, backoffMaxMs: 400 },
      servers: { hangs: { connectTimeoutMs: 400 }, babbles: { connectTimeoutMs: 400 } },
    },
  });
  const { get, call } = callgate;
  const token = await callgate.token([...good.map((alias) => `tools:${alias}:*`), 'callgate:operate']);
  const servers = async (): Promise<readonly Shown[]> =>
    (await get<{ servers: readonly Shown[] }>('/v1/servers', { token })).body.servers;
  const inState = (all: readonly Shown[], state: string): readonly string[] =>
    all.filter((one) => one.state === state).map(({ alias }) => alias);

  expect((await get('/healthz')).status).toBe(200);
  const before = await servers();
  expect(inState(before, 'ready')).toEqual([]);
  expect(inState(before, 'connecting')).toEqual(expect.arrayContaining(good));

  // Open for reading and writing, it lets everybody pass who waits for either.
  const opened = openSync(gate, 'r+');
  await until(async () => inState(await servers(), 'ready').length === good.length);
  closeSync(opened);
  const broken = (alias: string, all: readonly Shown[]): Shown | undefined =>
    all.find((one) => one.alias === alias);
  await until(async () => {
    const now = await servers();
    return ['dies', 'hangs', 'babbles', 'lost'].every(
      (alias) => broken(alias, now)?.last_error !== undefined,
    );
  });
  const after = await servers();
  expect(broken('missing', after)).toMatchObject({ state: 'stopped', stage: 'config' });
  expect(broken('missing', after)?.last_error).toContain('no-such-command-anywhere');
  expect(broken('dies', after)).toMatchObject({ stage: 'initialize', last_exit_code: 3 });
  expect(broken('hangs', after)).toMatchObject({
    stage: 'initialize',
    last_error: expect.stringContaining('400 ms'),
  });
  expect(broken('babbles', after)).toMatchObject({
    stage: 'initialize',
    last_error: expect.stringContaining('400 ms'),
  });
  expect(broken('lost', after)).toMatchObject({ stage: 'connect' });
  const declared = await get<{ tools: readonly unknown[] }>('/v1/declarations', { token });
  expect(declared.body.tools).toHaveLength(good.length);
  const answers = await Promise.all(good.map((alias) => call(token, `call-${alias}`, `${alias}__hello`, {})));
  expect(answers.map(({ envelope }) => envelope.content[0]?.text)).toEqual(good.map(() => 'hello'));
});
