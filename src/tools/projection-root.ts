import { isJsonObject, type JsonObject, type JsonValue } from '../core/json.ts';
import { foreignText } from '../core/text.ts';
import { listOf } from './projection-merge.ts';
import { type Rewriter, rootCombinators } from './projection-rewrite.ts';

/** Alternatives that stood at the root, by the arguments that each of them asks for. */
interface Choice {
  readonly keyword: 'anyOf' | 'oneOf';
  readonly variants: readonly JsonObject[];
}

/** A root without combinators. */
export interface PlainRoot {
  readonly schema: JsonObject;
  readonly isMerged: boolean;
  /** What it cannot say any more; the names of arguments go through `nameOf`. */
  readonly note: (nameOf: (own: string) => string) => string | undefined;
}

const unions = ['anyOf', 'oneOf'] as const;
const conditions = ['not', 'if', 'then', 'else', 'enum', 'const'] as const;
const noteCharsMax = 500;
const hasMoreConditions = 'Further conditions on the arguments are checked when the tool is called.';

/** Writes the root of a schema, which describes an object, without what no provider takes there. */
export function plainRoot(rewritten: JsonObject, rewriter: Rewriter): PlainRoot {
  // A root that may be null too is no case for arguments.
  const root = rewritten.type === 'object' ? rewritten : { ...rewritten, type: 'object' };
  if (!Object.keys(root).some((keyword) => rootCombinators.has(keyword)))
    return { schema: root, isMerged: false, note: () => undefined };
  const { merger, steps } = rewriter;
  const choices: Choice[] = [];
  let hasConditions = false;
  let schema = ownKeywords(root);
  const merge = (part: JsonValue): void => {
    if (isJsonObject(part)) schema = merger.bothObjects(schema, plain(part, rewriter, choices));
  };
  if (typeof root.$ref === 'string') {
    merger.isExact = true;
    merge({ $ref: root.$ref });
    steps.add('inline_ref', '/$ref', !merger.isExact || choices.length > 0);
  }
  if (Array.isArray(root.allOf)) {
    const before = choices.length;
    merger.isExact = true;
    for (const part of root.allOf as readonly JsonValue[]) merge(part);
    steps.add('merge_root', '/allOf', !merger.isExact || choices.length > before);
  }
  for (const keyword of unions) {
    const list = root[keyword];
    if (!Array.isArray(list)) continue;
    schema = withUnion(schema, keyword, list, rewriter, choices);
    steps.add('merge_root', `/${keyword}`, true);
  }
  for (const part of conditionalParts(root)) schema = withOptional(schema, plain(part, rewriter), rewriter);
  for (const keyword of [...conditions, 'dependentSchemas']) {
    if (root[keyword] === undefined) continue;
    hasConditions = true;
    steps.add('merge_root', `/${keyword}`, true);
  }
  return { schema, isMerged: true, note: (nameOf) => noteOf(choices, hasConditions, schema, nameOf) };
}

const ownKeywords = (schema: JsonObject): JsonObject =>
  Object.fromEntries(Object.entries(schema).filter(([keyword]) => !rootCombinators.has(keyword)));

/** The same for a schema that judges the root too; what it loses is told of the keyword that it stands in. */
function plain(schema: JsonObject, rewriter: Rewriter, choices: Choice[] = []): JsonObject {
  const { merger } = rewriter;
  const { $ref, allOf } = schema;
  let merged = ownKeywords(schema);
  merger.spend();
  if (typeof $ref === 'string') {
    const target = rewriter.definition($ref.slice('#/$defs/'.length))?.schema;
    if (target !== undefined) merged = merger.bothObjects(merged, plain(target, rewriter, choices));
  }
  for (const part of listOf(allOf ?? []))
    if (isJsonObject(part)) merged = merger.bothObjects(merged, plain(part, rewriter, choices));
  for (const keyword of unions) {
    const list = schema[keyword];
    if (Array.isArray(list)) merged = withUnion(merged, keyword, list, rewriter, choices);
  }
  for (const part of conditionalParts(schema)) merged = withOptional(merged, plain(part, rewriter), rewriter);
  if (conditions.some((keyword) => schema[keyword] !== undefined)) merger.isExact = false;
  return merged;
}

/** Schemas that hold under a condition: what they say of properties is worth telling all the same. */
function conditionalParts(schema: JsonObject): JsonObject[] {
  const dependent = isJsonObject(schema.dependentSchemas) ? Object.values(schema.dependentSchemas) : [];
  return [schema.then, schema.else, ...dependent].filter(isJsonObject);
}

const propertiesOf = (schema: JsonObject): JsonObject =>
  isJsonObject(schema.properties) ? schema.properties : {};

