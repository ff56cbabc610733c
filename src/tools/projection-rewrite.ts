import { ExactNumber, isJsonObject, type JsonObject, type JsonValue, pointerStep } from '../core/json.ts';
import type { SchemaRules } from './projection.ts';
import { listOf, Merger } from './projection-merge.ts';
import { References, type Target } from './projection-references.ts';
import { Steps, Unprojectable } from './projection-steps.ts';
import { type Dialect, dialectOf, type Form, subschemaKeywordsOf } from './schema-keywords.ts';

/** A schema that references lead to, under the name that it has in `$defs` of the projection. */
interface Definition {
  readonly name: string;
  readonly path: string;
  /** Undefined while it is being rewritten. */
  schema: JsonObject | undefined;
}

/** Schemas inside one another, references followed; the gate allows fewer, except below `contentSchema`. */
const chainMax = 300;

/** Keywords that only name or comment a schema; every reference is written anew, so nothing needs the names. */
const silentKeywords: ReadonlySet<string> = new Set([
  '$schema',
  '$id',
  'id',
  '$anchor',
  '$comment',
  '$vocabulary',
]);
/** Keywords that mean nothing in a dialect, and would mean something without its `$schema`. */
const idleKeywords: Readonly<Record<Dialect, ReadonlySet<string>>> = {
  'draft-07': new Set([
    'contentSchema',
    'dependentRequired',
    'dependentSchemas',
    'maxContains',
    'minContains',
    'prefixItems',
    'unevaluatedItems',
    'unevaluatedProperties',
  ]),
  '2019-09': new Set(['prefixItems']),
  '2020-12': new Set(['additionalItems']),
};
/** What says at the root how arguments go together; no provider takes it there, so it is for `plainRoot` to write. */
export const rootCombinators: ReadonlySet<string> = new Set([
  ...['$ref', 'allOf', 'anyOf', 'oneOf', 'not', 'if', 'then', 'else', 'enum', 'const', 'dependentSchemas'],
]);
/** Keywords that may be said in others where the provider does not know them. */
const rewordable: ReadonlySet<string> = new Set(['const', 'oneOf', 'allOf', 'nullable']);
const isText = (value: JsonValue): boolean => typeof value === 'string';
const isFlag = (value: JsonValue): boolean => typeof value === 'boolean';
/** What remarks have to be; a validator does not mind, a provider does. */
const remarkShapes: ReadonlyMap<string, (value: JsonValue) => boolean> = new Map([
  ['title', isText],
  ['description', isText],
  ['contentEncoding', isText],
  ['contentMediaType', isText],
  ['deprecated', isFlag],
  ['readOnly', isFlag],
  ['writeOnly', isFlag],
  ['examples', (value) => Array.isArray(value)],
]);

type Draft = Record<string, JsonValue>;

/** Rewrites the schemas of one tool for one provider, each once; those that nothing refers to are never reached. */
export class Rewriter {
  readonly steps = new Steps();
  readonly merger: Merger;
  readonly #rules: SchemaRules;
  readonly #dialect: Dialect;
  readonly #references: References;
  readonly #definitions = new Map<JsonObject, Definition>();
  readonly #byName = new Map<string, Definition>();
  readonly #stems = new Map<string, number>();
  #chain = 0;

