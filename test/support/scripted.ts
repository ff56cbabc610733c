import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { repositoryFolder } from './callgate.ts';

/** A tool of the scripted server; its definition is sent as it is, whatever it is. */
export interface ScriptedTool {
  readonly definition: Readonly<Record<string, unknown>>;
  readonly result?: Readonly<Record<string, unknown>>;
  /** The call is answered once this file is there. */
  readonly waitsFor?: string;
  /** The process ends instead of answering. */
  readonly dies?: boolean;
}

const file = join(repositoryFolder, 'test/support/servers/scripted.mjs');

/** A folder for the files of scripted servers. */
export function scriptFolder(): { readonly path: (name: string) => string; remove(): void } {
  const folder = mkdtempSync(join(tmpdir(), 'callgate-script-'));
  return {
    path: (name) => join(folder, name),
    remove: () => rmSync(folder, { recursive: true, force: true }),
  };
}

/** An entry of `mcpServers` for a server with these tools, which are written to `path`. */
export function scriptedServer(path: string, tools: readonly ScriptedTool[]): Record<string, unknown> {
  writeFileSync(path, JSON.stringify(tools));
  return {
    command: process.execPath,
    args: [file, path],
    env: { EXECUTIONS_LOG: '$' + '{EXECUTIONS_LOG:-}' },
  };
}
