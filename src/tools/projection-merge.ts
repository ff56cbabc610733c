import { canonicalJson, isJsonObject, type JsonObject, type JsonValue } from '../core/json.ts';
import { Unprojectable } from './projection-steps.ts';

/** Members that one schema may take to merge, read or copied: about 20 ms. A hostile one would take hours. */
const effortMax = 40_000;
/** Entries of a list that take as long as one member. */
const entriesPerEffort = 4;
/** Characters of a value, written to be compared, that take as long. */
const charsPerEffort = 24;

/** Keywords that say something about a value and judge nothing. */
export const annotations: ReadonlySet<string> = new Set([
  'title',
  'description',
  'default',
  'examples',
  'deprecated',
  'readOnly',
  'writeOnly',
]);
const lowerBounds: ReadonlySet<string> = new Set([
  'minimum',
  'exclusiveMinimum',
  'minLength',
  'minItems',
  'minProperties',
]);
const upperBounds: ReadonlySet<string> = new Set([
  'maximum',
  'exclusiveMaximum',
  'maxLength',
  'maxItems',
  'maxProperties',
]);
const nested: ReadonlySet<string> = new Set(['items', 'additionalProperties', 'propertyNames']);

/** What a schema says whose `$ref` stands alone; the schema itself where it has none. */
export type Follow = (schema: JsonObject) => JsonObject;

/** Writes several schemas as one, in keywords that need no combinator where that is possible. */
export class Merger {
  readonly #follow: Follow;
  readonly #takesAllOf: boolean;
  #effortLeft = effortMax;
  /** Whether all that was merged since it was last set says what it said before. */
  isExact = true;

  constructor(follow: Follow, takesAllOf: boolean) {
    this.#follow = follow;
    this.#takesAllOf = takesAllOf;
  }

