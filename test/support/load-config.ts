import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import type { Configuration, Finding } from '../../src/config/configuration.ts';
import { type LoadOptions, loadConfiguration } from '../../src/config/load-configuration.ts';

/** An issuer that makes a configuration complete. */
export const someIssuer = {
  issuer: 'https://idp.example.com/',
  audience: 'https://callgate.example.com',
  jwksUri: 'https://idp.example.com/jwks',
};

/** A folder of its own for the test that runs, with these files in it; what is no text is written as JSON. */
export function folderWith(files: Readonly<Record<string, unknown>>): string {
  const folder = mkdtempSync(join(tmpdir(), 'callgate-config-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  for (const [name, content] of Object.entries(files)) {
    writeFileSync(
      join(folder, name),
      typeof content === 'string' ? content : JSON.stringify(content, null, 2),
    );
  }
  return folder;
}

type Options = Partial<Omit<LoadOptions, 'file'>>;

const testEnv = { PATH: process.env.PATH, HOME: '/home/test' };

/** Loads the first of these files, which has to be accepted. */
export async function load(
  files: Readonly<Record<string, unknown>>,
  options: Options = {},
): Promise<Configuration> {
  const result = await tryLoad(files, options);
  if (result.ok) return result.value;
  throw new Error(`refused: ${result.error.map(({ message }) => message).join('\n')}`);
}

/** Loads the first of these files, which has to be refused; gives `line:column message` of each finding. */
export async function findings(
  files: Readonly<Record<string, unknown>>,
  options: Options = {},
): Promise<string[]> {
  const result = await tryLoad(files, options);
  if (result.ok) throw new Error('accepted');
  return result.error.map(({ line, column, message }: Finding) => `${line}:${column} ${message}`);
}

function tryLoad(files: Readonly<Record<string, unknown>>, { env, dev }: Options) {
  const [name = ''] = Object.keys(files);
  const file = join(folderWith(files), name);
  return loadConfiguration({ file, env: { ...testEnv, ...env }, ...(dev === undefined ? {} : { dev }) });
}

/** A configuration with these servers and settings, otherwise complete. */
export const configWith = (
  mcpServers: Readonly<Record<string, unknown>>,
  callgate: Readonly<Record<string, unknown>> = {},
): Record<string, unknown> => ({
  'callgate.json': { mcpServers, callgate: { auth: { issuers: [someIssuer] }, ...callgate } },
});
