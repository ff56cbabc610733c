// biome-ignore-all lint/suspicious/noTemplateCurlyInString: the references of configuration files look like templates
import { generateKeyPairSync, type KeyObject } from 'node:crypto';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { describe, expect, test } from 'vitest';
import type { Configuration } from '../../../src/config/configuration.ts';
import { defaults } from '../../../src/config/defaults.ts';
import { loadConfiguration } from '../../../src/config/load-configuration.ts';
import { folderWith, load, someIssuer } from '../../support/load-config.ts';

const read = (path: string): string => readFileSync(new URL(`../../../${path}`, import.meta.url), 'utf8');

interface Node {
  readonly $ref?: string;
  readonly default?: unknown;
  readonly properties?: Readonly<Record<string, Node>>;
  readonly additionalProperties?: Node | boolean;
  readonly items?: Node;
}

interface Key {
  readonly path: string;
  readonly default: unknown;
}

const schema = JSON.parse(read('config.schema.json')) as Node & {
  readonly definitions: Readonly<Record<string, Node>>;
};
const docs = read('docs/configuration.md');

/** Every key that the schema knows, `*` for a name of the operator's and `[]` for a place in a list. */
function keysOf(node: Node, path: string): Key[] {
  const target =
    node.$ref === undefined ? node : (schema.definitions[node.$ref.replace('#/definitions/', '')] ?? {});
  const below = Object.entries(target.properties ?? {}).flatMap(([key, child]) =>
    keysOf(child, path === '' ? key : `${path}.${key}`),
  );
  const named =
    typeof target.additionalProperties === 'object' ? keysOf(target.additionalProperties, `${path}.*`) : [];
  const listed = target.items === undefined ? [] : keysOf(target.items, `${path}[]`);
  return [{ path, default: target.default }, ...below, ...named, ...listed];
}

const isKey = ({ path }: Key): boolean => /[A-Za-z]$/.test(path) && path !== '$schema';
const schemaKeys = keysOf(schema, '').filter(isKey);

/** The keys that have a row of their own in the docs: those of a server are told once. */
const toldKeys = schemaKeys.filter(
  ({ path }) =>
    /^(callgate|mcpServers\.)/.test(path) && path !== 'callgate' && !path.startsWith('callgate.defaults.'),
);