const requiredOf = (schema: JsonObject): readonly JsonValue[] =>
  Array.isArray(schema.required) ? (schema.required as readonly JsonValue[]) : [];

/** Adds the properties of all alternatives, and of what they require what all of them do. */
function withUnion(
  schema: JsonObject,
  keyword: Choice['keyword'],
  list: readonly JsonValue[],
  rewriter: Rewriter,
  choices: Choice[],
): JsonObject {
  const { merger } = rewriter;
  const variants = list
    .filter((part) => part !== false)
    .map((part) => (isJsonObject(part) ? plain(part, rewriter) : {}))
    .filter(({ type }) => type === undefined || listOf(type).includes('object'));
  choices.push({ keyword, variants });
  merger.isExact = false;
  merger.spendOn(schema, propertiesOf(schema));
  merger.spendOnLists(...variants.map(requiredOf));
  const told = new Map<string, JsonValue[]>();
  for (const variant of variants) {
    for (const [name, property] of Object.entries(propertiesOf(variant))) {
      merger.spend();
      const schemas = told.get(name);
      if (schemas === undefined) told.set(name, [property]);
      else schemas.push(property);
    }
  }
  const properties: Record<string, JsonValue> = { ...propertiesOf(schema) };
  for (const [name, schemas] of told) {
    const own = Object.hasOwn(properties, name) ? properties[name] : undefined;
    if (own !== undefined && schemas.length === variants.length)
      properties[name] = merger.both(own, merger.either(schemas));
    else if (own === undefined && schema.additionalProperties !== false)
      properties[name] = merger.either(schemas);
  }
  const [first, ...others] = variants.map((variant) => new Set(requiredOf(variant)));
  const common = [...(first ?? [])].filter((name) => others.every((names) => names.has(name)));
  const required = [...new Set([...requiredOf(schema), ...common])];
  const isClosed = variants.length > 0 && variants.every((variant) => variant.additionalProperties === false);
  return {
    ...schema,
    ...(Object.keys(properties).length > 0 ? { properties } : {}),
    ...(required.length > 0 ? { required } : {}),
    ...(isClosed && schema.additionalProperties === undefined ? { additionalProperties: false } : {}),
  };
}

function withOptional(schema: JsonObject, part: JsonObject, { merger }: Rewriter): JsonObject {
  merger.isExact = false;
  const own = propertiesOf(schema);
  const added = Object.entries(propertiesOf(part)).filter(([name]) => !Object.hasOwn(own, name));
  if (added.length === 0 || schema.additionalProperties === false) return schema;
  merger.spendOn(schema, own);
  merger.spend(added.length);
  return { ...schema, properties: { ...own, ...Object.fromEntries(added) } };
}

function noteOf(
  choices: readonly Choice[],
  hasConditions: boolean,
  schema: JsonObject,
  nameOf: (own: string) => string,
): string | undefined {
  const always = new Set(requiredOf(schema));
  const told = choices.map(({ keyword, variants }) => {
    const texts = variants.map((variant) => variantText(variant, always, nameOf));
    return texts.some((text) => text === '')
      ? undefined
      : `Send the arguments of ${keyword === 'oneOf' ? 'exactly' : 'at least'} one of these: ${[...new Set(texts)].join('; ')}.`;
  });
  const sentences = told.filter((sentence) => sentence !== undefined);
  const text = sentences.join(' ');
  const isWhole = sentences.length === told.length && text.length <= noteCharsMax;
  const parts = [
    ...(text !== '' && text.length <= noteCharsMax ? [text] : []),
    ...(hasConditions || !isWhole ? [hasMoreConditions] : []),
  ];
  return parts.length === 0 ? undefined : parts.join(' ');
}

/** The arguments that a variant asks for beyond those that are always needed, and the values that mark it. */
function variantText(
  variant: JsonObject,
  always: ReadonlySet<JsonValue>,
  nameOf: (own: string) => string,
): string {
  const properties = propertiesOf(variant);
  const parts: string[] = [];
  for (const name of requiredOf(variant)) {
    if (typeof name !== 'string') continue;
    const property = Object.hasOwn(properties, name) ? properties[name] : undefined;
    const mark = isJsonObject(property) ? markOf(property) : undefined;
    if (mark !== undefined) parts.push(`${foreignText(nameOf(name), 100)} ${mark}`);
    else if (!always.has(name)) parts.push(foreignText(nameOf(name), 100));
  }
  return parts.join(', ');
}

/** The one value that a property may have, if it is short. */
function markOf({ const: constant, enum: list }: JsonObject): string | undefined {
  const value = constant ?? (Array.isArray(list) && list.length === 1 ? (list[0] as JsonValue) : undefined);
  return typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean'
    ? `= ${foreignText(JSON.stringify(value), 60)}`
    : undefined;
}
