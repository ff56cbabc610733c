import { fail, ok, type Result } from '../core/result.ts';
import type { Variables } from './variables.ts';

/** A text with its references filled in, and the values that came in that way. */
export interface Filled {
  readonly text: string;
  readonly values: readonly string[];
  /** Those of `values` that were read from a file, which nobody does for what is not secret. */
  readonly fileValues: readonly string[];
}

/** `$${`, which stands for a literal `${`; or a reference, complete or not. */
const references = /\$\$\{|\$\{([^}]*)(\}?)/g;
const reference = /^(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-(.*))?$/s;

/** Fills `${VAR}`, `${VAR:-default}` and VS Code's `${env:VAR}`; the error says which reference cannot be filled. */
export async function interpolate(text: string, variables: Variables): Promise<Result<Filled, string>> {
  const parts: string[] = [];
  const values: string[] = [];
  const fileValues: string[] = [];
  let end = 0;
  for (const match of text.matchAll(references)) {
    const [whole, inner, close] = match;
    parts.push(text.slice(end, match.index));
    end = match.index + whole.length;
    if (inner === undefined) {
      parts.push('${');
      continue;
    }
    if (close === '')
      return fail(`a "\${" has no closing "}"; write "$\${" where the two characters are meant`);
    const value = await resolve(inner, variables);
    if (!value.ok) return value;
    parts.push(value.value.text);
    values.push(value.value.text);
    if (value.value.isFromFile) fileValues.push(value.value.text);
  }
  parts.push(text.slice(end));
  return ok({ text: parts.join(''), values, fileValues });
}

async function resolve(
  inner: string,
  variables: Variables,
): Promise<Result<{ text: string; isFromFile: boolean }, string>> {
  if (inner.startsWith('input:')) {
    return fail(
      `\`\${${inner}}\` asks a person at a keyboard, which callgate cannot do: put the value into a variable and refer to it as \`\${NAME}\``,
    );
  }
  const [, name, fallback] = reference.exec(inner) ?? [];
  if (name === undefined) {
    return fail(
      `\`\${${inner}}\` is not understood: write \`\${NAME}\` or \`\${NAME:-default}\`, or \`$\${\` for a literal \`\${\``,
    );
  }
  const variable = await variables(name);
  if (!variable.ok) return variable;
  if (fallback !== undefined && (variable.value === undefined || variable.value.text === '')) {
    return ok({ text: fallback, isFromFile: false });
  }
  if (variable.value !== undefined) return ok(variable.value);
  return fail(
    `the variable ${name} is not set: set ${name}, or let ${name}_FILE name a file with its value, or give a default with \`\${${name}:-...}\``,
  );
}