  constructor(root: JsonObject, rules: SchemaRules) {
    this.#rules = rules;
    this.#dialect = dialectOf(root) ?? '2020-12';
    this.#references = new References(root, this.#dialect);
    const takesAllOf = rules.keywords?.has('allOf') ?? true;
    this.merger = new Merger((schema) => this.#followed(schema), takesAllOf);
  }

  /** What stands under a name in `$defs` of the projection. */
  definition(name: string): Definition | undefined {
    return this.#byName.get(name);
  }

  get hasDefinitions(): boolean {
    return this.#byName.size > 0;
  }

  /** Whether a definition of the server has been of use. */
  isUsed(schema: JsonValue): boolean {
    return isJsonObject(schema) && this.#definitions.has(schema);
  }

  object(source: JsonObject, path: string): JsonObject {
    this.#chain += 1;
    if (this.#chain > chainMax)
      throw new Unprojectable(`its input schema is a chain of more than ${chainMax} schemas`);
    const draft: Draft = {};
    for (const [keyword, value] of Object.entries(source)) {
      if (keyword === '$ref') continue;
      if (keyword === '$defs' || keyword === 'definitions') {
        if (path !== '') this.steps.add('move_definitions', path + pointerStep(keyword), false);
        continue;
      }
      this.#addKeyword(draft, source, keyword, value, path);
    }
    this.#settle(draft, path);
    const fitted = this.#fit(draft, path);
    const schema = isText(source.$ref ?? null)
      ? this.#withReference(fitted, source.$ref as string, `${path}/$ref`)
      : fitted;
    this.#chain -= 1;
    return schema;
  }

  #addKeyword(draft: Draft, source: JsonObject, keyword: string, value: JsonValue, path: string): void {
    const at = path + pointerStep(keyword);
    if (this.#saysNothing(keyword, value)) {
      this.steps.add('drop_keyword', at, false);
      return;
    }
    let form = subschemaKeywordsOf[this.#dialect].get(keyword)?.[0];
    let target = keyword;
    if (keyword === 'items' && Array.isArray(value)) {
      this.steps.add('rewrite_tuple', at, false);
      target = 'prefixItems';
      form = 'list';
    } else if (keyword === 'additionalItems') {
      if (!Array.isArray(source.items)) {
        this.steps.add('drop_keyword', at, false);
        return;
      }
      target = 'items';
    }
    if (!rewordable.has(target) && !this.#takes(target, path === '')) {
      this.steps.add('drop_keyword', at, true);
      return;
    }
    const written = form === undefined ? value : this.#subschemas(target, value, form, at);
    if (written !== undefined) draft[target] = written;
  }

  #takes(keyword: string, isRoot: boolean): boolean {
    const { keywords } = this.#rules;
    return keywords === undefined || keywords.has(keyword) || (isRoot && rootCombinators.has(keyword));
  }

  #saysNothing(keyword: string, value: JsonValue): boolean {
    return (
      silentKeywords.has(keyword) ||
      keyword.startsWith('x-') ||
      idleKeywords[this.#dialect].has(keyword) ||
      remarkShapes.get(keyword)?.(value) === false
    );
  }

  /** Undefined where nothing is left of it. */
  #subschemas(keyword: string, value: JsonValue, form: Form, at: string): JsonValue | undefined {
    if (Array.isArray(value)) {
      const list: JsonValue[] = [];
      for (const [index, item] of (value as readonly JsonValue[]).entries()) {
        const schema = this.#schema(item, `${at}/${index}`);
        if (schema !== undefined) list.push(schema);
        else if (keyword === 'prefixItems') list.push({});
      }
      return list.length === 0 ? undefined : list;
    }
    if (form === 'one' || form === 'one-or-list') {
      return keyword === 'additionalProperties' && isFlag(value) ? value : this.#schema(value, at);
    }
    const map: Draft = {};
    for (const [name, item] of Object.entries(isJsonObject(value) ? value : {})) {
      const schema = Array.isArray(item) ? item : this.#schema(item, at + pointerStep(name));
      if (schema !== undefined) map[name] = schema;
    }
    return map;
  }

  /** Undefined for one that nothing fits, where the provider has no way to say that. */
  #schema(value: JsonValue, path: string): JsonValue | undefined {
    if (isJsonObject(value)) return this.object(value, path);
    if (this.#rules.booleans) return value;
    this.steps.add('rewrite_boolean_schema', path, value === false);
    return value === false ? undefined : {};
  }

