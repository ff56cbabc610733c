// biome-ignore-all lint/suspicious/noTemplateCurlyInString: the references of configuration files look like templates
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { loadConfiguration } from '../../../src/config/load-configuration.ts';
import { configWith, findings, folderWith, load, someIssuer } from '../../support/load-config.ts';

const good = { command: 'node' };

/** Loads one entry beside a good one, and gives the reason why it was not taken. */
async function reasonFor(entry: unknown, settings?: unknown, key = 'bad'): Promise<string> {
  const servers = settings === undefined ? {} : { [key]: settings };
  const { servers: taken, faultyServers } = await load(configWith({ good, [key]: entry }, { servers }));
  expect(taken.map(({ alias }) => alias)).toEqual(['good']);
  expect(faultyServers).toHaveLength(1);
  return faultyServers[0]?.reason ?? '';
}

describe('a faulty entry fails its server alone, with a reason that says what to do (O14)', () => {
  test.each([
    ['x', 'mcpServers.bad must be an object'],
    [{}, 'neither "command" (a program to start) nor "url"'],
    [{ command: 'node', url: 'https://a.example/' }, 'both "command" and "url"'],
    [{ command: 'node', type: 'http' }, 'its type is "http"'],
    [{ url: 'https://a.example/', type: 'stdio' }, 'its type is "stdio"'],
    [{ command: 'node', type: 'sse' }, 'its type is "sse"'],
    [{ url: 'https://a.example/', type: 'ws' }, 'must be "stdio" or "http"'],
    [{ command: '' }, 'must be a text that is not empty'],
    [{ command: 'no-such-program-anywhere' }, 'is not on the PATH of callgate: install it'],
    [{ command: 'node server.js' }, 'arguments belong into "args"'],
    [{ command: './no-such-program' }, 'there is no program at /'],
    [{ command: 'node', cwd: 'no-such-folder' }, 'there is no folder /'],
    [{ command: 'node', args: [1] }, 'mcpServers.bad.args[0] must be a text, not a number'],
    [{ command: 'node', args: ['a\0b'] }, 'NUL character'],
    [{ command: 'node', env: { 'A=B': 'x' } }, 'the key must be the name of an environment variable'],
    [{ command: 'node', env: { KEY: '${NO_SUCH_VARIABLE}' } }, 'the variable NO_SUCH_VARIABLE is not set'],
    [{ command: 'node', args: ['${input:token}'] }, 'asks a person at a keyboard'],
    [{ command: 'node', envFile: '.env' }, '"envFile" is known, but this version does not enforce it'],
    [{ comand: 'node' }, '"comand" is not a key of a server: did you mean "command"?'],
    [{ serverUrl: 'https://a.example/' }, '"serverUrl" is another host\'s word: call it "url"'],
    [{ url: 'a.example/mcp' }, '"url" is not a URL'],
    [{ url: 'ftp://a.example/' }, 'only https and http'],
    [{ url: 'http://a.example/mcp' }, 'plain http to a.example can be read'],
    [{ url: 'https://u:pw@a.example/', headers: { authorization: 'x' } }, 'keep one of the two'],
    [{ url: 'https://a.example/', headers: { 'X-A': 'a\nb' } }, 'not a header that can be sent'],
    [{ url: 'https://a.example/', headers: { 'X-A': 'a', 'x-a': 'b' } }, 'twice'],
    [{ url: 'https://a.example/', headers: { 'X-A': 5 } }, 'must be a text'],
  ])('%j', async (entry, text) => {
    expect(await reasonFor(entry)).toContain(text);
  });

  test.each([
    'http://169.254.169.254/latest/meta-data',
    'https://2852039166/',
    'https://0xa9fea9fe/',
    'https://0251.0376.0251.0376/',
    'https://[::ffff:169.254.169.254]/',
    'https://[fe80::1]/',
    'https://[fd00:ec2::254]/',
    'https://metadata.google.internal./',
    'http://100.100.100.200/',
    'http://[::ffff:0:a9fe:a9fe]/',
    'http://[::169.254.169.254]/',
    'http://[2002:a9fe:a9fe::]/',
    'http://[2002:a9fe:1::1]/',
    'http://[64:ff9b::169.254.169.254]/',
    'http://[64:ff9b:1::a9fe:1]/',
    'http://[::ffff:100.100.100.200]/',
    'http://[2002:6464:64c8::1]/',
    'http://[64:ff9b::192.0.0.192]/',
  ])('%s is refused, allowed or not (MT-8)', async (url) => {
    expect(await reasonFor({ url }, { allowHttp: true })).toContain('link-local or metadata address');
  });

  test.each([
    [{ queueMax: -1 }, 'callgate.servers.bad.queueMax must be a whole number from 0'],
    [{ pin: 'warn' }, 'callgate.servers.bad.pin is known to callgate, but this version does not enforce it'],
    [{ connection: 'session' }, 'must be "shared" or "actor" or "run", not "session"'],
    [{ connectionsMax: 0 }, 'callgate.servers.bad.connectionsMax must be a whole number from 1'],
    [{ timeoutMS: 5 }, 'did you mean "timeoutMs"?'],
    [{ backoffMinMs: 60_000 }, 'backoffMinMs is larger than backoffMaxMs'],
    [{ include: ['get_*_all'] }, "must be a tool's name, or the start of one followed by a single `*`"],
    [{ tools: { '*_x': {} } }, "the key must be a tool's name"],
    [{ tools: { search: { class: 'idempotent' } } }, 'must be "read" or "write", not "idempotent"'],
    [{ tools: { search: { approval: {} } } }, 'tools.search.approval is known'],
    [{ tools: { search: { descripton: 'x' } } }, 'did you mean "description"?'],
    [[], 'must be an object, not an empty list'],
  ])('settings %j', async (settings, text) => {
    expect(await reasonFor(good, settings)).toContain(text);
  });

  test.each([
    ['a__b', '"a_b" would do'],
    ['9lives', '"lives" would do'],
    ['mcp', 'is a word that model providers reserve'],
    ['x'.repeat(30), 'longer than 24'],
  ])('the alias %s (O01, O02)', async (alias, text) => {
    const reason = await reasonFor(good, undefined, alias);
    expect(reason).toContain(text);
    expect(reason).toContain(`callgate.servers["${alias}"].alias (callgate.json:6:5)`);
  });

  test('a bad alias can be replaced by the settings of its server', async () => {
    const { servers, policies } = await load(
      configWith({ a__b: good }, { servers: { a__b: { alias: 'a_b' } } }),
    );
    expect([...servers, ...policies].map(({ alias }) => alias)).toEqual(['a_b', 'a_b']);
  });

  test('all that is wrong with one server is told, each with its place', async () => {
    const reason = await reasonFor({ command: 'node', args: 'x', cwd: 5 }, { queueMax: 'x' });
    expect(reason).toMatch(
      /args must be a list.* \(callgate.json:8:15\); .*cwd .* \(callgate.json:9:14\); .*queueMax/,
    );
  });

  test('where the file is refused anyway, the faults of servers are told too', async () => {
    expect(await findings(configWith({ bad: {} }, { limits: { intentsMax: 0 } }))).toEqual([
      expect.stringMatching(/^3:5 server "bad": has neither/),
      expect.stringContaining('callgate.limits.intentsMax'),
    ]);
  });

  test('names from the prototype of objects are names like others', async () => {
    const { servers } = await load(configWith({ constructor: good, toString: good }));
    expect(servers.map(({ alias }) => alias)).toEqual(['constructor', 'toString']);
  });
});