  /** A schema for what fits both. Of remarks, those of the first stay. */
  both(first: JsonValue, second: JsonValue): JsonValue {
    if (first === second || second === true) return first;
    if (first === true) return second;
    if (!isJsonObject(first) || !isJsonObject(second)) return false;
    if (!this.#takesAllOf) return this.bothObjects(first, second);
    // Behind a reference there may be one that leads back, so none is followed without need.
    if (first.$ref !== undefined || second.$ref !== undefined) return { allOf: [first, second] };
    const wasExact = this.isExact;
    this.isExact = true;
    const merged = this.bothObjects(first, second);
    const isMerged = this.isExact;
    this.isExact = wasExact;
    return isMerged ? merged : { allOf: [first, second] };
  }

  /** The same as one list of keywords. */
  bothObjects(first: JsonObject, second: JsonObject): JsonObject {
    const left = this.#follow(first);
    const right = this.#follow(second);
    this.spendOn(left, right);
    const merged: Record<string, JsonValue> = { ...left };
    for (const [keyword, value] of Object.entries(right)) {
      const own = Object.hasOwn(left, keyword) ? left[keyword] : undefined;
      merged[keyword] = own === undefined ? value : this.#keyword(keyword, own, value);
    }
    if (isClosedTo(left, right) || isClosedTo(right, left) || isTuple(left, right)) this.isExact = false;
    if (seesNeighbours(left) || seesNeighbours(right)) this.isExact = false;
    return merged;
  }

  /** A schema for what fits any of them. */
  either(schemas: readonly JsonValue[]): JsonValue {
    const different = this.#different(schemas);
    const [only] = different;
    if (different.length === 1 && only !== undefined) return only;
    return this.#asEnum(different) ?? { anyOf: different };
  }

  /** Pays for the copies of objects: what is merged into one of many parts is copied as often. */
  spendOn(...objects: readonly JsonObject[]): void {
    for (const object of objects) this.spend(Object.keys(object).length);
  }

  /** Pays for going over lists. */
  spendOnLists(...lists: readonly (readonly JsonValue[])[]): void {
    for (const list of lists) this.spend(list.length / entriesPerEffort);
  }

  spend(effort = 1): void {
    this.#effortLeft -= effort;
    if (this.#effortLeft < 0) throw new Unprojectable('its input schema has too much to merge into one');
  }

  #keyword(keyword: string, first: JsonValue, second: JsonValue): JsonValue {
    if (first === second || annotations.has(keyword)) return first;
    if (nested.has(keyword)) return this.both(first, second);
    if (keyword === 'properties' && isJsonObject(first) && isJsonObject(second))
      return this.#properties(first, second);
    if (keyword === 'required') {
      this.spendOnLists(listOf(first), listOf(second));
      return [...new Set([...listOf(first), ...listOf(second)])];
    }
    if (keyword === 'type') return this.#types(listOf(first), listOf(second)) ?? this.#firstOf(first);
    if (keyword === 'enum') {
      this.spendOnLists(listOf(first), listOf(second));
      const known = new Set(listOf(second).map((value) => this.#text(value)));
      const common = listOf(first).filter((value) => known.has(this.#text(value)));
      return common.length > 0 ? common : this.#firstOf(first);
    }
    if (keyword === 'uniqueItems') return first === true || second === true;
    if (typeof first === 'number' && typeof second === 'number') {
      if (lowerBounds.has(keyword)) return Math.max(first, second);
      if (upperBounds.has(keyword)) return Math.min(first, second);
    }
    return this.#text(first) === this.#text(second) ? first : this.#firstOf(first);
  }

  /** One of two that cannot be said together. */
  #firstOf(first: JsonValue): JsonValue {
    this.isExact = false;
    return first;
  }

  #properties(first: JsonObject, second: JsonObject): JsonObject {
    this.spendOn(first, second);
    const merged: Record<string, JsonValue> = { ...first };
    for (const [name, schema] of Object.entries(second)) {
      const own = Object.hasOwn(first, name) ? first[name] : undefined;
      merged[name] = own === undefined ? schema : this.both(own, schema);
    }
    return merged;
  }

  #types(first: readonly JsonValue[], second: readonly JsonValue[]): JsonValue | undefined {
    const common = [
      ...first.filter((type) => second.includes(type) || (type === 'integer' && second.includes('number'))),
      ...second.filter((type) => type === 'integer' && !first.includes(type) && first.includes('number')),
    ];
    return common.length > 1 ? common : common[0];
  }

  #different(schemas: readonly JsonValue[]): JsonValue[] {
    if (new Set(schemas).size === 1) return schemas.slice(0, 1);
    const byText = new Map<string, JsonValue>();
    for (const schema of schemas) byText.set(this.#text(schema), schema);
    return [...byText.values()];
  }

  /** Alternatives that only list values, as one list; a discriminator is made of such. */
  #asEnum(schemas: readonly JsonValue[]): JsonObject | undefined {
    const values = new Map<string, JsonValue>();
    let type: JsonValue | undefined;
    for (const [index, schema] of schemas.entries()) {
      if (!isJsonObject(schema)) return undefined;
      const { const: constant, enum: list, type: own, ...rest } = schema;
      const all = constant === undefined ? listOf(list ?? []) : [constant];
      if (all.length === 0 || Object.keys(rest).length > 0) return undefined;
      if (index > 0 && own !== type) return undefined;
      type = own;
      for (const value of all) values.set(this.#text(value), value);
    }
    return { ...(type === undefined ? {} : { type }), enum: [...values.values()] };
  }

  /** A text to compare values by, paid by its length. */
  #text(value: JsonValue): string {
    if (typeof value === 'string') return `"${value}`;
    const text = canonicalJson(value);
    this.spend(text.length / charsPerEffort);
    return text;
  }
}

/** A value as a list; a list as it is. */
export const listOf = (value: JsonValue): readonly JsonValue[] =>
  Array.isArray(value) ? (value as readonly JsonValue[]) : [value];

const namesOf = (schema: JsonObject): readonly string[] =>
  isJsonObject(schema.properties) ? Object.keys(schema.properties) : [];

/** Whether one schema says of all properties but its own what the other has properties for. */
function isClosedTo(closed: JsonObject, other: JsonObject): boolean {
  if ((closed.additionalProperties ?? true) === true) return false;
  const own = isJsonObject(closed.properties ?? null) ? (closed.properties as JsonObject) : {};
  return namesOf(other).some((name) => !Object.hasOwn(own, name)) || other.patternProperties !== undefined;
}

/** Whether a schema judges by what the keywords beside it have judged. */
const seesNeighbours = ({ unevaluatedProperties, unevaluatedItems }: JsonObject): boolean =>
  (unevaluatedProperties ?? true) !== true || (unevaluatedItems ?? true) !== true;

const isTuple = (one: JsonObject, other: JsonObject): boolean =>
  (one.prefixItems !== undefined || other.prefixItems !== undefined) &&
  (one.items ?? one.prefixItems) !== undefined &&
  (other.items ?? other.prefixItems) !== undefined;
