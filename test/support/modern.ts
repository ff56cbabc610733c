import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { repositoryFolder } from './callgate.ts';

/** The file of the server that speaks protocol 2026-07-28, and nothing earlier unless it is started with `--dual`. */
export const modernFile = join(repositoryFolder, 'test/support/servers/modern.mjs');

/** A server of 2026-07-28 over HTTP, in a process of its own. */
export interface ModernHttpServer {
  readonly url: string;
  readonly port: number;
  /** Ends it at once, as a crash would. */
  kill(): Promise<void>;
}

/** Starts it on a port, any free one unless it is named; resolves once it listens. */
export async function startModernHttp(...args: readonly string[]): Promise<ModernHttpServer> {
  const child = spawn(process.execPath, [modernFile, '--http', ...args], {
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  const exited = once(child, 'exit');
  const [line] = await once(child.stdout, 'data');
  const url = String(line).trim();
  return {
    url,
    port: Number(new URL(url).port),
    async kill() {
      child.kill('SIGKILL');
      await exited;
    },
  };
}
