import { afterAll, expect, test } from 'vitest';
import { createRedactor } from '../../src/core/redact.ts';
import { openLiveRegistry } from '../../src/live-registry.ts';
import { configWith, load } from '../support/load-config.ts';
import { scriptedServer, scriptFolder } from '../support/scripted.ts';

const folder = scriptFolder();
afterAll(() => folder.remove());

test('a server with many patterns counts as listed only when its tools are there (O23)', async () => {
  const tools = Array.from({ length: 60 }, (_, index) => {
    const patterns = Array.from({ length: 16 }, (_, each) => ({ pattern: `^${index}[a-f]{1,60}_${each}$` }));
    return {
      definition: { name: `t${index}`, inputSchema: { type: 'object', properties: { ...patterns } } },
    };
  });
  const entry = scriptedServer(folder.path('tools.json'), tools);
  const quiet = { info: () => {}, warn: () => {}, error: () => {} };
  const { upstreams, current } = openLiveRegistry(await load(configWith({ many: entry })), [], {
    log: quiet,
    redact: createRedactor([]),
    store: undefined,
  });
  void upstreams.start();
  const seen = new Set<string>();
  let isOver = false;
  const look = (): void => {
    seen.add(`${upstreams.hasListed('many')} ${current().bindings.length}`);
    if (!isOver) setImmediate(look);
  };
  look();
  await upstreams.firstListings;
  expect(current().bindings).toHaveLength(60);
  isOver = true;
  await upstreams.stop();
  expect([...seen]).toEqual(['false 0', 'true 60']);
});
