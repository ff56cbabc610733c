import { createHash } from 'node:crypto';
import { fail, ok, type Result } from '../core/result.ts';

const declaredCharsMax = 64;
const keptChars = 55;
const aliasCharsMax = 24;
const aliasPattern = /^[A-Za-z][A-Za-z0-9]*([_-][A-Za-z0-9]+)*$/;

/** Words that a provider gives a meaning of its own where a namespace or a tool name stands. */
const reservedAliases: ReadonlySet<string> = new Set([
  'tool_search',
  'file_search',
  'web_search',
  'code_interpreter',
  'computer',
  'image_generation',
  'shell',
  'local_shell',
  'apply_patch',
  'mcp',
  'functions',
  'multi_tool_use',
  'default_api',
]);

/** Checks an alias; the error says what is wrong with it and offers one that would do. */
export function checkAlias(alias: string): Result<string, string> {
  const complaint =
    alias.length > aliasCharsMax
      ? `is longer than ${aliasCharsMax} characters`
      : alias.includes('__')
        ? 'contains "__", which separates alias and tool in declared names'
        : !aliasPattern.test(alias)
          ? 'must be letters and digits, joined by single "_" or "-", and start with a letter'
          : reservedAliases.has(alias.toLowerCase())
            ? 'is a word that model providers reserve'
            : undefined;
  if (complaint === undefined) return ok(alias);
  return fail(
    `the alias ${JSON.stringify(alias.slice(0, 80))} ${complaint}; "${suggestAlias(alias)}" would do`,
  );
}

function suggestAlias(alias: string): string {
  const words = alias.normalize('NFKD').match(/[A-Za-z0-9]+/g) ?? [];
  const joined = words
    .join('_')
    .replace(/^[0-9_]+/, '')
    .slice(0, aliasCharsMax)
    .replace(/_+$/, '');
  if (joined === '') return 'server';
  return reservedAliases.has(joined.toLowerCase()) ? `my_${joined}`.slice(0, aliasCharsMax) : joined;
}

/**
 * The name under which a model sees a tool: `alias__tool`, at most 64 of `[A-Za-z0-9_-]` (design section 8).
 *
 * A pure function of alias and raw name, so a name never depends on other tools, on order or on restarts. A name that
 * had to be changed or cut, or that could be taken for such a one, ends in a hash of what it stands for.
 */
export function declaredName(alias: string, rawName: string): string {
  const whole = `${alias}__${rawName}`;
  const clean = whole.replace(/[^A-Za-z0-9_-]/gu, '_');
  if (clean === whole && whole.length <= declaredCharsMax && !/_[0-9a-f]{8}$/.test(rawName)) return whole;
  const hash = createHash('sha256').update(`${alias}\0${rawName}`).digest('hex').slice(0, 8);
  return `${clean.slice(0, keptChars)}_${hash}`;
}