describe('how a server is started', () => {
  test('a program is found on PATH, and runs in the folder of the file with a minimal environment (MT-2)', async () => {
    const folder = folderWith({
      'callgate.json': configWith({
        docs: { command: 'tool', args: ['${A}', '$${A}'], env: { KEY: '${A}-${env:B}', N: 5 } },
      })['callgate.json'],
    });
    mkdirSync(join(folder, 'bin'));
    mkdirSync(join(folder, 'bin/tool-folder'));
    writeFileSync(join(folder, 'bin/tool'), '#!/bin/sh\n');
    chmodSync(join(folder, 'bin/tool'), 0o755);
    const env = {
      PATH: `relative:${folder}/nowhere:${folder}/bin`,
      HOME: '/h',
      USER: 'u',
      SECRET: 's',
      A: 'one',
      B: 'two',
    };
    const result = await loadConfiguration({ file: join(folder, 'callgate.json'), env });
    expect(result.ok && result.value.servers[0]?.transport).toEqual({
      kind: 'stdio',
      command: join(folder, 'bin/tool'),
      args: ['one', '${A}'],
      env: { PATH: env.PATH, HOME: '/h', USER: 'u', KEY: 'one-two', N: '5' },
      cwd: folder,
    });
  });

  test('a program and a folder with a relative path start at the file', async () => {
    const folder = folderWith({
      'callgate.json': configWith({ docs: { command: './run.sh', cwd: 'work' } })['callgate.json'],
      'run.sh': '#!/bin/sh\n',
    });
    chmodSync(join(folder, 'run.sh'), 0o755);
    mkdirSync(join(folder, 'work'));
    const result = await loadConfiguration({ file: join(folder, 'callgate.json'), env: {} });
    expect(result.ok && result.value.servers[0]?.transport).toMatchObject({
      command: join(folder, 'run.sh'),
      cwd: join(folder, 'work'),
    });
  });

  test('a file that may not be executed is no program', async () => {
    const folder = folderWith({ 'run.sh': '#!/bin/sh\n' });
    expect(await reasonFor({ command: join(folder, 'run.sh') })).toContain('may not be executed');
  });
});

