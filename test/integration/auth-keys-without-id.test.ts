import { afterEach, expect, test } from 'vitest';
import { type Authenticator, createAuthenticator } from '../../src/auth/bearer.ts';
import { createEventRecorder, createFakeTime, verdict } from '../support/auth-fakes.ts';
import { startIssuer, type TestIssuer } from '../support/issuer.ts';

const opened: { close(): void | Promise<void> }[] = [];

afterEach(async () => {
  for (const one of opened.splice(0)) await one.close();
});

async function setUp(): Promise<{ issuer: TestIssuer; authenticator: Authenticator }> {
  const time = createFakeTime();
  const issuer = await startIssuer(time.nowMs);
  const authenticator = createAuthenticator(
    { clockToleranceS: 30, globalWildcards: false, issuers: [issuer.settings()] },
    { log: createEventRecorder(), ...time },
  );
  opened.push(issuer, authenticator);
  return { issuer, authenticator };
}

test('a token without a key id is accepted if exactly one key could be meant (AUTH-10)', async () => {
  const { issuer, authenticator } = await setUp();
  const present = async (signedBy: string): Promise<string> => {
    const token = await issuer.mint({ signedBy, header: { kid: undefined } });
    return verdict(authenticator.authenticate(`Bearer ${token}`));
  };
  await authenticator.reload();
  expect(await present('k1')).toBe('accepted');

  issuer.publish(issuer.makeKey('other', 'RS256'));
  await authenticator.reload();
  expect(await present('k1')).toBe('accepted');
  expect(await present('other')).toBe('accepted');

  issuer.publish(issuer.makeKey('k2'));
  await authenticator.reload();
  expect(await present('k1')).toBe('invalid_token');
  expect(await present('k2')).toBe('invalid_token');
  expect(await present('other')).toBe('accepted');
});

test('keys without an id serve tokens without one, as long as each algorithm has one key (AUTH-10)', async () => {
  const { issuer, authenticator } = await setUp();
  issuer.withdraw('k1');
  const { kid: _one, ...first } = issuer.makeKey('first');
  const { kid: _two, ...second } = issuer.makeKey('second');
  const present = async (): Promise<string> => {
    const token = await issuer.mint({ signedBy: 'first', header: { kid: undefined } });
    return verdict(authenticator.authenticate(`Bearer ${token}`));
  };
  issuer.publish(first);
  await authenticator.reload();
  expect(await present()).toBe('accepted');
  issuer.publish(second);
  await authenticator.reload();
  expect(await present()).toBe('invalid_token');
});
