import { readFileSync } from 'node:fs';
import { Ajv, type ErrorObject } from 'ajv';
import { nearest } from './nearest.ts';
import type { Path, Spot } from './source.ts';

/** One place where a value does not fit `config.schema.json`. */
export interface Misfit {
  readonly path: Path;
  readonly message: string;
  readonly spot: Spot;
}

/** What the schema says of one value; `x-` members are ours and speak to this file alone. */
interface SchemaNode {
  readonly description?: string;
  readonly type?: string | readonly string[];
  readonly enum?: readonly unknown[];
  readonly minimum?: number;
  readonly maximum?: number;
  readonly minItems?: number;
  readonly minLength?: number;
  readonly properties?: Readonly<Record<string, SchemaNode>>;
  /** In words, where the other members would not make a good sentence. */
  readonly 'x-expected'?: string;
  /** Why other values are refused. */
  readonly 'x-reason'?: string;
  /** Keys of the design that this version does not enforce, and therefore refuses. */
  readonly 'x-not-enforced'?: readonly string[];
  /** Keys that stand under `callgate.servers` alone. */
  readonly 'x-per-server'?: readonly string[];
}

const validate = new Ajv({ strict: false, allErrors: true, verbose: true }).compile(
  JSON.parse(readFileSync(new URL('../../config.schema.json', import.meta.url), 'utf8')),
);

/** Holds a whole file against `config.schema.json`; says at most one thing about each place. */
export function checkSchema(value: unknown): readonly Misfit[] {
  if (validate(value)) return [];
  const misfits = new Map<string, Misfit>();
  for (const error of validate.errors ?? []) {
    const misfit = misfitOf(error, value);
    if (misfit === undefined) continue;
    const id = JSON.stringify(misfit.path);
    if (!misfits.has(id)) misfits.set(id, misfit);
  }
  return [...misfits.values()];
}

/** A path as people write it: `callgate.auth.issuers[0].audience`. */
export const pathText = (path: Path): string =>
  path
    .map((part) =>
      typeof part === 'string' && /^[\w$-]+$/.test(part)
        ? `.${part}`
        : `[${JSON.stringify(part).slice(0, 80)}]`,
    )
    .join('')
    .replace(/^\./, '') || 'the file';

/** The value in a file that a path leads to. */
export function valueAt(value: unknown, path: Path): unknown {
  let at = value;
  for (const part of path) at = (at as Record<string | number, unknown> | undefined)?.[part];
  return at;
}

function misfitOf(error: ErrorObject, root: unknown): Misfit | undefined {
  const path = pathOf(error.instancePath, root);
  const schema = (error.parentSchema ?? {}) as SchemaNode;
  const params: Record<string, unknown> = error.params;
  switch (error.keyword) {
    case 'additionalProperties': {
      const key = String(params.additionalProperty);
      return { path: [...path, key], spot: 'key', message: unknownKey([...path, key], key, schema) };
    }
    case 'required': {
      const key = String(params.missingProperty);
      const what = schema.properties?.[key]?.description;
      const message = `${pathText(path)} lacks "${key}"${what === undefined ? '' : `: ${what}`}`;
      return { path, spot: 'key', message };
    }
    case 'propertyNames': {
      // Told by the error of the name itself, which ajv reports beside this one.
      return undefined;
    }
    default: {
      if (error.propertyName !== undefined) {
        const at = [...path, error.propertyName];
        return { path: at, spot: 'key', message: `${pathText(at)}: the key must be ${expectation(schema)}` };
      }
      return { path, spot: 'value', message: `${pathText(path)} ${complaint(schema, error.data)}` };
    }
  }
}

function unknownKey(path: Path, key: string, schema: SchemaNode): string {
  if (schema['x-not-enforced']?.includes(key)) {
    return `${pathText(path)} is known to callgate, but this version does not enforce it: take it out`;
  }
  if (schema['x-per-server']?.includes(key)) {
    return `${pathText(path)} is a setting of single servers: give it to each under callgate.servers`;
  }
  const known = Object.keys(schema.properties ?? {});
  const near = nearest(key, known);
  const hint = near === undefined ? `the keys here are ${known.join(', ')}` : `did you mean "${near}"?`;
  return `${pathText(path)} is not a key that callgate knows: ${hint}`;
}

function complaint(schema: SchemaNode, value: unknown): string {
  const reason = schema['x-reason'] === undefined ? '' : ` (${schema['x-reason']})`;
  return `must be ${expectation(schema)}, not ${found(schema, value)}${reason}`;
}

function expectation(schema: SchemaNode): string {
  if (schema['x-expected'] !== undefined) return schema['x-expected'];
  if (schema.enum !== undefined) return schema.enum.map((value) => JSON.stringify(value)).join(' or ');
  switch (schema.type) {
    case 'integer':
      return `a whole number from ${schema.minimum} to ${schema.maximum}`;
    case 'boolean':
      return 'true or false';
    case 'string':
      return schema.minLength === undefined ? 'a text' : 'a text that is not empty';
    case 'array':
      return schema.minItems === undefined ? 'a list' : 'a list that is not empty';
    case 'object':
      return 'an object';
    default:
      return Array.isArray(schema.type) ? schema.type.join(' or ') : 'something else';
  }
}

/** Shows what was found, but a text only where it stands for a choice: any other could be a secret (MT-14). */
function found(schema: SchemaNode, value: unknown): string {
  if (value === null || typeof value === 'boolean') return String(value);
  if (typeof value === 'number') return schema.type === 'integer' ? String(value) : 'a number';
  if (typeof value === 'string') {
    if (value === '') return 'an empty text';
    if (schema.enum !== undefined) return JSON.stringify(value.slice(0, 40));
    return [schema.type].flat().includes('string') ? 'this text' : 'a text';
  }
  return Array.isArray(value) ? (value.length === 0 ? 'an empty list' : 'a list') : 'an object';
}

/** ajv tells places as JSON pointers, in which the index of a list and a key that is a number look alike. */
function pathOf(pointer: string, root: unknown): Path {
  const path: (string | number)[] = [];
  for (const part of pointer.split('/').slice(1)) {
    const key = part.replaceAll('~1', '/').replaceAll('~0', '~');
    path.push(Array.isArray(valueAt(root, path)) ? Number(key) : key);
  }
  return path;
}