describe('how a server is reached', () => {
  test('the user part of a URL becomes a header', async () => {
    const { servers, secrets } = await load(
      configWith({ far: { url: 'https://user:p%40ss@far.example/mcp?key=K2-abc' } }),
    );
    expect(servers[0]?.transport).toEqual({
      kind: 'http',
      url: 'https://far.example/mcp?key=K2-abc',
      headers: { Authorization: `Basic ${btoa('user:p@ss')}` },
    });
    expect(secrets).toEqual(expect.arrayContaining(['user', 'p%40ss', 'p@ss', btoa('user:p@ss'), 'K2-abc']));
  });

  test('plain http needs a word of the operator, but not to this machine', async () => {
    const entries = { near: { url: 'http://127.0.0.1:9/mcp' }, far: { url: 'http://far.internal/mcp' } };
    const { servers } = await load(configWith(entries, { servers: { far: { allowHttp: true } } }));
    expect(servers.map(({ alias }) => alias)).toEqual(['near', 'far']);
  });
});

describe('what may not be shown (MT-14, O24)', () => {
  test('references, credentials, long env values and files are secret; short values are not', async () => {
    const folder = folderWith({ token: 'from-a-file\n' });
    const { secrets, servers } = await load(
      {
        'callgate.json': {
          mcpServers: {
            a: {
              command: 'node',
              args: ['${PLAIN}', '${FILED}'],
              env: { LONG: 'eight-or-more', MODE: 'fast' },
            },
            b: {
              url: 'https://b.example/${PART}',
              headers: {
                Authorization: 'Bearer literal-token',
                'X-Trace': 'trace-me',
                'X-Other': 'v ${IN_HEADER}',
              },
            },
            c: { url: 'https://c.example/${TINY}' },
          },
          callgate: {
            publicUrl: 'https://${HOST}',
            auth: { issuers: [{ ...someIssuer, audience: '${AUDIENCE}' }] },
          },
        },
      },
      {
        env: {
          PLAIN: 'plain-value',
          FILED_FILE: join(folder, 'token'),
          PART: 'in-the-url',
          IN_HEADER: 'in-header',
          TINY: 'abc',
          HOST: 'h.example',
          AUDIENCE: 'the-audience',
        },
      },
    );
    expect([...secrets].sort()).toEqual(
      [
        'from-a-file',
        'eight-or-more',
        'in-the-url',
        'Bearer literal-token',
        'literal-token',
        'in-header',
        'the-audience',
      ].sort(),
    );
    expect(servers[0]?.transport).toMatchObject({ args: ['plain-value', 'from-a-file'] });
  });

  test('short digits and the words of JSON are not secret, for hiding them would break log lines', async () => {
    const { secrets } = await load(
      configWith({
        a: {
          url: 'https://a.example/?pin=4711&on=true&off=null&id=12345678',
          headers: { 'X-Api-Key': '1234567', Cookie: 'Bearer 0815' },
        },
      }),
    );
    expect([...secrets].sort()).toEqual(['12345678', 'Bearer 0815']);
  });

  test('a message about a secret place does not hold the secret', async () => {
    const { faultyServers } = await load(
      configWith({
        far: { url: 'http://${HOST}/mcp' },
        odd: { url: 'x://u:hunter22@h', headers: { A: 'hunter22\n' } },
      }),
      { env: { HOST: 'secret-host.example' } },
    );
    expect(JSON.stringify(faultyServers)).not.toMatch(/secret-host|hunter22/);
    expect(faultyServers[0]?.reason).toContain('[redacted]');
  });

  test('a secret file that everybody can read is told', async () => {
    const folder = folderWith({ token: 'from-a-file' });
    chmodSync(join(folder, 'token'), 0o644);
    const files = configWith({ a: { command: 'node', env: { TOKEN: '${TOKEN}' } } });
    const { warnings } = await load(files, { env: { TOKEN_FILE: join(folder, 'token') } });
    expect(warnings).toEqual([
      expect.stringContaining('TOKEN_FILE names a file that every user of this machine can read'),
    ]);
  });
});

