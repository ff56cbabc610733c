import type { TestProject } from 'vitest/node';
import { startCallgate } from '../../support/callgate.ts';
import { labServer } from '../../support/lab.ts';
import { everythingServer } from '../../support/reference-servers.ts';

declare module 'vitest' {
  interface ProvidedContext {
    /** The callgate that all tests share, and a token for its tools. */
    readonly callgate: { readonly url: string; readonly token: string };
  }
}

/** Starts the one callgate of the tests, and ends it after the last of them. */
export async function setup({ provide }: TestProject): Promise<() => Promise<void>> {
  // Asked here, since otherwise each test would fail with another error of Node.js.
  if (!('typescript' in process.features && process.features.typescript))
    throw new Error(`these tests run TypeScript with Node.js 22.18 or later, and this is ${process.version}`);
  const gate = await startCallgate({
    mcpServers: { everything: everythingServer, lab: labServer() },
  });
  provide('callgate', { url: gate.url, token: await gate.token(['tools:everything:*', 'tools:lab:*']) });
  return async () => {
    await gate.stop();
  };
}
