import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';

const here = (path: string): string => fileURLToPath(new URL(path, import.meta.url));

export default defineConfig({
  test: {
    root: here('.'),
    include: ['*.test.ts'],
    globalSetup: ['support/gate.ts'],
    reporters: ['default', here('../support/closing-line.ts')],
    maxWorkers: 2,
    testTimeout: 60_000,
    hookTimeout: 60_000,
  },
});
