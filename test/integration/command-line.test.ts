import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { decodeJwt } from 'jose';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { repositoryFolder, runCli } from '../support/callgate.ts';
import { scriptedServer } from '../support/scripted.ts';

let folder: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'callgate-cli-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const run = (...args: readonly string[]) => runCli(args, { cwd: folder });
const issuers = [
  { issuer: 'https://idp.test/', audience: 'https://callgate.test', jwksUri: 'https://idp.test/jwks' },
];

function write(name: string, content: unknown): string {
  const file = join(folder, name);
  writeFileSync(file, typeof content === 'string' ? content : JSON.stringify(content));
  return file;
}

describe('callgate', () => {
  test('tells its commands and its version', async () => {
    const help = await run('--help');
    expect(help.code).toBe(0);
    for (const word of [
      'serve',
      'dev',
      'check',
      'token',
      'ledger',
      'settle ID',
      '--sub',
      '--scope',
      '--state',
      '--note',
      '78',
    ]) {
      expect(help.stdout).toContain(word);
    }
    const version = await run('--version');
    const { version: expected } = JSON.parse(readFileSync(join(repositoryFolder, 'package.json'), 'utf8'));
    expect([version.code, version.stdout]).toEqual([0, `${expected}\n`]);
  });

  test('ends with 2 and a word of help where it is used wrongly', async () => {
    const wrong = [
      [],
      ['bogus'],
      ['serve'],
      ['serve', '--nope'],
      ['dev', '--log-level', 'loud'],
      ['token', '--ttl', 'soon'],
      ['token', 'me'],
      ['toString'],
      ['check', '--json', '--config', 'x.json'],
      ['ledger'],
    ];
    for (const { code, stdout, stderr } of await Promise.all(wrong.map((args) => run(...args)))) {
      expect([code, stdout]).toEqual([2, '']);
      expect(stderr).toMatch(/^callgate: .+\nTry: callgate --help\n$/);
    }
  });

  test('ends with 78 and tells all that is wrong with a file, with line and column', async () => {
    const file = write(
      'callgate.yaml',
      [
        'mcpServers: {}',
        'callgate:',
        '  listen: { prot: 1 }',
        '  rules: []',
        '  auth:',
        '    issuers: [{ issuer: https://idp.test/, audience: "*", jwksUri: https://idp.test/jwks }]',
        '  defaults: { connection: each }',
      ].join('\n'),
    );
    const commands = ['serve', 'check', 'dev'].map((command) => run(command, '--config', file));
    for (const { code, stdout, stderr } of await Promise.all(commands)) {
      expect([code, stdout]).toEqual([78, '']);
      const told = stderr.split('\n');
      expect(told.slice(4)).toEqual(['4 findings; nothing was started', '']);
      const places = told.slice(0, 4).map((line) => line.slice(file.length).split(':', 3).join(':'));
      expect(places).toEqual([':3:13', ':4:3', ':6:54', ':7:27']);
      for (const [index, word] of ['prot', 'rules', 'audience', 'connection'].entries()) {
        expect(told[index]).toContain(word);
      }
    }
  });

  test('token prints a token of the local key pair with subject, scopes and life as asked', async () => {
    const { code, stdout } = await run(
      'token',
      '--sub',
      'me',
      '--scope',
      'tools:a:* tools:b:x',
      '--ttl',
      '90s',
    );
    expect(code).toBe(0);
    const claims = decodeJwt(stdout.trim());
    expect(claims).toMatchObject({ sub: 'me', scope: 'tools:a:* tools:b:x' });
    expect(Number(claims.exp) - Number(claims.iat)).toBe(90);
  });
});

describe('callgate check', () => {
  const good = { definition: { name: 'fine', inputSchema: { type: 'object' } } };

  test('prints servers and declared names, and ends with 0 where nothing is wrong', async () => {
    const file = write('callgate.json', {
      servers: { good: scriptedServer(join(folder, 'good.tools'), [good]) },
      callgate: { auth: { issuers }, servers: { good: { tools: { fine: { class: 'read' } } } } },
    });
    const { code, stdout } = await run('check', '--config', file);
    expect(stdout).toMatch(/^good: ready, .*\n {2}good__fine \(read\)\nno findings\n$/);
    expect(code).toBe(0);
  });

  test('tells withheld tools, clashes and servers that fail, each with its reason, and ends with 1', async () => {
    const tools = [
      good,
      good,
      { definition: { name: 'bad', inputSchema: { type: 'array' } } },
      { definition: { name: 'ok', inputSchema: { type: 'object' } } },
    ];
    const file = write('callgate.json', {
      mcpServers: {
        good: scriptedServer(join(folder, 'good.tools'), tools),
        gone: { command: process.execPath, args: ['-e', 'console.error("no licence"); process.exit(3)'] },
        missing: { command: 'no-such-program' },
      },
      callgate: { auth: { issuers } },
    });
    const { code, stdout } = await run('check', '--config', file);
    expect(code).toBe(1);
    expect(stdout).toMatch(/^good: ready, .*\n {2}good__ok \(write\)\n/);
    expect(stdout).toMatch(/finding: "bad" is withheld: .*"object"/);
    expect(stdout).toMatch(/finding: "fine" is withheld: /);
    expect(stdout).toMatch(/gone: .*\n {2}finding: .*exit code 3.*\n {4}stderr: no licence\n/);
    expect(stdout).toMatch(/missing: .*\n {2}finding: .*no-such-program/);
    expect(stdout).toMatch(/\n4 findings\n$/);
  });
});
