import { readFile, stat } from 'node:fs/promises';
import { resolve } from 'node:path';
import { fail, ok, type Result } from '../core/result.ts';

/** The environment as a value; only the command line reads the real one. */
export type Environment = Readonly<Record<string, string | undefined>>;

export interface Variable {
  readonly text: string;
  readonly isFromFile: boolean;
}

/** Looks up one variable: itself, else the content of the file that `<name>_FILE` names; undefined when unset. */
export type Variables = (name: string) => Promise<Result<Variable | undefined, string>>;

/** Makes a look-up that reads each secret file once. Relative paths of files start at `folder`. */
export function createVariables(env: Environment, folder: string, warn: (text: string) => void): Variables {
  const known = new Map<string, ReturnType<Variables>>();
  const lookUp: Variables = async (name) => {
    const text = env[name];
    const named = env[`${name}_FILE`] ?? '';
    // Container files often set a variable to nothing where the secret is mounted.
    if (text !== undefined && (text !== '' || named === '')) return ok({ text, isFromFile: false });
    if (named === '') return ok(undefined);
    const path = resolve(folder, named);
    try {
      const content = await readFile(path, 'utf8');
      // MT-18. A warning only, since container platforms mount secrets readable by all.
      if (((await stat(path)).mode & 0o004) !== 0)
        warn(`${name}_FILE names a file that every user of this machine can read (${path})`);
      return ok({ text: content.replace(/\r?\n$/, ''), isFromFile: true });
    } catch (error) {
      const code = error instanceof Error && 'code' in error ? String(error.code) : String(error);
      return fail(`${name}_FILE names ${path}, which cannot be read (${code})`);
    }
  };
  return (name) => {
    const found = known.get(name) ?? lookUp(name);
    known.set(name, found);
    return found;
  };
}
