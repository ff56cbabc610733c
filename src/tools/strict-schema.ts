import { isJsonObject, type JsonObject, type JsonValue } from '../core/json.ts';
import { References } from './projection-references.ts';
import { dialectOf } from './schema-keywords.ts';

/** What a schema for OpenAI's strict mode may be at most (OpenAI, Structured Outputs). */
const strictLimits = { properties: 5_000, levels: 10, enumValues: 1_000, chars: 120_000 } as const;

/** References that are followed to find out what a schema is; a longer chain is taken for one that says nothing. */
const referencesMax = 30;

const keywords: ReadonlySet<string> = new Set([
  ...['type', 'enum', 'const', 'anyOf', '$ref', '$defs', 'title', 'description'],
  ...['properties', 'required', 'additionalProperties', 'items', 'minItems', 'maxItems', 'pattern', 'format'],
  ...['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum', 'multipleOf'],
]);
/** What says something of objects alone. */
const objectKeywords = ['properties', 'required', 'additionalProperties'] as const;
const formats: ReadonlySet<JsonValue> = new Set([
  ...['date', 'date-time', 'duration', 'email', 'hostname', 'ipv4', 'ipv6', 'time', 'uuid'],
]);

/**
 * The same schema in the form that OpenAI's strict mode wants, where it says exactly the same: every object closed,
 * every property required, optional ones nullable. Undefined where something would be lost. The schema is one of a
 * projection, with its definitions in `$defs`.
 */
export function strictSchema(schema: JsonObject): JsonObject | undefined {
  try {
    return new StrictWriter(schema).root();
  } catch (error) {
    if (error === lossy) return undefined;
    throw error;
  }
}

/** Leaves the recursion of a writer; never leaves this file. */
const lossy = Symbol('a schema that strict mode cannot carry without loss');

const refuse = (): never => {
  throw lossy;
};

class StrictWriter {
  readonly #root: JsonObject;
  readonly #nullability: Nullability;
  readonly #counts = { properties: 0, enumValues: 0, chars: 0 };
  #hasAddedNull = false;
  #hasVariantReference = false;

  constructor(root: JsonObject) {
    this.#root = root;
    this.#nullability = new Nullability(new References(root, '2020-12'));
  }

  root(): JsonObject {
    const { $defs, ...root } = this.#root;
    // A tool without parameters takes none, so its root is closed too.
    const written = this.#schema(root, { level: 1, isRoot: true });
    if ($defs === undefined || !isJsonObject($defs)) return written;
    this.#hasAddedNull = false;
    const definitions = this.#map($defs, { level: 1 });
    if (this.#hasAddedNull && this.#hasVariantReference) refuse();
    return { ...written, $defs: definitions };
  }

  #map(map: JsonObject, place: Place): JsonObject {
    const written: Record<string, JsonValue> = {};
    for (const [name, schema] of Object.entries(map)) {
      this.#count('chars', name.length);
      written[name] = this.#schema(schema, place);
    }
    return written;
  }

  #schema(schema: JsonValue, place: Place): JsonObject {
    if (!isJsonObject(schema) || place.level > strictLimits.levels) return refuse();
    for (const keyword of Object.keys(schema)) if (!keywords.has(keyword)) refuse();
    if (schema.$defs !== undefined) refuse();
    if (schema.$ref !== undefined) {
      this.#hasVariantReference ||= place.isVariant === true;
      return Object.keys(schema).length === 1 ? schema : refuse();
    }
    if (['type', 'enum', 'const', 'anyOf'].every((keyword) => schema[keyword] === undefined)) refuse();
    if (schema.format !== undefined && !formats.has(schema.format)) refuse();
    for (const value of [schema.const ?? null, ...(Array.isArray(schema.enum) ? schema.enum : [])])
      this.#count('chars', typeof value === 'string' ? value.length : 0);
    if (Array.isArray(schema.enum)) this.#count('enumValues', schema.enum.length);
    const below = levelBelow(place);
    const written: Record<string, JsonValue> = { ...schema };
    if (Array.isArray(schema.anyOf)) written.anyOf = this.#alternatives(schema.anyOf, place);
    if (schema.items !== undefined) written.items = this.#schema(schema.items, below);
    if (saysType(schema, 'array') && schema.items === undefined) refuse();
    if (saysType(schema, 'object')) Object.assign(written, this.#closed(schema, place));
    else if (objectKeywords.some((keyword) => schema[keyword] !== undefined)) refuse();
    return written;
  }