describe('what holds for the tools of a server', () => {
  const policyOf = async (settings: object, defaults: object = {}) => {
    const { policies } = await load(configWith({ docs: good }, { defaults, servers: { docs: settings } }));
    const [policy] = policies;
    if (policy === undefined) throw new Error('the server was not taken');
    return policy;
  };

  test('without settings every tool is offered, with the defaults', async () => {
    const policy = await policyOf({});
    expect(policy).toMatchObject({ alias: 'docs', descriptionPrefix: undefined, trustAnnotations: false });
    expect(policy.offers('anything')).toBe(true);
    expect(policy.toolPolicy('anything')).toEqual({
      class: undefined,
      idempotent: undefined,
      retry: 'safe',
      timeoutMs: 60_000,
      timeoutTotalMs: 600_000,
      outputCharsMax: 100_000,
      render: undefined,
      description: undefined,
    });
  });

  test('calls need a run where each run has a connection of its own', async () => {
    expect((await policyOf({ connection: 'run' })).needsRun).toBe(true);
    expect((await policyOf({ connection: 'actor' })).needsRun).toBe(false);
    expect((await policyOf({})).needsRun).toBe(false);
  });

  test('`include` names what is offered, and `exclude` takes away from it', async () => {
    const { offers } = await policyOf({ include: ['search', 'get_*'], exclude: ['get_secret*'] });
    const names = ['search', 'searches', 'get_', 'get_a', 'get_secret', 'get_secrets', 'get'];
    expect(names.filter(offers)).toEqual(['search', 'get_', 'get_a']);
    expect((await policyOf({ include: [] })).offers('search')).toBe(false);
  });

  test('the longest match wins, whole, and the exact name beats any pattern', async () => {
    const { toolPolicy } = await policyOf({
      timeoutMs: 1,
      tools: {
        '*': { class: 'read' },
        'get_*': { timeoutMs: 2 },
        get_x: { timeoutMs: 3 },
        'get_x*': { timeoutMs: 4 },
      },
    });
    const found = ['other', 'get_a', 'get_x', 'get_xy'].map((name) => [
      toolPolicy(name).class,
      toolPolicy(name).timeoutMs,
    ]);
    expect(found).toEqual([
      ['read', 1],
      [undefined, 2],
      [undefined, 3],
      [undefined, 4],
    ]);
  });

  test('settings of the server replace the defaults, one by one; tools are joined', async () => {
    const { toolPolicy, offers } = await policyOf(
      { timeoutMs: 5, exclude: [], tools: { b: { class: 'write' } } },
      { timeoutMs: 9, render: 'text', exclude: ['x'], tools: { a: { class: 'read' }, b: { class: 'read' } } },
    );
    expect(toolPolicy('a')).toMatchObject({ class: 'read', timeoutMs: 5, render: 'text' });
    expect(toolPolicy('b').class).toBe('write');
    expect(offers('x')).toBe(true);
  });

  test('a tool may be declared idempotent, and be sent again or not, whatever holds for its server', async () => {
    const { toolPolicy } = await policyOf(
      {
        tools: {
          put: { idempotent: true, retry: 'safe' },
          post: { idempotent: false, timeoutMs: 5, timeoutTotalMs: 6 },
        },
      },
      { retry: 'never', timeoutTotalMs: 70_000 },
    );
    expect(toolPolicy('put')).toMatchObject({ idempotent: true, retry: 'safe', timeoutTotalMs: 70_000 });
    expect(toolPolicy('post')).toMatchObject({ idempotent: false, retry: 'never', timeoutTotalMs: 6 });
  });

  test.each<[object, string]>([
    [{ timeoutMs: 700_000 }, 'timeoutTotalMs (600000) is less than timeoutMs (700000)'],
    [{ timeoutTotalMs: 59_999 }, 'timeoutTotalMs (59999) is less than timeoutMs (60000)'],
    [{ timeoutMs: 9, timeoutTotalMs: 8 }, 'timeoutTotalMs (8) is less than timeoutMs (9)'],
    [{ tools: { slow: { timeoutMs: 700_000 } } }, 'is less than timeoutMs (700000)'],
    [{ timeoutTotalMs: 70_000, tools: { 's*': { timeoutMs: 80_000 } } }, 'timeoutTotalMs (70000) is less'],
  ])('the whole time is not shorter than the time of silence: %j', async (settings, text) => {
    const reason = await reasonFor(good, settings);
    expect(reason).toContain(text);
    expect(reason).toMatch(/\(callgate\.json:\d+:\d+\)$/);
  });

  test('where the defaults have a whole time that is too short, that is told once, with its place', async () => {
    const files = configWith({ a: good, b: good }, { defaults: { timeoutMs: 5, timeoutTotalMs: 4 } });
    expect(await findings(files)).toEqual([
      expect.stringMatching(/^\d+:25 timeoutTotalMs \(4\) is less than timeoutMs \(5\)/),
    ]);
    const own = configWith(
      { a: good, b: good },
      { defaults: { tools: { x: { timeoutTotalMs: 7 } }, timeoutMs: 6 }, servers: { b: { timeoutMs: 8 } } },
    );
    const { servers, faultyServers } = await load(own);
    expect(servers.map(({ alias }) => alias)).toEqual(['a']);
    expect(faultyServers[0]?.reason).toContain('timeoutTotalMs (7) is less than timeoutMs (8)');
  });
});