  /** What can be said otherwise with the same meaning. */
  #settle(draft: Draft, path: string): void {
    const drop = (keyword: string): void => {
      if (draft[keyword] === undefined) return;
      delete draft[keyword];
      this.steps.add('drop_keyword', `${path}/${keyword}`, false);
    };
    if (draft.nullable === true && draft.type !== undefined) {
      draft.type = [...new Set([...listOf(draft.type), 'null'])];
      delete draft.nullable;
      this.steps.add('rewrite_type_list', `${path}/nullable`, false);
    } else drop('nullable');
    if (isJsonObject(draft.dependencies)) {
      const entries = Object.entries(draft.dependencies);
      const required = entries.filter(([, part]) => Array.isArray(part));
      const schemas = entries.filter(([, part]) => !Array.isArray(part));
      if (draft.dependentRequired === undefined && draft.dependentSchemas === undefined) {
        if (required.length > 0) draft.dependentRequired = Object.fromEntries(required);
        if (schemas.length > 0) draft.dependentSchemas = Object.fromEntries(schemas);
        delete draft.dependencies;
        this.steps.add('rewrite_dependencies', `${path}/dependencies`, false);
      }
    }
    if (draft.type !== undefined && !listOf(draft.type).includes('object')) {
      drop('properties');
      drop('required');
    }
    if (Array.isArray(draft.required) && draft.required.length === 0) drop('required');
    if (
      this.#rules.needsItems &&
      draft.items === undefined &&
      draft.type !== undefined &&
      listOf(draft.type).includes('array')
    ) {
      draft.items = {};
      this.steps.add('add_items', `${path}/items`, false);
    }
  }

  /** Says in keywords that the provider knows what others say. */
  #reworded(draft: Draft, path: string): Draft {
    const { keywords } = this.#rules;
    if (keywords === undefined) return draft;
    if (draft.const !== undefined && !keywords.has('const')) {
      draft.enum = [draft.const];
      delete draft.const;
      this.steps.add('rewrite_const', `${path}/const`, false);
    }
    if (draft.oneOf !== undefined && draft.anyOf === undefined && !keywords.has('oneOf')) {
      draft.anyOf = draft.oneOf;
      delete draft.oneOf;
      this.steps.add('rewrite_one_of', `${path}/oneOf`, true);
    }
    if (!Array.isArray(draft.allOf) || keywords.has('allOf')) return draft;
    const { allOf, ...rest } = draft;
    this.merger.isExact = true;
    const merged = (allOf as readonly JsonValue[])
      .filter(isJsonObject)
      .reduce((whole: JsonObject, part) => this.merger.bothObjects(whole, part), rest);
    this.steps.add('merge_all_of', `${path}/allOf`, !this.merger.isExact);
    return { ...merged };
  }

  /** Leaves out what the provider cannot be told. */
  #fit(draft: Draft, path: string): JsonObject {
    const isRoot = path === '';
    const fitted = isRoot ? draft : this.#reworded(draft, path);
    for (const keyword of this.#rules.keywords === undefined ? [] : Object.keys(fitted)) {
      if (this.#takes(keyword, isRoot)) continue;
      delete fitted[keyword];
      this.steps.add('drop_keyword', path + pointerStep(keyword), true);
    }
    if (!isRoot) this.#fitEnum(fitted, path);
    return fitted;
  }

  #fitEnum(draft: Draft, path: string): void {
    const { enumValues } = this.#rules;
    if (enumValues === undefined || !Array.isArray(draft.enum)) return;
    const values: readonly JsonValue[] = draft.enum;
    const allowed = values.filter((value) =>
      enumValues.has(value instanceof ExactNumber ? 'number' : typeof value),
    );
    if (allowed.length === values.length) return;
    const types = listOf(draft.type ?? [...new Set(values.map(typeOf))]);
    const nulls = values.filter((value) => value === null);
    const isNullable = allowed.length > 0 && allowed.length + nulls.length === values.length;
    if (isNullable && draft.anyOf === undefined) {
      const others = types.filter((type) => type !== 'null');
      draft.anyOf = [
        { ...(others.length > 0 ? { type: single(others) } : {}), enum: allowed },
        ...(types.includes('null') ? [{ type: 'null' }] : []),
      ];
      delete draft.type;
    } else draft.type ??= single(types);
    delete draft.enum;
    this.steps.add('rewrite_enum', `${path}/enum`, draft.anyOf === undefined || !isNullable);
  }

  #withReference(schema: JsonObject, reference: string, at: string): JsonObject {
    const target = this.#references.find(reference);
    if (target === undefined || !(isJsonObject(target.schema) || isFlag(target.schema)))
      throw new Unprojectable('its input schema has a $ref that leads nowhere');
    const { refs } = this.#rules;
    if (!isJsonObject(target.schema)) {
      this.steps.add('inline_ref', at, false);
      return target.schema === true ? schema : this.#fit({ ...schema, not: {} }, at);
    }
    const definition = this.#defined(target as Target & { schema: JsonObject });
    if (refs === 'kept' || (refs === 'alone' && Object.keys(schema).length === 0)) {
      return { $ref: `#/$defs/${definition.name}`, ...schema };
    }
    this.merger.isExact = true;
    const inlined = this.merger.bothObjects(schema, this.#written(definition));
    this.steps.add('inline_ref', at, !this.merger.isExact);
    return inlined;
  }

  #defined({ schema, path }: Target & { schema: JsonObject }): Definition {
    const known = this.#definitions.get(schema);
    if (known !== undefined) {
      if (known.schema === undefined && this.#rules.refs !== 'kept') this.#written(known);
      return known;
    }
    const definition: Definition = { name: this.#freeName(path), path, schema: undefined };
    this.#definitions.set(schema, definition);
    this.#byName.set(definition.name, definition);
    definition.schema = this.object(schema, path);
    return definition;
  }

  #written({ schema }: Definition): JsonObject {
    if (schema === undefined)
      throw new Unprojectable('its input schema refers to itself, which the API does not take');
    return schema;
  }

  /** A schema whose `$ref` is replaced by what it leads to; it is written by then, unless it is around this one. */
  #followed(schema: JsonObject): JsonObject {
    let followed = schema;
    for (let left = chainMax; isText(followed.$ref ?? null) && left > 0; left -= 1) {
      const { $ref, ...rest } = followed;
      const definition = this.#byName.get(String($ref).slice('#/$defs/'.length));
      if (definition === undefined) return followed;
      const target = this.#written(definition);
      followed = Object.keys(rest).length === 0 ? target : this.merger.bothObjects(rest, { ...target });
    }
    return followed;
  }

  /** The last part of the place where it stands, in characters that need no escapes. */
  #freeName(path: string): string {
    const last = path.slice(path.lastIndexOf('/') + 1);
    const stem = last.replace(/[^A-Za-z0-9_.-]+/g, '_').slice(0, 60) || 'root';
    for (;;) {
      const count = (this.#stems.get(stem) ?? 0) + 1;
      this.#stems.set(stem, count);
      const name = count === 1 ? stem : `${stem}_${count}`;
      if (!this.#byName.has(name)) return name;
    }
  }
}

const single = (types: readonly JsonValue[]): JsonValue => (types.length === 1 ? (types[0] ?? null) : types);

const typeOf = (value: JsonValue): string => {
  if (value === null) return 'null';
  if (value instanceof ExactNumber) return 'number';
  return Array.isArray(value) ? 'array' : typeof value;
};