  /** Which of several alternatives a null was put into could not be told, so only one may have optional properties. */
  #alternatives(alternatives: readonly JsonValue[], place: Place): JsonValue[] {
    const isOnlyOne = alternatives.filter((alternative) => !isNull(alternative)).length < 2;
    return alternatives.map((alternative) =>
      this.#schema(alternative, { level: place.level, isVariant: place.isVariant === true || !isOnlyOne }),
    );
  }

  #closed(schema: JsonObject, place: Place): JsonObject {
    const properties = isJsonObject(schema.properties ?? null) ? (schema.properties as JsonObject) : {};
    const names = Object.keys(properties);
    const required = new Set(Array.isArray(schema.required) ? (schema.required as readonly JsonValue[]) : []);
    const { additionalProperties } = schema;
    const isOpenMap = names.length === 0 && place.isRoot !== true && additionalProperties === undefined;
    if (isOpenMap || (additionalProperties !== undefined && additionalProperties !== false)) refuse();
    if ([...required].some((name) => typeof name !== 'string' || !Object.hasOwn(properties, name))) refuse();
    this.#count('properties', names.length);
    const below = levelBelow(place);
    const written: Record<string, JsonValue> = {};
    for (const [name, property] of Object.entries(properties)) {
      this.#count('chars', name.length);
      const own = this.#schema(property, below);
      if (required.has(name)) written[name] = own;
      else if (place.isVariant === true || !this.#nullability.refusesNull(property)) refuse();
      else {
        this.#hasAddedNull = true;
        written[name] = nullable(own);
      }
    }
    return { properties: written, required: names, additionalProperties: false };
  }

  #count(what: 'properties' | 'enumValues' | 'chars', amount: number): void {
    this.#counts[what] += amount;
    if (this.#counts[what] > strictLimits[what]) refuse();
  }
}

interface Place {
  readonly level: number;
  readonly isRoot?: true;
  /** Below one of several alternatives. */
  readonly isVariant?: boolean;
}

const levelBelow = ({ level, isVariant }: Place): Place => ({
  level: level + 1,
  ...(isVariant === undefined ? {} : { isVariant }),
});

const saysType = ({ type }: JsonObject, name: string): boolean =>
  Array.isArray(type) ? type.includes(name) : type === name;

const isNull = (schema: JsonValue): boolean => isJsonObject(schema) && schema.type === 'null';

/** The same schema, for null too. */
function nullable(schema: JsonObject): JsonObject {
  const { type, title, description, enum: values, const: constant } = schema;
  if (type === undefined || constant !== undefined) {
    const remarks = {
      ...(title === undefined ? {} : { title }),
      ...(description === undefined ? {} : { description }),
    };
    const { title: _title, description: _description, ...own } = schema;
    return { ...remarks, anyOf: [own, { type: 'null' }] };
  }
  return {
    ...schema,
    type: [...(Array.isArray(type) ? (type as readonly JsonValue[]) : [type]), 'null'],
    ...(Array.isArray(values) ? { enum: [...(values as readonly JsonValue[]), null] } : {}),
  };
}

/**
 * Arguments without the nulls that a strict schema has in place of what is left out: those of properties that the
 * tool's own schema neither requires nor allows to be null. Nothing else is touched.
 */
export function withoutStrictNulls(value: JsonObject, schema: JsonObject): JsonObject {
  const mayHaveNull = (member: JsonValue): boolean => typeof member === 'object';
  if (!Object.values(value).some(mayHaveNull)) return value;
  return new NullRemover(schema).strip(value, schema) as JsonObject;
}

/** Knows of each schema of a tool what it says of null, found out once. */
class Nullability {
  readonly #references: References;
  readonly #refusing = new Map<JsonObject, boolean>();

  constructor(references: References) {
    this.#references = references;
  }

  /** Whether null surely does not fit. */
  refusesNull(schema: JsonValue, left = referencesMax): boolean {
    if (schema === false) return true;
    if (!isJsonObject(schema) || left === 0) return false;
    let refuses = this.#refusing.get(schema);
    if (refuses === undefined) {
      refuses = this.#find(schema, left - 1);
      this.#refusing.set(schema, refuses);
    }
    return refuses;
  }

