// biome-ignore-all lint/suspicious/noTemplateCurlyInString: the references of configuration files look like templates
import { basename, dirname, join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { loadConfiguration } from '../../../src/config/load-configuration.ts';
import { configWith, findings, folderWith, load, someIssuer } from '../../support/load-config.ts';

describe('what a file says is found in the configuration', () => {
  test('a file with an issuer alone gets every default', async () => {
    const { file, ledger, servers, policies, secrets, warnings, ...rest } = await load(configWith({}));
    expect(basename(file)).toBe('callgate.json');
    expect(ledger.store).toEqual({ kind: 'sqlite', file: join(dirname(file), '.callgate/ledger.db') });
    expect({ servers, policies, secrets, warnings }).toEqual({
      servers: [],
      policies: [],
      secrets: [],
      warnings: [],
    });
    expect(rest).toEqual({
      listen: { host: '127.0.0.1', port: 8787 },
      metrics: { host: '127.0.0.1', port: 9464 },
      publicUrl: undefined,
      hideForbidden: false,
      auth: {
        clockToleranceS: 30,
        globalWildcards: false,
        deny: { tokens: [], subjects: [], keys: [] },
        issuers: [
          {
            issuer: someIssuer.issuer,
            audience: someIssuer.audience,
            keys: {
              kind: 'url',
              jwksUri: someIssuer.jwksUri,
              maxAgeMs: 300_000,
              cooldownMs: 30_000,
              timeoutMs: 5_000,
              staleMaxMs: 86_400_000,
            },
            algorithms: ['RS256', 'ES256', 'PS256', 'EdDSA'],
            profile: 'rfc9068',
            scopeClaims: ['scope', 'scp'],
            scopeMap: {},
            grantsMax: undefined,
            lifetimeMaxS: 86_400,
          },
        ],
      },
      limits: {
        waitMaxMs: 55_000,
        drainMs: 25_000,
        bodyTimeoutMs: 30_000,
        bodyBytesMax: 1_048_576,
        turnBytesMax: 16_777_216,
        intentsMax: 64,
        readyAfterMs: 10_000,
      },
      faultyServers: [],
    });
  });

  test('metrics can be moved and switched off', async () => {
    const moved = await load(configWith({}, { listen: { metrics: '[::1]:9000' } }));
    expect(moved.metrics).toEqual({ host: '::1', port: 9000 });
    expect((await load(configWith({}, { listen: { metrics: false } }))).metrics).toBeUndefined();
  });

  test('`servers` of VS Code and `mcpServers` are read together', async () => {
    const { servers } = await load({
      'callgate.json': {
        mcpServers: { first: { command: 'node' } },
        servers: { second: { type: 'http', url: 'https://second.example.com/mcp' } },
        callgate: { auth: { issuers: [someIssuer] } },
      },
    });
    expect(servers.map(({ alias, transport }) => [alias, transport.kind])).toEqual([
      ['first', 'stdio'],
      ['second', 'http'],
    ]);
  });

  test("servers are taken from other hosts' files, with paths that start at those files", async () => {
    const folder = folderWith({
      'other.json': { globalShortcut: 'x', mcpServers: { far: { command: 'node' } } },
    });
    const { servers, warnings } = await load(
      configWith(
        { near: { command: 'node' } },
        { mcpServersFrom: [join(folder, 'other.json')], servers: { far: { alias: 'renamed' } } },
      ),
    );
    expect(servers.map(({ alias }) => alias)).toEqual(['near', 'renamed']);
    expect(servers.map(({ transport }) => transport.kind === 'stdio' && transport.cwd === folder)).toEqual([
      false,
      true,
    ]);
    expect(warnings).toEqual([]);
  });

  test('keys of other hosts are left alone, and told', async () => {
    const { servers, warnings } = await load({
      'callgate.json': {
        inputs: [],
        mcpServers: {
          docs: { command: 'node', autoApprove: ['search'], timeout: 30 },
          off: { command: '${NOT_SET}', disabled: true },
        },
        callgate: { auth: { issuers: [someIssuer] }, servers: { off: { queueMax: 1 } } },
      },
    });
    expect(servers.map(({ alias }) => alias)).toEqual(['docs']);
    expect(warnings).toEqual([
      expect.stringMatching(/^callgate.json:2:3: "inputs" is not a key of callgate/),
      expect.stringContaining('the server "off" is left out'),
      expect.stringContaining('"autoApprove" of server "docs" is not read'),
      expect.stringContaining('"timeout" of server "docs" is not read'),
    ]);
  });
});

describe('what is wrong is told all at once, with its place', () => {
  test('a file that does not exist', async () => {
    const result = await loadConfiguration({ file: '/nowhere/callgate.json', env: {} });
    expect(result).toEqual({
      ok: false,
      error: [{ file: '/nowhere/callgate.json', line: 1, column: 1, message: 'there is no such file' }],
    });
  });

  test('several faults in one file, sorted by place', async () => {
    const text = `{
  "listen": {},
  "callgate": {
    "listen": { "port": 70000, "host": "\${NO_SUCH_HOST}" },
    "auth": {
      "issuers": [{ "issuer": "https://a.example/", "algorithms": ["HS256"] }],
      "clockTolerance": 5
    },
    "limits": { "drainMs": "25s" },
    "defaults": { "pin": "warn", "connection": "session" },
    "ledger": { "url": 5 },
    "rules": []
  },
  "mcpServers": { "docs": { "command": "node", "args": "x" } }
}`;
    expect(await findings({ 'callgate.jsonc': text })).toEqual([
      '2:3 "listen" is a key of callgate, but stands outside of "callgate": move it into there',
      '4:25 callgate.listen.port must be a whole number from 0 to 65535, not 70000',
      expect.stringMatching(
        /^4:40 the variable NO_SUCH_HOST is not set: set NO_SUCH_HOST, or let NO_SUCH_HOST_FILE/,
      ),
      expect.stringMatching(/^6:19 callgate.auth.issuers\[0\] lacks "audience": The `aud`/),
      expect.stringMatching(
        /^6:68 callgate.auth.issuers\[0\].algorithms\[0\] must be "RS256" or .*, not "HS256" \(only asymmetric/,
      ),
      '7:7 callgate.auth.clockTolerance is not a key that callgate knows: did you mean "clockToleranceS"?',
      '9:28 callgate.limits.drainMs must be a whole number from 0 to 2147483647, not a text',
      '10:19 callgate.defaults.pin is known to callgate, but this version does not enforce it: take it out',
      '10:48 callgate.defaults.connection must be "shared" or "actor" or "run", not "session"',
      '11:24 callgate.ledger.url must be a text that is not empty, not a number',
      '12:5 callgate.rules is known to callgate, but this version does not enforce it: take it out',
      '14:56 server "docs": mcpServers.docs.args must be a list, not a text',
    ]);
  });

  test.each([
    [
      'callgate.json',
      '{\n  "callgate": {}\n  "mcpServers": {}\n}',
      '3:3 this is not valid JSON: comma expected',
    ],
    [
      'callgate.json',
      '{\n  "mcpServers": {},\n  "mcpServers": {}\n}',
      '3:3 "mcpServers" stands twice in this object: keep one of the two',
    ],
    [
      'callgate.yaml',
      'mcpServers: {}\nmcpServers: {}\n',
      '2:1 "mcpServers" stands twice in this object: keep one of the two',
    ],
    ['callgate.json', '[]', '1:1 the file must hold an object with "mcpServers" and "callgate"'],
    ['callgate.json', '', '1:1 this is not valid JSON: value expected'],
    ['callgate.yaml', '', '1:1 the file must hold an object with "mcpServers" and "callgate"'],
  ])('%s with the text %j', async (name, text, expected) => {
    expect(await findings({ [name]: text })).toEqual([expected]);
  });

  test('broken YAML is told with its place', async () => {
    expect(await findings({ 'callgate.yml': 'callgate:\n  listen: [1\nmcpServers: {}\n' })).toEqual([
      expect.stringMatching(/^\d:\d+ this is not valid YAML/),
    ]);
  });

  test('without an issuer the way out is told, and `callgate dev` needs none', async () => {
    const files = { 'callgate.json': { mcpServers: {}, callgate: {} } };
    expect(await findings(files)).toEqual([expect.stringMatching(/no issuer of tokens .* `callgate dev`/)]);
    const { auth } = await load(files, { dev: true });
    expect(auth).toMatchObject({ issuers: [], globalWildcards: true });
  });

  test('`callgate dev` listens on nothing but loopback', async () => {
    const files = { 'callgate.json': { callgate: { listen: { host: '0.0.0.0', metrics: '0.0.0.0:9464' } } } };
    expect(await findings(files, { dev: true })).toEqual([
      expect.stringContaining('`callgate dev` prints a token'),
      expect.stringContaining('not on 0.0.0.0'),
    ]);
  });

  test('settings of a server that does not exist', async () => {
    expect(await findings(configWith({ tickets: { command: 'node' } }, { servers: { ticket: {} } }))).toEqual(
      [expect.stringContaining('there is no server "ticket": did you mean "tickets"?')],
    );
  });

  test('one alias for two servers', async () => {
    const entry = { command: 'node' };
    const both = {
      mcpServers: { a: entry },
      servers: { a: entry },
      callgate: { auth: { issuers: [someIssuer] } },
    };
    expect(await findings({ 'callgate.json': both })).toEqual([
      expect.stringMatching(/^8:5 the server "a" is configured twice, here and at callgate.json:3:5/),
    ]);
    expect(await findings(configWith({ a: entry, b: entry }, { servers: { b: { alias: 'a' } } }))).toEqual([
      expect.stringContaining('the servers "a" and "b" have the same alias "a"'),
    ]);
  });

  test("other hosts' files that are missing, broken or without servers", async () => {
    const folder = folderWith({ 'empty.json': {}, 'broken.json': '{' });
    const from = ['missing.json', 'empty.json', 'broken.json'].map((name) => join(folder, name));
    expect(await findings(configWith({}, { mcpServersFrom: from, servers: { far: {} } }))).toEqual([
      expect.stringContaining('neither "mcpServers" nor "servers"'),
      expect.stringContaining('not valid JSON: close brace expected'),
      '1:1 there is no such file',
    ]);
  });
});

describe('unsafe settings of authentication are refused (MT-18)', () => {
  const withIssuer = (changes: object, auth: object = {}) =>
    configWith({}, { auth: { issuers: [{ ...someIssuer, ...changes }], ...auth } });

  test.each([
    [{ jwksUri: undefined }, 'an issuer needs "jwksUri"'],
    [{ jwksFile: 'keys.json' }, 'an issuer needs "jwksUri"'],
    [{ jwksUri: undefined, jwksFile: 'keys.json' }, 'there is no file'],
    [{ jwksUri: 'http://idp.example.com/jwks', allowHttp: true }, '"jwksUri" must be https'],
    [{ jwksUri: 'http://localhost:9/jwks' }, 'needs "allowHttp": true'],
    [{ jwksUri: 'https://169.254.169.254/jwks' }, 'link-local or metadata address'],
    [{ jwksUri: 'keys' }, '"jwksUri" is not a URL'],
    [{ jwksUri: 'https://u:p@idp.example.com/jwks' }, 'user part'],
    [{ issuer: 'http://idp.example.com/' }, 'plain http URL can be imitated'],
    [{ audience: '*' }, 'wildcard audience'],
    [{ algorithms: ['none'] }, 'only asymmetric algorithms'],
    [{ algorithms: [] }, 'must be a list that is not empty'],
    [{ lifetimeMaxS: 0 }, 'must be a whole number from 1'],
    [{ clientWhen: {} }, 'this version does not enforce it'],
    [{ grantsMax: ['tools:docs'] }, '"tools:docs" is neither a grant'],
    [{ scopeMap: { x: ['docs:*'] } }, '"docs:*" is neither a grant'],
    [{ scopeMap: { x: ['tools:*:*'] } }, 'means nothing without "globalWildcards": true'],
  ])('%j', async (changes, text) => {
    expect(await findings(withIssuer(changes))).toEqual([expect.stringContaining(text)]);
  });

  test('an issuer on this machine may be reached by plain http where the file says so', async () => {
    const local = { issuer: 'http://localhost:9/', jwksUri: 'http://127.0.0.1:9/jwks', allowHttp: true };
    expect((await load(withIssuer(local))).auth.issuers).toHaveLength(1);
  });

  test('caps and maps of grants are taken, with admin scopes', async () => {
    const rights = {
      grantsMax: ['tools:*:*', 'callgate:operate'],
      scopeMap: { reader: ['tools:docs:*:read'] },
    };
    expect((await load(withIssuer(rights))).auth.issuers[0]).toMatchObject(rights);
  });

  test('a deny list names issuers that are there', async () => {
    const deny = { tokens: [{ issuer: someIssuer.issuer, jti: 'j1' }] };
    expect((await load(withIssuer({}, { deny }))).auth.deny).toEqual({ ...deny, subjects: [], keys: [] });
    const wrong = { keys: [{ issuer: 'https://idp.example.com', kid: 'k' }] };
    expect(await findings(withIssuer({}, { deny: wrong }))).toEqual([
      expect.stringContaining(
        '"https://idp.example.com" is not among callgate.auth.issuers; did you mean "https://idp.example.com/"?',
      ),
    ]);
  });

  test('one issuer twice', async () => {
    expect(await findings(configWith({}, { auth: { issuers: [someIssuer, someIssuer] } }))).toEqual([
      expect.stringContaining('configured twice'),
    ]);
  });

  test('a public URL is a URL, and over plain http it is told', async () => {
    expect(await findings(configWith({}, { publicUrl: 'callgate.example.com' }))).toEqual([
      expect.stringContaining('"publicUrl" is not a URL'),
    ]);
    const { publicUrl, warnings } = await load(configWith({}, { publicUrl: 'http://callgate.internal' }));
    expect(publicUrl).toBe('http://callgate.internal');
    expect(warnings).toEqual([expect.stringContaining('plain http to callgate.internal')]);
  });
});
