import { execFile } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { userInfo } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Callgate, repositoryFolder, runCli, startCallgate } from '../support/callgate.ts';
import { labConfig } from '../support/lab.ts';
import { describeWithPostgres } from '../support/postgres.ts';

const run = promisify(execFile);

interface Listed {
  readonly id: string;
  readonly status: string;
  readonly call_id: string;
  readonly [member: string]: unknown;
}

describe('callgate ledger, beside a running service', () => {
  let gate: Callgate;
  let token: string;
  /** By the id that the caller gave. */
  let ids: ReadonlyMap<string, string>;

  beforeAll(async () => {
    gate = await startCallgate(labConfig({ tools: { hang: { timeoutMs: 200 }, where: { class: 'read' } } }));
    token = await gate.token(['tools:lab:*']);
    await gate.call(token, 'call_hang', 'lab__hang', {});
    await gate.call(token, 'call_echo', 'lab__echo', { text: 'kept for a repeat' }, { 'Callgate-Run': 'r1' });
    await gate.call(token, 'call\u001b[2J\u009b31m', 'lab__echo', { text: 'x' });
    await gate.call(token, 'call_again', 'lab__hang', {});
    ids = new Map((await listed()).map(({ call_id, id }) => [call_id, id]));
  });
  afterAll(() => gate.stop());

  const ledger = (...args: readonly string[]) =>
    runCli(['ledger', ...args, '--config', join(gate.folder, 'callgate.json')], { cwd: gate.folder });
  const listed = async (...args: readonly string[]): Promise<Listed[]> => {
    const { code, stdout, stderr } = await ledger('list', '--json', ...args);
    expect([code, stderr]).toEqual([0, '']);
    return stdout
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => JSON.parse(line) as Listed);
  };
  const idOf = (callId: string): string => ids.get(callId) ?? '';

  test('list prints the newest calls first, in a table that no call can disturb', async () => {
    const { code, stdout } = await ledger('list');
    const [head, ...rows] = stdout.trimEnd().split('\n');
    expect(code).toBe(0);
    expect(head?.split(/\s{2,}/)).toEqual([
      'ID',
      'STATUS',
      'CODE',
      'CREATED',
      'SENT',
      'NAME',
      'CALL ID',
      'ACTOR',
    ]);
    const shown = rows.map((row) => row.split(/\s{2,}/)).map((cells) => [cells[1], ...cells.slice(-4)]);
    const actor = 'reader by test-client at https://idp.test/';
    expect(shown).toEqual([
      ['unknown', '1', 'lab__hang', 'call_again', actor],
      ['succeeded', '1', 'lab__echo', 'call[2J31m', actor],
      ['succeeded', '1', 'lab__echo', 'call_echo', actor],
      ['unknown', '1', 'lab__hang', 'call_hang', actor],
    ]);
    expect(rows[0]).toMatch(/ {2}timeout +\d{4}-\d\d-\d\dT/);
  });

  test('list takes a state and a number, and prints lines of JSON', async () => {
    const unknown = await listed('--state', 'unknown');
    expect(unknown.map(({ call_id }) => call_id)).toEqual(['call_again', 'call_hang']);
    expect(unknown[1]).toMatchObject({
      code: 'timeout',
      may_have_executed: true,
      attempts: 1,
      actor: { issuer: 'https://idp.test/', kind: 'user', subject: 'reader', client: 'test-client' },
      server: 'lab',
      tool: 'hang',
      class: 'write',
      expired: false,
    });
    expect((await listed('--limit', '1')).map(({ call_id }) => call_id)).toEqual(['call_again']);
    expect((await ledger('list', '--state', 'received')).stdout).toBe('no calls\n');
  });

  test('show prints all of one call, its result too, and no arguments', async () => {
    const { code, stdout } = await ledger('show', idOf('call_echo').toUpperCase());
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({
      call_id: 'call_echo',
      run: 'r1',
      status: 'succeeded',
      outcome: { result: { content: [{ type: 'text', text: 'kept for a repeat' }], is_error: false } },
    });
    expect(stdout).not.toContain('arguments');
    expect((await ledger('show', idOf('call_hang'))).stdout).toContain('"code": "timeout"');
  });

  test('export prints every record, and does not mind a reader that has seen enough', async () => {
    const { code, stdout } = await ledger('export');
    const records = stdout
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line));
    expect(code).toBe(0);
    expect(records.map(({ id }) => id)).toEqual([...ids.values()]);
    expect(records.find(({ call_id }) => call_id === 'call_echo')).toHaveProperty('outcome.result');
    expect(stdout).not.toContain('\u009b');

    const cli = join(repositoryFolder, 'dist/cli.js');
    const piped = `'${process.execPath}' '${cli}' ledger export -c callgate.json | head -c 1; echo "\${PIPESTATUS[0]}"`;
    const { stdout: seen, stderr } = await run('bash', ['-c', piped], { cwd: gate.folder });
    expect([seen, stderr]).toEqual(['{0\n', '']);
  });

  test('settle takes the word of an operator on an unknown call, once, and on no other', async () => {
    const id = idOf('call_hang');
    const settle = (which: string, status = 'succeeded') =>
      ledger('settle', which, '--as', status, '--note', 'seen in the bank "statement"');
    const { code, stdout, stderr } = await settle(id);
    expect([code, stderr]).toEqual([0, '']);
    expect(JSON.parse(stdout)).toMatchObject({
      level: 'info',
      event: 'call.settled_by_operator',
      id,
      status: 'succeeded',
      note: 'seen in the bank "statement"',
      user: userInfo().username,
    });
    const { outcome } = JSON.parse((await ledger('show', id)).stdout) as Listed;
    expect(outcome).toMatchObject({
      settled_by: {
        user: userInfo().username,
        note: 'seen in the bank "statement"',
        at: expect.stringMatching(/^\d{4}-\d\d-\d\dT/),
      },
    });

    const refused = [await settle(id, 'failed'), await settle(idOf('call_echo'), 'failed')];
    for (const { code: refusal, stdout: nothing, stderr: reason } of refused) {
      expect([refusal, nothing]).toEqual([1, '']);
      expect(reason).toMatch(/^callgate: the call [\da-f-]+ is succeeded; only one whose end is unknown/);
    }
    expect((await listed('--state', 'unknown')).map(({ call_id }) => call_id)).toEqual(['call_again']);

    const before = gate.executions().length;
    const repeat = await gate.call(token, 'call_hang', 'lab__hang', {});
    expect(repeat.headers.get('callgate-status')).toBe('succeeded');
    expect(repeat.headers.get('callgate-replayed')).toBe('true');
    expect(JSON.stringify(repeat.item)).not.toMatch(/settled_?by/i);
    expect(gate.executions()).toHaveLength(before);
  });

  test('a call that is not there is told, with exit code 1', async () => {
    const nobody = '01890000-0000-7000-8000-000000000000';
    for (const args of [
      ['show', nobody],
      ['settle', nobody, '--as', 'failed', '--note', 'x'],
    ]) {
      const { code, stdout, stderr } = await ledger(...args);
      expect([code, stdout, stderr]).toEqual([
        1,
        '',
        `callgate: there is no call ${nobody} in this ledger\n`,
      ]);
    }
  });

  test('needs no issuer in the configuration, and no ledger that is not there', async () => {
    writeFileSync(
      join(gate.folder, 'plain.json'),
      JSON.stringify({ callgate: { ledger: { url: 'sqlite:nowhere/ledger.db' } } }),
    );
    const { code, stdout, stderr } = await runCli([
      'ledger',
      'list',
      '--config',
      join(gate.folder, 'plain.json'),
    ]);
    expect(code).not.toBe(0);
    expect(stdout).toBe('');
    expect(stderr).toMatch(/^callgate: .*nowhere\/ledger\.db/);
  });

  test('a database that cannot be reached is told without its password', async () => {
    writeFileSync(
      join(gate.folder, 'database.json'),
      JSON.stringify({ callgate: { ledger: { url: 'postgres://u:hunter22@127.0.0.1:1/x' } } }),
    );
    const { code, stdout, stderr } = await runCli([
      'ledger',
      'list',
      '--config',
      join(gate.folder, 'database.json'),
    ]);
    expect([code, stdout]).toEqual([1, '']);
    expect(stderr).toMatch(/^callgate: .+\n$/);
    expect(stderr).not.toContain('hunter22');
  });
});

