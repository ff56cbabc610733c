import { execFile } from 'node:child_process';
import { statSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Callgate, runCli, startDev } from '../support/callgate.ts';
import { describeWithProgram } from '../support/programs.ts';
import { until } from '../support/until.ts';

const run = promisify(execFile);

describeWithProgram('curl', '`callgate dev`, as `npm start` runs it', () => {
  let gate: Callgate;

  beforeAll(async () => {
    gate = await startDev();
    await until(() => gate.stdout().includes('a first call:'));
  });
  afterAll(async () => {
    expect(await gate.stop('SIGINT')).toBe(0);
  });

  test('prints its URL, a token and the declared tools of both example servers', () => {
    expect(gate.url).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/);
    expect(gate.stdout()).toContain(gate.url);
    for (const name of ['docs__search', 'docs__read_page', 'tickets__search', 'tickets__create_ticket']) {
      expect(gate.stdout()).toContain(name);
    }
    expect(gate.stdout()).not.toContain('crash_for_test');
  });

  test('prints a curl line that works when it is pasted', async () => {
    const line = gate
      .stdout()
      .split('\n')
      .find((candidate) => candidate.startsWith('curl '));
    const { stdout } = await run('sh', ['-c', line ?? '']);

    const item = JSON.parse(stdout);
    expect(item).toMatchObject({
      type: 'function_call_output',
      call_id: expect.stringMatching(/^call_[0-9a-f]{8}$/),
    });
    expect(JSON.parse(item.output).ok).toBe(true);
  });

  test('records calls in a ledger beside its key, which only this user can read', async () => {
    const folder = statSync(join(gate.folder, '.callgate'));
    const ledger = statSync(join(gate.folder, '.callgate/ledger.db'));
    expect([folder.mode & 0o777, ledger.mode & 0o777]).toEqual([0o700, 0o600]);

    const token = await gate.token(['tools:docs:*']);
    await gate.call(token, 'call_listed', 'docs__search', { query: 'x' });
    const { code, stdout } = await runCli(['ledger', 'list'], { cwd: gate.folder });
    expect(code).toBe(0);
    expect(stdout).toContain('call_listed');
  });

  test('a second one in the same folder ends with 78, and says who holds the ledger and what to do', async () => {
    const { code, stdout, stderr } = await runCli(['dev', '--port', '0'], { cwd: gate.folder });
    expect([code, stdout]).toEqual([78, '']);
    expect(stderr).toMatch(/^callgate: .*\.callgate\/ledger\.db.*\b\d+\b/);
    expect(stderr).toMatch(/another folder, or with a ledger of its own .*"url": "sqlite:/);
    expect((await gate.get('/readyz')).status).toBe(200);
  });

  test('accepts the tokens that `callgate token` makes, with just the scopes that were asked for', async () => {
    const reader = await gate.token(['tools:docs:*', 'tools:tickets:*:read']);
    const { body } = await gate.get<{ tools: readonly { name: string }[] }>('/v1/declarations', {
      token: reader,
    });
    expect(body.tools.map((tool) => tool.name)).toEqual([
      'docs__read_page',
      'docs__search',
      'tickets__get_ticket',
      'tickets__search',
    ]);
  });
});
