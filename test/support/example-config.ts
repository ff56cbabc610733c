import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type ConfigFile, repositoryFolder } from './callgate.ts';

const examples = join(repositoryFolder, 'examples');

/** The configuration that ships as the example, made to work from any folder. */
export function exampleConfig(): ConfigFile {
  const config = JSON.parse(readFileSync(join(examples, 'callgate.json'), 'utf8')) as ConfigFile;
  for (const [alias, server] of Object.entries(config.mcpServers)) {
    config.mcpServers[alias] = { ...(server as object), cwd: examples };
  }
  return { mcpServers: config.mcpServers, callgate: config.callgate ?? {} };
}
