import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { Configuration, Finding } from '../config/configuration.ts';
import { type LoadOptions, loadConfiguration } from '../config/load-configuration.ts';
import { UsageError } from './options.ts';

const ownFiles = ['callgate.json', 'callgate.jsonc', 'callgate.yaml', 'callgate.yml'];
const exampleFile = fileURLToPath(new URL('../../examples/callgate.json', import.meta.url));

/** The configuration that `callgate dev` takes where it is given none. */
export const devFile = (): string => ownFiles.find((name) => existsSync(name)) ?? exampleFile;

/** Loads a file for a command; undefined when it has findings, which are then on standard error. */
export async function loadForCommand(
  file: string,
  options: Omit<LoadOptions, 'file' | 'env'> = {},
): Promise<Configuration | undefined> {
  const loaded = await loadConfiguration({ file, env: process.env, ...options });
  if (loaded.ok) return loaded.value;
  printFindings(loaded.error);
  return undefined;
}

function printFindings(findings: readonly Finding[]): void {
  for (const { file, line, column, message } of findings) {
    process.stderr.write(`${file}:${line}:${column}: ${message}\n`);
  }
  const count = findings.length === 1 ? '1 finding' : `${findings.length} findings`;
  process.stderr.write(`${count}; nothing was started\n`);
}

/** A port number from the command line. */
export function readPort(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const port = Number(text);
  if (!/^\d+$/.test(text) || port > 65_535) throw new UsageError('--port takes a number from 0 to 65535');
  return port;
}
