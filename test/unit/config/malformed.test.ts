import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { loadConfiguration } from '../../../src/config/load-configuration.ts';
import { folderWith, someIssuer } from '../../support/load-config.ts';

const whole = {
  mcpServers: {
    docs: { command: 'node', args: ['a'], env: { A: 'b' } },
    web: { url: 'https://w.example/', headers: { A: 'b' } },
  },
  servers: { more: { type: 'stdio', command: 'node' } },
  callgate: {
    listen: { host: '127.0.0.1', port: 1, metrics: false },
    publicUrl: 'https://callgate.example.com',
    auth: {
      issuers: [
        {
          ...someIssuer,
          scopeMap: { a: ['tools:docs:*'] },
          grantsMax: ['tools:docs:*'],
          algorithms: ['ES256'],
        },
      ],
      deny: { tokens: [{ issuer: someIssuer.issuer, jti: 'x' }] },
    },
    ledger: { url: 'sqlite:x.db', outputRetentionHours: 1, tombstoneRetentionDays: 1, actorBytesMax: 65_536 },
    limits: { drainMs: 1 },
    defaults: {
      queueMax: 1,
      timeoutTotalMs: 70_000,
      tools: { a: { class: 'read', timeoutTotalMs: 80_000 } },
      exclude: ['x'],
    },
    servers: { docs: { alias: 'd', include: ['a*'], tools: { 'a*': { timeoutMs: 5 } } } },
    mcpServersFrom: ['other.json'],
  },
};

type Container = Record<string, unknown>;

/** Every place of a value, as the containers and keys that lead to it. */
const placesOf = (value: unknown, path: string[] = []): string[][] =>
  typeof value === 'object' && value !== null
    ? [
        ...(path.length > 0 ? [path] : []),
        ...Object.entries(value).flatMap(([key, child]) => placesOf(child, [...path, key])),
      ]
    : [path];

test('a value that is wrong in any way, anywhere, is answered and never throws', async () => {
  const folder = folderWith({ 'other.json': { mcpServers: {} } });
  const file = join(folder, 'callgate.json');
  const wrong = fc.oneof(
    fc.constantFrom<unknown>(null, '', 'x', 0, -1, 1.5, true, [], {}, [null], { '': null }, '__proto__', [
      'constructor',
    ]),
    fc.jsonValue({ maxDepth: 2 }),
  );
  await fc.assert(
    fc.asyncProperty(fc.constantFrom(...placesOf(whole)), wrong, async (path, value) => {
      const changed = structuredClone(whole) as Container;
      let at = changed;
      for (const key of path.slice(0, -1)) at = at[key] as Container;
      at[path.at(-1) ?? ''] = value;
      writeFileSync(file, JSON.stringify(changed));
      const result = await loadConfiguration({ file, env: { PATH: process.env.PATH } });
      if (result.ok) expect(result.value.servers).toHaveLength(result.value.policies.length);
      else expect(result.error.length).toBeGreaterThan(0);
    }),
    { numRuns: 400 },
  );
});
