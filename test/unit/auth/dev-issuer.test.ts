import { mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { createAuthenticator } from '../../../src/auth/bearer.ts';
import { type DevIssuer, openDevIssuer } from '../../../src/auth/dev-issuer.ts';
import { createEventRecorder } from '../../support/auth-fakes.ts';

let parent: string;
let folder: string;
beforeEach(async () => {
  parent = await mkdtemp(join(tmpdir(), 'callgate-dev-'));
  folder = join(parent, '.callgate');
});
afterEach(() => rm(parent, { recursive: true }));

const token = { subject: 'dev', client: 'dev', scopes: ['tools:*:*', 'callgate:operate'], ttlS: 3600 };

function accept(issuer: DevIssuer, text: string) {
  const settings = { clockToleranceS: 30, globalWildcards: true, issuers: [issuer.settings] };
  const authenticator = createAuthenticator(settings, { log: createEventRecorder(), nowMs: Date.now });
  return authenticator.authenticate(`Bearer ${text}`);
}

test('a token of the dev issuer is accepted with its grants and admin scopes', async () => {
  const issuer = await openDevIssuer({ folder });
  expect(await accept(issuer, await issuer.mint(token))).toMatchObject({
    ok: true,
    value: {
      issuer: 'urn:callgate:dev',
      kind: 'client',
      grantsKey: 'tools:*:*',
      adminScopes: new Set(['callgate:operate']),
    },
  });
});

test('the key outlives the process, so its tokens do too', async () => {
  const first = await openDevIssuer({ folder });
  const second = await openDevIssuer({ folder });
  expect(await accept(second, await first.mint(token))).toMatchObject({ ok: true });
});

test('processes that start together share one key', async () => {
  const issuers = await Promise.all(Array.from({ length: 8 }, () => openDevIssuer({ folder })));
  expect(new Set(issuers.map(({ settings }) => JSON.stringify(settings.keys))).size).toBe(1);
  expect(await readdir(folder)).toEqual(['dev-key.json']);
});

test('only the owner can read the key, and no private member is published', async () => {
  const { settings } = await openDevIssuer({ folder });
  expect((await stat(folder)).mode & 0o777).toBe(0o700);
  expect((await stat(join(folder, 'dev-key.json'))).mode & 0o777).toBe(0o600);
  const { d } = JSON.parse(await readFile(join(folder, 'dev-key.json'), 'utf8')) as { d: string };
  expect(JSON.stringify(settings)).not.toContain(d);
});

test('a broken key file is named, with what to do, and its content is not repeated', async () => {
  await openDevIssuer({ folder });
  const path = join(folder, 'dev-key.json');
  for (const text of ['', '{"d":"canary', '{"kty":"EC","d":"canary"}', '[]', 'null']) {
    await writeFile(path, text);
    await expect(openDevIssuer({ folder })).rejects.toThrow(
      `${path} does not hold a private P-256 key. Delete it`,
    );
    await expect(openDevIssuer({ folder })).rejects.not.toThrow(/canary/);
  }
});

test('a token that would live too long is not made', async () => {
  const issuer = await openDevIssuer({ folder });
  await expect(issuer.mint({ ...token, ttlS: 86_401 })).rejects.toThrow(/86400 seconds/);
});