describeWithPostgres('callgate ledger on PostgreSQL', (server) => {
  test('lists, shows and settles beside a running service', async () => {
    const database = await server.createDatabase();
    const lab = labConfig({ tools: { hang: { timeoutMs: 200 } } });
    const gate = await startCallgate({
      ...lab,
      callgate: { ...lab.callgate, ledger: { url: database.url } },
    });
    const ledger = (...args: readonly string[]) =>
      runCli(['ledger', ...args, '-c', 'callgate.json'], { cwd: gate.folder });
    const token = await gate.token(['tools:lab:*']);
    await gate.call(token, 'call_hang', 'lab__hang', {});
    await gate.call(token, 'call_echo', 'lab__echo', { text: 'kept' });

    const { stdout } = await ledger('list', '--json', '--state', 'unknown');
    const { id } = JSON.parse(stdout) as Listed;
    expect((await ledger('export')).stdout.trimEnd().split('\n')).toHaveLength(2);
    expect((await ledger('settle', id, '--as', 'failed', '--note', 'not there')).code).toBe(0);
    expect((await ledger('settle', id, '--as', 'failed', '--note', 'again')).code).toBe(1);
    expect(JSON.parse((await ledger('show', id)).stdout)).toMatchObject({ status: 'failed', tool: 'hang' });

    const repeat = await gate.call(token, 'call_hang', 'lab__hang', {});
    expect(repeat.headers.get('callgate-status')).toBe('failed');
    expect(gate.executions()).toHaveLength(2);
    await gate.stop();
    await database.drop();
  });
});
