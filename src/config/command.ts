import { constants } from 'node:fs';
import { access, stat } from 'node:fs/promises';
import { delimiter, isAbsolute, join, resolve } from 'node:path';
import { fail, ok, type Result } from '../core/result.ts';

/**
 * Finds the program that a command names, as an absolute path (MT-2): a path with a slash starts at `folder`,
 * a bare name is looked up on PATH, of which only absolute folders count.
 */
export async function resolveCommand(
  command: string,
  folder: string,
  path: string | undefined,
): Promise<Result<string, string>> {
  if (command.includes('/')) {
    const program = resolve(folder, command);
    if (await isProgram(program)) return ok(program);
    return fail(`there is no program at ${program}, or it may not be executed: correct "command"`);
  }
  for (const place of (path ?? '').split(delimiter)) {
    const program = join(place, command);
    if (isAbsolute(place) && (await isProgram(program))) return ok(program);
  }
  const spaced = /\s/.test(command) ? ' (arguments belong into "args")' : '';
  return fail(
    `the command ${JSON.stringify(command.slice(0, 80))} is not on the PATH of callgate${spaced}: install it, or give its absolute path`,
  );
}

async function isProgram(path: string): Promise<boolean> {
  try {
    await access(path, constants.X_OK);
    return (await stat(path)).isFile();
  } catch {
    return false;
  }
}
