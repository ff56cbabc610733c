import { execFileSync } from 'node:child_process';
import { describe } from 'vitest';

/**
 * A `describe` for tests that run a program of the machine. Where it is missing they are reported as skipped, with the
 * reason in their name; in CI the program must be there, and its absence is a failure.
 */
export const describeWithProgram = (program: string, name: string, body: () => void): void => {
  if (isThere(program) || process.env.CI === 'true') describe(name, body);
  else describe.skip(`${name} (skipped: there is no ${program} on the PATH)`, body);
};

function isThere(program: string): boolean {
  try {
    execFileSync(program, ['--version'], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
}
