import { readFile } from 'node:fs/promises';
import { isObject } from '../core/json.ts';
import type { ConfigurationFile } from './file.ts';
import { interpolate } from './interpolate.ts';
import { checkSchema } from './schema.ts';
import { type Path, type Problem, parseSource, type Source } from './source.ts';
import type { Variables } from './variables.ts';

/** A file that was read and filled in. What `problems` do not speak of has the shape that the type of `value` says. */
export interface OpenedFile {
  readonly source: Source;
  readonly value: ConfigurationFile;
  readonly problems: readonly Problem[];
  readonly references: readonly Reference[];
}

/** A text of the file that held `${}`, and what it was filled with. */
export interface Reference {
  readonly path: Path;
  readonly values: readonly string[];
  readonly fileValues: readonly string[];
}

/** Which top keys of a file are read: all, or the servers alone where the file belongs to another host. */
export type Share = 'all' | 'servers';

const filledEntryKeys = new Set<unknown>(['command', 'args', 'env', 'cwd', 'url', 'headers']);

/** Whether a text may hold references: ours, and those of a server entry that we read. */
const isFilled = ([top, , key]: Path): boolean => top === 'callgate' || filledEntryKeys.has(key);

/** Reads one configuration file: text, `${}`, schema. */
export async function openFile(file: string, share: Share, variables: Variables): Promise<OpenedFile> {
  const source = await readSource(file);
  const problems: Problem[] = [];
  if (source.findings.length === 0 && !isObject(source.value)) {
    problems.push({
      source,
      path: [],
      message: 'the file must hold an object with "mcpServers" and "callgate"',
    });
  }
  if (!isObject(source.value)) return { source, value: {}, problems, references: [] };

  const references: Reference[] = [];
  const fill = async (value: unknown, path: Path): Promise<unknown> => {
    if (typeof value === 'string') {
      if (!isFilled(path)) return value;
      const filled = await interpolate(value, variables);
      if (!filled.ok) {
        problems.push({ source, path, message: filled.error });
        return value;
      }
      const { text, values, fileValues } = filled.value;
      if (values.length > 0) references.push({ path, values, fileValues });
      return text;
    }
    if (Array.isArray(value)) {
      const items: unknown[] = [];
      for (const [index, item] of value.entries()) items.push(await fill(item, [...path, index]));
      return items;
    }
    if (!isObject(value) || isDisabled(value, path)) return value;
    const entries: [string, unknown][] = [];
    for (const [key, member] of Object.entries(value))
      entries.push([key, await fill(member, [...path, key])]);
    return Object.fromEntries(entries);
  };
  const top = Object.entries(source.value).filter(([key]) => share === 'all' || isServersKey(key));
  const value = await fill(Object.fromEntries(top), []);

  const reported = new Set(problems.map(({ path }) => JSON.stringify(path)));
  for (const misfit of checkSchema(value)) {
    // A text that could not be filled in rarely fits, and its first fault says why.
    if (!reported.has(JSON.stringify(misfit.path))) problems.push({ source, ...misfit });
  }
  // The schema has been checked; readers of `value` look at `problems` first.
  return { source, value: value as ConfigurationFile, problems, references };
}

async function readSource(file: string): Promise<Source> {
  try {
    return await parseSource(file, await readFile(file, 'utf8'));
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : String(error);
    const message = code === 'ENOENT' ? 'there is no such file' : `the file cannot be read (${code})`;
    const place = { line: 1, column: 1 };
    return { file, value: undefined, placeOf: () => place, findings: [{ file, ...place, message }] };
  }
}

/** The two keys under which hosts keep their servers. */
export const isServersKey = (key: unknown): key is 'mcpServers' | 'servers' =>
  key === 'mcpServers' || key === 'servers';

/** A server that is switched off needs no variables. */
const isDisabled = (value: Readonly<Record<string, unknown>>, path: Path): boolean =>
  path.length === 2 && isServersKey(path[0]) && value.disabled === true;
