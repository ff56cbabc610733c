import { isJsonObject, type JsonObject, type JsonValue, pointerStep } from '../core/json.ts';
import { type Dialect, subschemaKeywordsOf } from './schema-keywords.ts';

/** A schema that a reference leads to, and where it stands. */
export interface Target {
  readonly schema: JsonValue;
  readonly path: string;
}

/** Finds what the local references of a schema lead to. */
export class References {
  readonly #root: JsonObject;
  readonly #dialect: Dialect;
  #anchors: ReadonlyMap<string, Target> | undefined;

  constructor(root: JsonObject, dialect: Dialect) {
    this.#root = root;
    this.#dialect = dialect;
  }

  find(reference: string): Target | undefined {
    if (!reference.startsWith('#')) return undefined;
    const fragment = decode(reference.slice(1));
    if (fragment === undefined) return undefined;
    if (fragment === '') return { schema: this.#root, path: '' };
    if (fragment.startsWith('/')) return this.#at(fragment);
    this.#anchors ??= new Map(anchorsIn(this.#root, this.#dialect, ''));
    return this.#anchors.get(fragment);
  }

  #at(path: string): Target | undefined {
    let schema: JsonValue | undefined = this.#root;
    for (const token of path.slice(1).split('/')) {
      const name = token.replaceAll('~1', '/').replaceAll('~0', '~');
      if (typeof schema !== 'object' || schema === null || !Object.hasOwn(schema, name)) return undefined;
      schema = (schema as JsonObject)[name];
    }
    return schema === undefined ? undefined : { schema, path };
  }
}

function decode(fragment: string): string | undefined {
  try {
    return decodeURIComponent(fragment);
  } catch {
    return undefined;
  }
}

/** Draft-07 writes an anchor as an `$id` of nothing but a fragment. */
function anchorOf(schema: JsonObject, dialect: Dialect): string | undefined {
  const { $anchor: anchor, $id: id } = schema;
  if (dialect !== 'draft-07') return typeof anchor === 'string' ? anchor : undefined;
  return typeof id === 'string' && id.startsWith('#') ? id.slice(1) : undefined;
}

function* anchorsIn(schema: JsonObject, dialect: Dialect, path: string): Generator<[string, Target]> {
  const anchor = anchorOf(schema, dialect);
  if (anchor !== undefined) yield [anchor, { schema, path }];
  for (const [keyword, value] of Object.entries(schema)) {
    const form = subschemaKeywordsOf[dialect].get(keyword)?.[0];
    if (form === undefined || typeof value !== 'object') continue;
    const at = path + pointerStep(keyword);
    if (isJsonObject(value) && (form === 'one' || form === 'one-or-list')) {
      yield* anchorsIn(value, dialect, at);
      continue;
    }
    for (const [name, item] of Object.entries(value ?? {}))
      if (isJsonObject(item)) yield* anchorsIn(item, dialect, at + pointerStep(name));
  }
}
