import { expect, test } from 'vitest';
import { challenge } from '../../../src/auth/challenge.ts';
import { resourceMetadata } from '../../../src/auth/resource-metadata.ts';
import type { IssuerSettings } from '../../../src/auth/settings.ts';

const metadataUrl = 'https://callgate.test/.well-known/oauth-protected-resource';

test('without credentials the challenge carries no error', () => {
  expect(challenge({ metadataUrl })).toBe(`Bearer resource_metadata="${metadataUrl}"`);
});

test('a refused token and a missing scope are named', () => {
  expect(challenge({ metadataUrl, error: 'invalid_token' })).toBe(
    `Bearer error="invalid_token", resource_metadata="${metadataUrl}"`,
  );
  expect(challenge({ metadataUrl, error: 'insufficient_scope', scope: 'callgate:operate' })).toBe(
    `Bearer error="insufficient_scope", scope="callgate:operate", resource_metadata="${metadataUrl}"`,
  );
});

test('without a public URL the challenge is still one', () => {
  expect(challenge({ metadataUrl: undefined })).toBe('Bearer');
  expect(challenge({ metadataUrl: undefined, error: 'invalid_token' })).toBe('Bearer error="invalid_token"');
});

test('quotes cannot end a value early', () => {
  expect(challenge({ metadataUrl: 'x", error="y\\' })).toBe(
    'Bearer resource_metadata="x\\", error=\\"y\\\\"',
  );
});

test('the metadata names the issuers whose tokens are for this resource, and only mapped scopes', () => {
  const issuer = (name: string, audience: string, scopeMap = {}): IssuerSettings => ({
    issuer: name,
    audience,
    keys: { kind: 'inline', keys: [] },
    algorithms: ['ES256'],
    profile: 'rfc9068',
    scopeClaims: ['scope'],
    scopeMap,
    grantsMax: ['tools:secret-server:*'],
    lifetimeMaxS: 60,
  });
  const issuers = [
    issuer('a', 'https://callgate.test', { 'docs:read': ['tools:docs:*:read'] }),
    issuer('b', 'urn:other'),
  ];
  expect(resourceMetadata('https://callgate.test', issuers)).toEqual({
    resource: 'https://callgate.test',
    authorization_servers: ['a'],
    bearer_methods_supported: ['header'],
    scopes_supported: ['docs:read'],
  });
  expect(resourceMetadata('urn:other', issuers)).not.toHaveProperty('scopes_supported');
  expect(resourceMetadata('urn:nobody', issuers)).toBeUndefined();
});
