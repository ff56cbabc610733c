import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';

const require = createRequire(import.meta.url);

/** The program of a reference server, started directly so that no package runner stands between. */
export const referenceServer = (name: 'everything' | 'filesystem' | 'memory'): string =>
  join(dirname(require.resolve(`@modelcontextprotocol/server-${name}/package.json`)), 'dist/index.js');

/** `server-everything` as an entry of `mcpServers`. */
export const everythingServer = { command: process.execPath, args: [referenceServer('everything')] };
