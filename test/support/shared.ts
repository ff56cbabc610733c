import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe } from 'vitest';

const folder = fileURLToPath(new URL('../../../shared/', import.meta.url));

/** A path inside the folder of test data that lies beside the checkout. */
export const sharedPath = (path: string): string => `${folder}${path}`;

/**
 * A `describe` for tests that read the data beside the checkout. Without the data they are reported as skipped,
 * with the reason in their name; in CI the data must be there, and its absence is a failure.
 */
export const describeWithShared = (path: string, name: string, body: () => void): void => {
  if (existsSync(sharedPath(path)) || process.env.CI === 'true') describe(name, body);
  else
    describe.skip(`${name} (skipped: there is no test data at ../shared/${path} beside this checkout)`, body);
};
