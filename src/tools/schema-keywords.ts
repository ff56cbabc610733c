import { isJsonObject, type JsonObject, type JsonValue } from '../core/json.ts';

export type Dialect = '2020-12' | '2019-09' | 'draft-07';

/** The dialects that are supported, by `$schema` without a final `#`; 2020-12 where a schema names none (SC-3). */
export const dialects: ReadonlyMap<unknown, Dialect> = new Map([
  [undefined, '2020-12'],
  ['https://json-schema.org/draft/2020-12/schema', '2020-12'],
  ['https://json-schema.org/draft/2019-09/schema', '2019-09'],
  ['http://json-schema.org/draft-07/schema', 'draft-07'],
]);

/** The dialect that a schema names, undefined where it is none of those. */
export const dialectOf = ({ $schema }: JsonObject): Dialect | undefined =>
  dialects.get(typeof $schema === 'string' ? $schema.replace(/#$/, '') : $schema);

/** `here`: judges the same value as the schema around it; `below`: a part of it; `apart`: only where a `$ref` says so. */
export type Reach = 'here' | 'below' | 'apart';

/** Where subschemas stand: `one` schema, a `list`, a `map`, or the two mixed forms of old drafts. */
export type Form = 'one' | 'list' | 'map' | 'one-or-list' | 'map-with-names';

const subschemaKeywords: ReadonlyMap<string, readonly [Form, Reach]> = new Map([
  ['allOf', ['list', 'here']],
  ['anyOf', ['list', 'here']],
  ['oneOf', ['list', 'here']],
  ['not', ['one', 'here']],
  ['if', ['one', 'here']],
  ['then', ['one', 'here']],
  ['else', ['one', 'here']],
  ['dependencies', ['map-with-names', 'here']],
  ['properties', ['map', 'below']],
  ['patternProperties', ['map', 'below']],
  ['additionalProperties', ['one', 'below']],
  ['propertyNames', ['one', 'below']],
  ['contains', ['one', 'below']],
  ['$defs', ['map', 'apart']],
  ['definitions', ['map', 'apart']],
]);

/** The keywords that hold subschemas. */
export const subschemaKeywordsOf: Readonly<Record<Dialect, typeof subschemaKeywords>> = {
  'draft-07': new Map([
    ...subschemaKeywords,
    ['items', ['one-or-list', 'below']],
    ['additionalItems', ['one', 'below']],
  ]),
  '2019-09': new Map([
    ...subschemaKeywords,
    ['items', ['one-or-list', 'below']],
    ['additionalItems', ['one', 'below']],
    ['dependentSchemas', ['map', 'here']],
    ['unevaluatedItems', ['one', 'below']],
    ['unevaluatedProperties', ['one', 'below']],
    ['contentSchema', ['one', 'apart']],
  ]),
  '2020-12': new Map([
    ...subschemaKeywords,
    ['items', ['one', 'below']],
    ['prefixItems', ['list', 'below']],
    ['dependentSchemas', ['map', 'here']],
    ['unevaluatedItems', ['one', 'below']],
    ['unevaluatedProperties', ['one', 'below']],
    ['contentSchema', ['one', 'apart']],
  ]),
};

/** A check of a keyword's value and what the value has to be. */
type Shape = readonly [expected: string, check: (value: JsonValue) => boolean];

/** Whether a value is a list of different names. */
export const isNames = (value: JsonValue): boolean =>
  Array.isArray(value) &&
  value.every((name) => typeof name === 'string') &&
  new Set(value).size === value.length;
const typeNames: readonly unknown[] = ['array', 'boolean', 'integer', 'null', 'number', 'object', 'string'];

const string: Shape = ['a string', (value) => typeof value === 'string'];
const number: Shape = ['a number', (value) => typeof value === 'number'];
const count: Shape = [
  'a whole number from 0 up',
  (value) => Number.isInteger(value) && (value as number) >= 0,
];
const names: Shape = ['a list of different names', isNames];

const shapes: ReadonlyMap<string, Shape> = new Map<string, Shape>([
  [
    'type',
    [
      'a JSON type or a list of different ones',
      (value) =>
        typeNames.includes(value) ||
        (Array.isArray(value) &&
          value.length > 0 &&
          isNames(value) &&
          value.every((name) => typeNames.includes(name))),
    ],
  ],
  ['enum', ['a list of at least one value', (value) => Array.isArray(value) && value.length > 0]],
  ['required', names],
  ['minimum', number],
  ['maximum', number],
  ['exclusiveMinimum', number],
  ['exclusiveMaximum', number],
  ['multipleOf', ['a number above 0', (value) => typeof value === 'number' && value > 0]],
  ['minLength', count],
  ['maxLength', count],
  ['minItems', count],
  ['maxItems', count],
  ['minProperties', count],
  ['maxProperties', count],
  ['uniqueItems', ['true or false', (value) => typeof value === 'boolean']],
  ['pattern', string],
  ['format', string],
  ['$ref', string],
  ['$id', string],
  ['$comment', string],
]);

/** What the values of the other keywords that judge anything have to be, as the meta-schemas say. */
export const shapesOf: Readonly<Record<Dialect, typeof shapes>> = (() => {
  const since2019: typeof shapes = new Map([
    ...shapes,
    ['minContains', count],
    ['maxContains', count],
    [
      '$anchor',
      ['a plain name', (value) => typeof value === 'string' && /^[A-Za-z_][-A-Za-z0-9._]*$/.test(value)],
    ],
    [
      'dependentRequired',
      ['a map to lists of names', (value) => isJsonObject(value) && Object.values(value).every(isNames)],
    ],
  ]);
  return { 'draft-07': shapes, '2019-09': since2019, '2020-12': since2019 };
})();

/** Keywords that change how ajv works, or whose support in ajv accepts what the specification refuses (SC-5, SC-11). */
export const refusedKeywords = [
  '$async',
  '$data',
  '$dynamicRef',
  '$dynamicAnchor',
  '$recursiveRef',
  '$recursiveAnchor',
];
