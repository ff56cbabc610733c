// biome-ignore-all lint/suspicious/noTemplateCurlyInString: the references of configuration files look like templates
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { loadConfiguration } from '../../../src/config/load-configuration.ts';
import { configWith, findings, folderWith, load } from '../../support/load-config.ts';

const withLedger = (ledger: object) => configWith({}, { ledger });
const database = 'postgres://callgate:hunter22@db.example/callgate?sslmode=verify-full';

describe('where the ledger is', () => {
  test.each([
    ['sqlite:data/ledger.db', 'data/ledger.db'],
    ['sqlite:./a b.db', 'a b.db'],
  ])('%s starts at the folder of the file', async (url, path) => {
    const { file, ledger } = await load(withLedger({ url }));
    expect(ledger.store).toEqual({ kind: 'sqlite', file: join(file, '..', path) });
  });

  test('an absolute path is taken as it is', async () => {
    const { ledger } = await load(withLedger({ url: 'sqlite:/var/lib/callgate/ledger.db' }));
    expect(ledger.store).toEqual({ kind: 'sqlite', file: '/var/lib/callgate/ledger.db' });
  });

  test('a file that says nothing of it may get another folder, and one that does keeps its own', async () => {
    const folder = folderWith({ 'a.json': {}, 'b.json': { callgate: { ledger: { url: 'sqlite:x.db' } } } });
    const options = { env: {}, dev: true, ledgerFolder: '/elsewhere' };
    const [silent, said] = await Promise.all(
      ['a.json', 'b.json'].map((name) => loadConfiguration({ file: join(folder, name), ...options })),
    );
    expect(silent).toMatchObject({
      value: { ledger: { store: { file: '/elsewhere/.callgate/ledger.db' } } },
    });
    expect(said).toMatchObject({ value: { ledger: { store: { file: join(folder, 'x.db') } } } });
  });

  test.each([database, database.replace('postgres:', 'postgresql:'), 'postgres:///x?host=/run/pg'])(
    '%s is a database',
    async (url) => {
      const { ledger, warnings } = await load(withLedger({ url }));
      expect(ledger.store).toEqual({ kind: 'postgres', url });
      expect(warnings).toEqual([]);
    },
  );

  test.each([
    ['mysql://db.example/x', 'neither "sqlite:" with the path of a file nor a "postgres://" URL'],
    ['ledger.db', 'neither "sqlite:"'],
    ['sqlite:', 'names no file'],
    ['sqlite:data/', 'names no file'],
    ['sqlite:a.db?mode=ro', 'names no file'],
    ['sqlite://data/ledger.db', 'has no slashes of a URL'],
    ['sqlite::memory:', 'would not know a call again after a restart'],
    ['postgres://', 'names no host'],
    ['postgres://u:p4ss#word@db.example/x', 'percent-encoded'],
    ['postgres://u:1#23@db.example/x', 'percent-encoded'],
    ['postgres://u:1/p4ss@db.example/x', 'percent-encoded'],
    ['postgres://u:p4ssword@169.254.169.254/x', 'link-local or metadata address'],
    ['postgres://u:p4ssword@2852039166/x', 'link-local or metadata address'],
    ['postgres:///x?host=169.254.169.254', 'link-local or metadata address'],
  ])('%s is refused, and not shown', async (url, text) => {
    const told = await findings(withLedger({ url }));
    expect(told).toEqual([expect.stringMatching(/^\d+:14 "url" of the ledger /)]);
    expect(told[0]).toContain(text);
    expect(told[0]).not.toMatch(/p4ss/);
  });

  test('a database over a network without a word of encryption works, and is told', async () => {
    const plain = 'postgres://u:hunter22@db.example/x';
    const { warnings } = await load(withLedger({ url: plain }));
    expect(warnings).toEqual([expect.stringContaining('is not encrypted: add "?sslmode=verify-full"')]);
    for (const url of [`${plain}?sslmode=disable`, plain.replace('db.example', 'localhost')])
      expect((await load(withLedger({ url }))).warnings).toEqual([]);
  });
});

describe('the password of the database', () => {
  test('is a secret, as written and decoded; the names around it are not', async () => {
    const url = 'postgres://callgate:${PASSWORD}@${HOST}/x?sslmode=disable&sslpassword=of-the-key';
    const { secrets, ledger } = await load(withLedger({ url }), {
      env: { PASSWORD: 'p%40ss%2Fword', HOST: 'db.example' },
    });
    expect(ledger.store).toMatchObject({ url: expect.stringContaining('p%40ss%2Fword@db.example') });
    expect([...secrets].sort()).toEqual(['of-the-key', 'p%40ss%2Fword', 'p@ss/word']);
  });

  test('is a secret where the whole URL comes from outside', async () => {
    const { secrets } = await load(withLedger({ url: '${DATABASE_URL}' }), {
      env: { DATABASE_URL: database },
    });
    expect(secrets).toEqual(['hunter22']);
  });
});

describe('how long and how much is kept', () => {
  test('in the units of the settings', async () => {
    const { ledger } = await load(
      withLedger({
        outputRetentionHours: 2,
        readOutputRetentionMinutes: 3,
        tombstoneRetentionDays: 4,
        bytesMax: 100_000,
        actorRecordsMax: 5,
      }),
    );
    expect(ledger).toMatchObject({
      outputRetentionMs: 7_200_000,
      readOutputRetentionMs: 180_000,
      tombstoneRetentionMs: 345_600_000,
      bytesMax: 100_000,
      actorBytesMax: 100_000,
      actorRecordsMax: 5,
    });
  });

  test.each([
    [{ outputRetentionHours: 169 }, /^\d+:31 .*with this outputRetentionHours, .* is at least 8$/],
    [
      { outputRetentionHours: 25, tombstoneRetentionDays: 1 },
      /^\d+:33 .*with this outputRetentionHours, .* is at least 2$/,
    ],
    [{ readOutputRetentionMinutes: 20_000 }, /with this readOutputRetentionMinutes, .* is at least 14$/],
    [
      { bytesMax: 70_000, actorBytesMax: 70_001 },
      /^\d+:24 actorBytesMax \(70001\) is larger than bytesMax \(70000\)/,
    ],
    [{ bytesMax: 1 }, /callgate.ledger.bytesMax must be a whole number from 65536/],
    [{ retention: 1 }, /callgate.ledger.retention is not a key that callgate knows/],
  ])('%j does not fit together', async (ledger, text) => {
    expect(await findings(withLedger(ledger))).toEqual([expect.stringMatching(text)]);
  });
});

test('a command that lets nobody in needs no issuer, and keeps every other rule', async () => {
  const folder = folderWith({ 'a.json': { callgate: { listen: { host: '0.0.0.0' } } } });
  const result = await loadConfiguration({ file: join(folder, 'a.json'), env: {}, needsIssuer: false });
  expect(result).toMatchObject({ ok: true, value: { auth: { issuers: [], globalWildcards: false } } });
});
