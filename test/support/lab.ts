import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { type ConfigFile, repositoryFolder } from './callgate.ts';

const file = join(repositoryFolder, 'test/support/servers/lab.mjs');

/** The lab server as an entry of `mcpServers`, over stdio. */
export const labServer = (entry: Readonly<Record<string, unknown>> = {}): Record<string, unknown> => ({
  command: process.execPath,
  args: [file],
  ...entry,
  env: { EXECUTIONS_LOG: '$' + '{EXECUTIONS_LOG:-}', ...(entry.env as object | undefined) },
});

/** A configuration with the lab as its only server, and these settings for it. */
export const labConfig = (settings: Readonly<Record<string, unknown>> = {}): ConfigFile => ({
  mcpServers: { lab: labServer() },
  callgate: { servers: { lab: settings } },
});

/** Starts the lab over Streamable HTTP and resolves with its address once it listens. */
export async function startHttpLab(executionsLog: string): Promise<{ url: string; stop(): void }> {
  const child = spawn(process.execPath, [file, '--http'], {
    env: { ...process.env, EXECUTIONS_LOG: executionsLog },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const url = await new Promise<string>((resolve) => {
    child.stdout.once('data', (chunk) => resolve(String(chunk).trim()));
  });
  return {
    url,
    stop: () => {
      child.kill();
    },
  };
}
