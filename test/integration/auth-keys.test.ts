import { mkdtemp, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { type Authenticator, createAuthenticator } from '../../src/auth/bearer.ts';
import type { IssuerSettings } from '../../src/auth/settings.ts';
import { createEventRecorder, createFakeTime, verdict } from '../support/auth-fakes.ts';
import { type IssuerBehaviour, startIssuer, type TestIssuer } from '../support/issuer.ts';

let time: ReturnType<typeof createFakeTime>;
let issuer: TestIssuer;
let log: ReturnType<typeof createEventRecorder>;
let authenticator: Authenticator;
const opened: { close(): void | Promise<void> }[] = [];

function open(settings: IssuerSettings): Authenticator {
  const made = createAuthenticator(
    { clockToleranceS: 30, globalWildcards: false, issuers: [settings] },
    { log, ...time },
  );
  opened.push(made);
  return made;
}

const present = async (kid = 'k1', life = 3600): Promise<string> => {
  const nowS = Math.floor(time.nowMs() / 1000);
  const token = await issuer.mint({
    header: { kid },
    claims: { exp: nowS + life },
    signedBy: kid === 'k2' ? 'k2' : 'k1',
  });
  return verdict(authenticator.authenticate(`Bearer ${token}`));
};

/** Waits for the refresh that is under way: a forced one joins it. */
const refreshed = (): Promise<void> => authenticator.reload();

const withTimes = (times: { timeoutMs?: number; staleMaxMs?: number }): IssuerSettings => {
  const settings = issuer.settings();
  if (settings.keys.kind !== 'url') throw new Error('the test issuer publishes at a URL');
  return { ...settings, keys: { ...settings.keys, ...times } };
};

beforeEach(async () => {
  time = createFakeTime();
  log = createEventRecorder();
  issuer = await startIssuer(time.nowMs);
  opened.push(issuer);
});

afterEach(async () => {
  for (const one of opened.splice(0)) await one.close();
});

describe('rotation, floods and outage of a key set (field case O21)', () => {
  test('a) a flood of unknown key ids costs one fetch in each cool-down', async () => {
    authenticator = open(issuer.settings());
    await refreshed();
    expect(issuer.hits()).toBe(1);
    const flood = () => Promise.all(Array.from({ length: 100 }, (_, n) => present(`random-${n}`)));
    expect(new Set(await flood())).toEqual(new Set(['invalid_token']));
    expect(issuer.hits()).toBe(1);
    time.advance(30_000);
    expect(new Set(await flood())).toEqual(new Set(['invalid_token']));
    await flood();
    expect(issuer.hits()).toBe(2);
    time.advance(29_999);
    await flood();
    expect(issuer.hits()).toBe(2);
  });

  test('a) the flood costs no more while the key server is down, and known keys go on', async () => {
    authenticator = open(issuer.settings());
    await refreshed();
    issuer.behaviour = 'failing';
    time.advance(30_000);
    for (let n = 0; n < 50; n += 1) expect(await present(`random-${n}`)).toBe('invalid_token');
    expect(issuer.hits()).toBe(2);
    expect(await present()).toBe('accepted');
  });

  test('b) a new key works without a restart, one cool-down later at most', async () => {
    authenticator = open(issuer.settings());
    await refreshed();
    issuer.publish(issuer.makeKey('k2'));
    expect(await present('k2')).toBe('invalid_token');
    time.advance(30_000);
    expect(await present('k2')).toBe('accepted');
    expect(await present('k1')).toBe('accepted');
  });

  test('b) a withdrawn key is refused one maximum age later, by the refresh in the background', async () => {
    authenticator = open(issuer.settings());
    await refreshed();
    issuer.publish(issuer.makeKey('k2'));
    issuer.withdraw('k1');
    expect(await present('k1')).toBe('accepted');
    const [wait = 0] = time.waits();
    expect(wait).toBeGreaterThanOrEqual(225_000);
    expect(wait).toBeLessThanOrEqual(255_000);
    time.advance(300_000);
    await refreshed();
    expect(issuer.hits()).toBe(2);
    expect(await present('k1')).toBe('invalid_token');
    expect(await present('k2')).toBe('accepted');
  });

  test('c) known keys are good through an outage up to the maximum age, then the answer is 503; tries stay limited', async () => {
    authenticator = open(withTimes({ staleMaxMs: 3_600_000 }));
    await refreshed();
    await issuer.stop();
    time.advance(660_000);
    await refreshed();
    const failuresBefore = log.events.filter(({ event }) => event === 'keys.refresh_failed').length;
    for (let n = 0; n < 20; n += 1) expect(await present()).toBe('accepted');
    const known = `Bearer ${await issuer.mint({ claims: { exp: Math.floor(time.nowMs() / 1000) + 86_400 } })}`;
    expect(await verdict(authenticator.authenticate(known))).toBe('accepted');
    expect(log.events.filter(({ event }) => event === 'keys.refresh_failed')).toHaveLength(failuresBefore);

    time.jump(3_600_000);
    expect(await verdict(authenticator.authenticate(known))).toBe('keys_unavailable');
    for (let n = 0; n < 20; n += 1) expect(await present()).toBe('keys_unavailable');
    expect(log.events.filter(({ event }) => event === 'keys.refresh_failed')).toHaveLength(
      failuresBefore + 1,
    );
    expect(authenticator.isUsable()).toBe(false);

    await issuer.start();
    time.advance(33_000);
    await refreshed();
    expect(await verdict(authenticator.authenticate(known))).toBe('accepted');
    expect(authenticator.isUsable()).toBe(true);
  });

  test('d) with the key server down at the start the answer is 503 with a time to wait, and it heals by itself', async () => {
    await issuer.stop();
    authenticator = open(issuer.settings());
    await refreshed();
    expect(authenticator.isUsable()).toBe(false);
    const token = `Bearer ${await issuer.mint()}`;
    expect(await authenticator.authenticate(token)).toEqual({
      ok: false,
      error: { code: 'keys_unavailable', retryAfterS: 30 },
    });
    time.jump(12_500);
    expect(await authenticator.authenticate(token)).toEqual({
      ok: false,
      error: { code: 'keys_unavailable', retryAfterS: 18 },
    });
    await issuer.start();
    time.advance(20_500);
    await refreshed();
    expect(await verdict(authenticator.authenticate(token))).toBe('accepted');
    expect(issuer.hits()).toBe(1);
  });

  test('d) a request that comes before the first answer waits for it instead of being refused', async () => {
    authenticator = open(issuer.settings());
    expect(await present()).toBe('accepted');
    expect(issuer.hits()).toBe(1);
  });

  test('e) with a key server that never answers all requests share one fetch and its limit', async () => {
    issuer.behaviour = 'hang';
    authenticator = open(withTimes({ timeoutMs: 500 }));
    const answers = await Promise.all(Array.from({ length: 100 }, () => present()));
    expect(new Set(answers)).toEqual(new Set(['keys_unavailable']));
    expect(issuer.hits()).toBe(1);
    expect(log.events.at(-1)).toMatchObject({
      event: 'keys.refresh_failed',
      fields: { reason: 'it did not answer in time' },
    });
  });
});

describe('what a key server may answer (AUTH-11, AUTH-12)', () => {
  test.each<[IssuerBehaviour, RegExp]>([
    ['redirect', /redirects \(HTTP 302\)/],
    ['huge', /larger than 262144 bytes/],
    ['drip', /did not answer in time/],
    ['html', /not JSON/],
    ['empty', /no usable key/],
    ['many', /101 keys/],
    ['failing', /HTTP 500/],
  ])('a set that is %s never replaces a good one', async (behaviour, reason) => {
    authenticator = open(withTimes({ timeoutMs: behaviour === 'drip' ? 100 : 5_000 }));
    await refreshed();
    issuer.behaviour = behaviour;
    await authenticator.reload();
    expect(authenticator.status()).toMatchObject([
      { isUsable: true, keys: 1, lastError: expect.stringMatching(reason) },
    ]);
    expect(await present()).toBe('accepted');
    expect(issuer.strayHits()).toBe(0);
  });

  test('plain http is not fetched off loopback', async () => {
    const settings = withTimes({});
    authenticator = open({
      ...settings,
      keys: { ...settings.keys, jwksUri: 'http://192.0.2.1/jwks' } as IssuerSettings['keys'],
    });
    await refreshed();
    expect(log.events).toMatchObject([
      { event: 'keys.refresh_failed', fields: { reason: 'its URL is not https' } },
    ]);
  });

  test('a closed authenticator fetches nothing more', async () => {
    authenticator = open(issuer.settings());
    await refreshed();
    authenticator.close();
    await authenticator.reload();
    time.advance(86_400_000);
    expect([issuer.hits(), time.waits()]).toEqual([1, []]);
  });
});

describe('a key set in a file', () => {
  let folder: string;
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'callgate-jwks-'));
  });
  afterEach(() => rm(folder, { recursive: true }));

  test('it is read again when a key is missing, and a broken file keeps the good keys', async () => {
    const path = join(folder, 'jwks.json');
    const write = async (text: string) => {
      await writeFile(`${path}.new`, text);
      await rename(`${path}.new`, path);
    };
    const [k1, k2] = [issuer.makeKey('k1'), issuer.makeKey('k2')];
    authenticator = open(issuer.settings({ keys: { kind: 'file', path } }));
    expect(await present()).toBe('keys_unavailable');
    expect(log.events.at(-1)).toMatchObject({ fields: { reason: 'ENOENT' } });

    await write(JSON.stringify({ keys: [k1] }));
    time.advance(5_500);
    await refreshed();
    expect(await present()).toBe('accepted');
    await write('{"keys":');
    await authenticator.reload();
    expect(await present()).toBe('accepted');
    await write(JSON.stringify({ keys: [k1, k2] }));
    time.jump(5_000);
    expect(await present('k2')).toBe('accepted');
    await write(' '.repeat(262_145));
    await authenticator.reload();
    expect(authenticator.status()).toMatchObject([{ lastError: 'it is larger than 262144 bytes', keys: 2 }]);
  });
});