function keysOfDocs(): Map<string, string> {
  const keys = new Map<string, string>();
  for (const section of docs.split(/^### /m).slice(1)) {
    const [, title] = /^`(.+?)`/.exec(section) ?? [];
    for (const [, key, fallback] of section.matchAll(/^\| `(\w+)` \| .*? \| (.*?) ?\| .*\|$/gm)) {
      keys.set(`${title}.${key}`, fallback ?? '');
    }
  }
  return keys;
}

describe('schema, docs and code know the same keys and the same defaults', () => {
  test('every key of the schema is in the docs, and no other', () => {
    expect([...keysOfDocs().keys()].sort()).toEqual(toldKeys.map(({ path }) => path).sort());
  });

  test('the docs tell the defaults of the schema', () => {
    const told = keysOfDocs();
    const differing = toldKeys.filter(({ path, default: value }) => {
      const expected =
        value === undefined
          ? ''
          : path.includes('.tools.*.')
            ? "the server's"
            : `\`${JSON.stringify(value)}\``;
      return told.get(path) !== expected;
    });
    expect(differing).toEqual([]);
  });

  test('the schema tells the defaults of the code', () => {
    const ofCode = Object.entries({
      'callgate.listen': defaults.listen,
      'callgate.auth': defaults.auth,
      'callgate.auth.issuers[]': defaults.issuer,
      'callgate.ledger': defaults.ledger,
      'callgate.limits': defaults.limits,
      'callgate.servers.*': defaults.server,
    }).flatMap(([group, values]) =>
      Object.entries(values).map(([key, value]) => [`${group}.${key}`, value] as const),
    );
    const ofSchema = schemaKeys
      .filter(({ path, default: value }) => value !== undefined && !/\.defaults\.|\.tools\.\*/.test(path))
      .map(({ path, default: value }) => [path, value] as const);
    const sorted = (entries: readonly (readonly [string, unknown])[]) =>
      Object.fromEntries([...entries].sort());
    expect(sorted(ofSchema)).toEqual(sorted(ofCode));
  });

  test('every key that the docs call unsupported is refused by name', () => {
    const [, names = ''] = /^These keys .*?: (.*) of a whole server/m.exec(docs) ?? [];
    const refused = new Set(
      JSON.stringify(schema)
        .match(/"x-not-enforced":\[.*?\]/g)
        ?.flatMap((list) => JSON.parse(`{${list}}`)['x-not-enforced']),
    );
    const named = [...names.matchAll(/`(\w+)`/g)].map(([, name]) => name);
    expect(named.length).toBeGreaterThan(7);
    expect(named.filter((name) => !refused.has(name))).toEqual([]);
  });
});

const pemOf = ({ privateKey }: { readonly privateKey: KeyObject }): string =>
  String(privateKey.export({ type: 'pkcs8', format: 'pem' }));
const somePrivateKey = (): string => pemOf(generateKeyPairSync('ec', { namedCurve: 'P-256' }));

/** Credentials of a server, with a private key where that is to be changed. */
const someCredentials = (path: string): Json => ({
  type: 'client_credentials',
  tokenUrl: 'https://idp.example.com/token',
  clientId: 'callgate',
  ...(/algorithm/.test(path) && { privateKey: pemOf(generateKeyPairSync('rsa', { modulusLength: 2048 })) }),
  ...(/privateKey|keyId/.test(path) && { privateKey: somePrivateKey() }),
  ...(!/privateKey|keyId|algorithm/.test(path) && { clientSecret: 'a secret' }),
});

/** Another value for each key, in a file where it has to make a difference. */
const samples: Readonly<Record<string, unknown>> = {
  'mcpServers.*.type': 'http',
  'mcpServers.*.command': 'sh',
  'mcpServers.*.args': ['x'],
  'mcpServers.*.env': { A: 'b' },
  'mcpServers.*.cwd': 'folder',
  'mcpServers.*.url': 'https://other.example/',
  'mcpServers.*.headers': { A: 'b' },
  'mcpServers.*.disabled': true,
  'callgate.listen.host': '::1',
  'callgate.listen.port': 1,
  'callgate.listen.metrics': false,
  'callgate.publicUrl': 'https://callgate.example.com',
  'callgate.auth.clockToleranceS': 1,
  'callgate.auth.hideForbidden': true,
  'callgate.auth.globalWildcards': true,
  'callgate.auth.issuers[].issuer': 'https://other.example/',
  'callgate.auth.issuers[].audience': 'other',
  'callgate.auth.issuers[].jwksUri': 'https://other.example/jwks',
  'callgate.auth.issuers[].jwksFile': 'keys.json',
  'callgate.auth.issuers[].algorithms': ['ES384'],
  'callgate.auth.issuers[].profile': 'legacy',
  'callgate.auth.issuers[].scopeClaim': ['scp', 'roles'],
  'callgate.auth.issuers[].scopeMap': { a: ['tools:docs:*'] },
  'callgate.auth.issuers[].grantsMax': ['tools:docs:*'],
  'callgate.auth.issuers[].jwksMaxAgeMs': 1,
  'callgate.auth.issuers[].jwksCooldownMs': 1,
  'callgate.auth.issuers[].jwksTimeoutMs': 1,
  'callgate.auth.issuers[].jwksStaleMaxMs': 1,
  'callgate.auth.issuers[].allowHttp': true,
  'callgate.auth.issuers[].lifetimeMaxS': 1,
  'callgate.auth.deny.tokens': [{ issuer: someIssuer.issuer, jti: 'x' }],
  'callgate.auth.deny.subjects': [{ issuer: someIssuer.issuer, subject: 'x', issuedBeforeS: 1 }],
  'callgate.auth.deny.keys': [{ issuer: someIssuer.issuer, kid: 'x' }],
  'callgate.ledger.url': 'postgres://u:p@db.example/callgate',
  'callgate.ledger.outputRetentionHours': 1,
  'callgate.ledger.readOutputRetentionMinutes': 1,
  'callgate.ledger.tombstoneRetentionDays': 1,
  'callgate.ledger.bytesMax': 65_536,
  'callgate.ledger.actorBytesMax': 65_536,
  'callgate.ledger.actorRecordsMax': 1,
  'callgate.limits.waitMaxMs': 1,
  'callgate.limits.drainMs': 1,
  'callgate.limits.bodyTimeoutMs': 1,
  'callgate.limits.bodyBytesMax': 1024,
  'callgate.limits.turnBytesMax': 1024,
  'callgate.limits.intentsMax': 1,
  'callgate.limits.readyAfterMs': 1,
  'callgate.mcpServersFrom': ['other.json'],
  'callgate.servers.*.alias': 'renamed',
  'callgate.servers.*.allowHttp': true,
  'callgate.servers.*.auth.type': 'token_exchange',
  'callgate.servers.*.auth.issuer': 'https://idp.example.com/',
  'callgate.servers.*.auth.tokenUrl': 'https://idp.example.com/other',
  'callgate.servers.*.auth.clientId': 'other',
  'callgate.servers.*.auth.clientAuthentication': 'client_secret_post',
  'callgate.servers.*.auth.clientSecret': 'another secret',
  'callgate.servers.*.auth.privateKey': somePrivateKey(),
  'callgate.servers.*.auth.privateKeyFile': 'key.pem',
  'callgate.servers.*.auth.algorithm': 'PS256',
  'callgate.servers.*.auth.keyId': 'k2',
  'callgate.servers.*.auth.scope': 'read write',
  'callgate.servers.*.auth.audience': 'x',
  'callgate.servers.*.auth.resource': 'https://web.example/other',
  'callgate.servers.*.connection': 'actor',
  'callgate.servers.*.connectionsMax': 1,
  'callgate.servers.*.connectionIdleMs': 1,
  'callgate.servers.*.keepConnected': false,
  'callgate.servers.*.retry': 'never',
  'callgate.servers.*.trustAnnotations': true,
  'callgate.servers.*.concurrencyMax': 1,
  'callgate.servers.*.queueMax': 1,
  'callgate.servers.*.connectTimeoutMs': 1,
  'callgate.servers.*.listTimeoutMs': 1,
  'callgate.servers.*.timeoutMs': 1,
  'callgate.servers.*.timeoutTotalMs': 60_000,
  'callgate.servers.*.outputCharsMax': 100,
  'callgate.servers.*.render': 'text',
  'callgate.servers.*.backoffMinMs': 1,
  'callgate.servers.*.backoffMaxMs': 600,
  'callgate.servers.*.stopGraceMs': 1,
  'callgate.servers.*.resultBytesMax': 1024,
  'callgate.servers.*.descriptionPrefix': 'x',
  'callgate.servers.*.include': ['x'],
  'callgate.servers.*.exclude': ['search'],
  'callgate.servers.*.tools.*.class': 'read',
  'callgate.servers.*.tools.*.idempotent': true,
  'callgate.servers.*.tools.*.retry': 'never',
  'callgate.servers.*.tools.*.timeoutMs': 1,
  'callgate.servers.*.tools.*.timeoutTotalMs': 60_000,
  'callgate.servers.*.tools.*.outputCharsMax': 100,
  'callgate.servers.*.tools.*.render': 'text',
  'callgate.servers.*.tools.*.description': 'x',
};

/** Those that hold other keys, which are tried themselves. */
const isTriedElsewhere = (path: string, all: readonly string[]): boolean =>
  all.some((other) => other.startsWith(`${path}.`) || other.startsWith(`${path}[]`));

type Json = Record<string, unknown>;

/** Sets the value at `path`, with `*` as `name`, `search` under tools, and `[]` as the first place. */
function withValue(file: Json, path: string, value: unknown, name: string): Json {
  const steps = path
    .replaceAll('[]', '.0')
    .replace('.tools.*', '.tools.search')
    .replace('*', name)
    .split('.');
  const copy = structuredClone(file);
  let at = copy;
  for (const step of steps.slice(0, -1)) {
    at[step] ??= {};
    at = at[step] as Json;
  }
  at[steps.at(-1) ?? ''] = value;
  return copy;
}

const nameOf = (store: Configuration['ledger']['store']): string =>
  store.kind === 'sqlite' ? basename(store.file) : store.url;

/** All that a configuration says, as data. */
const dataOf = (configuration: Configuration): unknown => ({
  ...configuration,
  file: '',
  ledger: { ...configuration.ledger, store: nameOf(configuration.ledger.store) },
  policies: configuration.policies.map(
    ({ alias, descriptionPrefix, trustAnnotations, needsRun, offers, toolPolicy }) => ({
      alias,
      descriptionPrefix,
      trustAnnotations,
      needsRun,
      offersSearch: offers('search'),
      search: toolPolicy('search'),
    }),
  ),
});

describe('every key has an effect: none is read and then forgotten', () => {
  const paths = schemaKeys.map(({ path }) => path).filter((path) => !path.startsWith('servers'));
  const tried = paths.filter((path) => !isTriedElsewhere(path, paths) && !/deny\.\w+\[\]/.test(path));

  test.each(tried)('%s', async (path) => {
    const file: Json = {
      mcpServers: {
        docs: { command: 'node' },
        web: { url: 'https://web.example/' },
        far: { url: 'http://far.example/' },
      },
      callgate: {
        auth: {
          issuers: [
            { ...someIssuer, ...(path.endsWith('[].allowHttp') && { issuer: 'http://idp.example.com/' }) },
          ],
        },
        ...(path.includes('.auth.') &&
          path.startsWith('callgate.servers') && {
            servers: {
              web: {
                connection: 'actor',
                auth: someCredentials(path),
              },
            },
          }),
      },
    };
    const name = path.endsWith('allowHttp')
      ? 'far'
      : /url|headers|servers\.\*\.auth/.test(path)
        ? 'web'
        : 'docs';
    const sample = samples[path] ?? samples[path.replace('.defaults.', '.servers.*.')];
    expect(sample, 'no sample for this key').toBeDefined();
    const variant = withValue(file, path, sample, name);
    const folder = folderWith({
      'a.json': file,
      'b.json': variant,
      'keys.json': {},
      'key.pem': path.endsWith('privateKeyFile') ? somePrivateKey() : '',
      'other.json': { servers: { other: { command: 'node' } } },
    });
    mkdirSync(join(folder, 'folder'));
    if (path.endsWith('jwksFile'))
      writeFileSync(join(folder, 'b.json'), JSON.stringify(variant).replace(/"jwksUri":".*?",/, ''));
    if (path.endsWith('privateKeyFile'))
      writeFileSync(join(folder, 'b.json'), JSON.stringify(variant).replace(/"privateKey":".*?",/, ''));
    const env = { PATH: process.env.PATH };
    const before = await loadConfiguration({ file: join(folder, 'a.json'), env });
    const after = await loadConfiguration({ file: join(folder, 'b.json'), env });
    expect(after.ok || after.error).toBe(true);
    expect(after.ok && dataOf(after.value)).not.toEqual(before.ok && dataOf(before.value));
  });
});

describe('what the docs show can be used', () => {
  const blocks = [...docs.matchAll(/^```(jsonc?|yaml)\n(.*?)^```/gms)].map(
    ([, kind = '', text = '']) => [kind, text] as const,
  );

  test('there are samples in all three syntaxes', () => {
    expect(new Set(blocks.map(([kind]) => kind))).toEqual(new Set(['json', 'jsonc', 'yaml']));
  });

  test.each(blocks)('a sample in %s: %#', async (kind, text) => {
    const file = `callgate.${kind}`;
    const folder = folderWith({ [file]: text, 'mcp.json': { servers: { editor: { command: 'node' } } } });
    mkdirSync(join(folder, 'keys'));
    writeFileSync(join(folder, 'keys/jwks.json'), '{"keys":[]}');
    const env = {
      PATH: process.env.PATH,
      TICKETS_TOKEN: 'a-token-of-tickets',
      TICKETS_CLIENT_SECRET: 'a-client-secret',
      EDITOR_FOLDER: folder,
      LEDGER_PASSWORD: 'a-password',
    };
    const result = await loadConfiguration({ file: join(folder, file), env });
    expect(result).toMatchObject({ ok: true, value: { faultyServers: [], warnings: [] } });
  });

  test('one configuration means the same in all three syntaxes', async () => {
    const json = {
      mcpServers: { docs: { command: 'node', args: ['a'] } },
      callgate: { auth: { issuers: [someIssuer] } },
    };
    const yaml = `mcpServers: { docs: { command: node, args: [a] } }\ncallgate: { auth: { issuers: [${JSON.stringify(someIssuer)}] } }\n`;
    const texts = {
      'c.json': json,
      'c.jsonc': `// ours\n${JSON.stringify(json).replace('}}', ',}}')}`,
      'c.yaml': yaml,
    };
    const loaded: unknown[] = [];
    for (const [name, text] of Object.entries(texts)) {
      const { servers, ...rest } = await load({ [name]: text });
      loaded.push({
        ...(dataOf({ servers: [], ...rest }) as object),
        servers: servers.map(({ transport, ...server }) => ({
          ...server,
          transport: { ...transport, cwd: '' },
        })),
      });
    }
    expect(loaded[1]).toEqual(loaded[0]);
    expect(loaded[2]).toEqual(loaded[0]);
  });
});

test('the example that ships loads, and `callgate dev` needs nothing more', async () => {
  const file = new URL('../../../examples/callgate.json', import.meta.url).pathname;
  const result = await loadConfiguration({ file, env: { PATH: process.env.PATH }, dev: true });
  expect(result).toMatchObject({ ok: true, value: { faultyServers: [], warnings: [] } });
});

test('.env.example names the variables of the samples and of the example', () => {
  const used = `${docs}${read('examples/callgate.json')}`.matchAll(/\$\{((?!NAME|EDITOR)[A-Z_]+)/g);
  const named = read('.env.example');
  expect([...used].map(([, name = '']) => name).filter((name) => !named.includes(`${name}=`))).toEqual([]);
});