  #find(schema: JsonObject, left: number): boolean {
    const { type, nullable: isNullable, enum: values, const: constant, $ref, anyOf, oneOf, allOf } = schema;
    const refuses = (part: JsonValue): boolean => this.refusesNull(part, left);
    if (type !== undefined && !saysType(schema, 'null') && isNullable !== true) return true;
    if (Array.isArray(values) && !values.includes(null)) return true;
    if (constant !== undefined && constant !== null) return true;
    const target = typeof $ref === 'string' ? this.#references.find($ref) : undefined;
    if (target !== undefined && refuses(target.schema)) return true;
    if (Array.isArray(anyOf) && anyOf.every(refuses)) return true;
    if (Array.isArray(oneOf) && oneOf.every(refuses)) return true;
    return Array.isArray(allOf) && allOf.some(refuses);
  }
}

class NullRemover {
  readonly #references: References;
  readonly #nullability: Nullability;
  readonly #parts = new Map<JsonObject, readonly JsonObject[]>();
  readonly #required = new Map<JsonObject, ReadonlySet<JsonValue>>();

  constructor(root: JsonObject) {
    this.#references = new References(root, dialectOf(root) ?? '2020-12');
    this.#nullability = new Nullability(this.#references);
  }

  strip(value: JsonValue, schema: JsonValue): JsonValue {
    if (!isSchema(schema)) return value;
    if (Array.isArray(value)) return this.#items(value, schema);
    return isJsonObject(value) ? this.#members(value, schema) : value;
  }

  #items(list: readonly JsonValue[], schema: JsonObject): readonly JsonValue[] {
    const items = this.#partsOf(schema).find((part) => isSchema(part.items))?.items;
    if (items === undefined) return list;
    const stripped = list.map((item) => this.strip(item, items));
    return stripped.some((item, index) => item !== list[index]) ? stripped : list;
  }

  #members(value: JsonObject, schema: JsonObject): JsonObject {
    const parts = this.#partsOf(schema);
    const kept: [string, JsonValue][] = [];
    let isChanged = false;
    for (const [name, member] of Object.entries(value)) {
      const told = parts.map((part) => propertyOf(part, name)).filter((property) => property !== undefined);
      if (
        member === null &&
        told.some((own) => this.#nullability.refusesNull(own)) &&
        !parts.some((part) => this.#requires(part, name))
      ) {
        isChanged = true;
        continue;
      }
      const [property] = told;
      const stripped = property === undefined ? member : this.strip(member, property);
      isChanged ||= stripped !== member;
      kept.push([name, stripped]);
    }
    return isChanged ? Object.fromEntries(kept) : value;
  }

  #requires(part: JsonObject, name: string): boolean {
    let names = this.#required.get(part);
    if (names === undefined) {
      names = new Set(Array.isArray(part.required) ? (part.required as readonly JsonValue[]) : []);
      this.#required.set(part, names);
    }
    return names.has(name);
  }

  /** The schemas that a value has to fit for sure: references followed, and the one alternative to null. */
  #partsOf(schema: JsonObject): readonly JsonObject[] {
    const known = this.#parts.get(schema);
    if (known !== undefined) return known;
    const parts: JsonObject[] = [];
    const open: JsonValue[] = [schema];
    for (let part = open.pop(); part !== undefined && parts.length < referencesMax; part = open.pop()) {
      if (!isJsonObject(part)) continue;
      parts.push(part);
      const { $ref, anyOf, allOf } = part;
      const target = typeof $ref === 'string' ? this.#references.find($ref) : undefined;
      if (target !== undefined) open.push(target.schema);
      if (Array.isArray(allOf)) open.push(...(allOf as readonly JsonValue[]));
      const others = Array.isArray(anyOf)
        ? (anyOf as readonly JsonValue[]).filter((own) => !isNull(own))
        : [];
      if (others.length === 1) open.push(...others);
    }
    this.#parts.set(schema, parts);
    return parts;
  }
}

const isSchema = (value: JsonValue | undefined): value is JsonObject =>
  value !== undefined && isJsonObject(value);

const propertyOf = ({ properties }: JsonObject, name: string): JsonValue | undefined =>
  isSchema(properties) && Object.hasOwn(properties, name) ? properties[name] : undefined;
