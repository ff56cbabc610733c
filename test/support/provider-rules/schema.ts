import { Ajv2020 } from 'ajv/dist/2020.js';

/** A JSON object of which nothing is known yet. */
export type Members = Readonly<Record<string, unknown>>;

export const isMembers = (value: unknown): value is Members =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

export const isText = (value: unknown): value is string => typeof value === 'string';

/** A schema inside another one: where it stands, and how many objects and arrays are around its values. */
export interface Place {
  readonly schema: unknown;
  readonly at: string;
  readonly level: number;
}

const holdsOne = ['items', 'additionalProperties', 'propertyNames', 'contains', 'unevaluatedItems'];
const holdsOneHere = ['not', 'if', 'then', 'else', 'unevaluatedProperties', 'contentSchema'];
const holdsList = ['allOf', 'anyOf', 'oneOf'];
const holdsMap = ['properties', 'patternProperties'];
const holdsMapHere = ['$defs', 'definitions', 'dependentSchemas'];
const step = (name: string): string => `/${name.replaceAll('~', '~0').replaceAll('/', '~1')}`;

/** The schemas that stand right in a schema. */
function* childrenOf(schema: Members): Generator<{ place: string; child: unknown; steps: 0 | 1 }> {
  for (const key of [...holdsOne, ...holdsOneHere]) {
    const child = schema[key];
    if (child !== undefined && !Array.isArray(child))
      yield { place: `/${key}`, child, steps: holdsOne.includes(key) ? 1 : 0 };
  }
  // A tuple of an older draft stands in `items`.
  for (const key of [...holdsList, 'prefixItems', 'items']) {
    const list: readonly unknown[] = Array.isArray(schema[key]) ? schema[key] : [];
    for (const [index, child] of list.entries())
      yield { place: `/${key}/${index}`, child, steps: holdsList.includes(key) ? 0 : 1 };
  }
  for (const key of [...holdsMap, ...holdsMapHere]) {
    const map = schema[key];
    for (const [name, child] of Object.entries(isMembers(map) ? map : {}))
      yield { place: `/${key}${step(name)}`, child, steps: holdsMap.includes(key) ? 1 : 0 };
  }
}

/** A schema and all that stand in it, as they are written: no reference is followed. */
export function* placesOf(schema: unknown, at = '', level = 1): Generator<Place> {
  yield { schema, at, level };
  if (!isMembers(schema)) return;
  for (const { place, child, steps } of childrenOf(schema)) yield* placesOf(child, at + place, level + steps);
}

/** Whether a schema allows a type by saying so. */
export const saysType = (schema: Members, type: string): boolean =>
  Array.isArray(schema.type) ? schema.type.includes(type) : schema.type === type;

/** What a reference inside the schema leads to. */
function target(root: Members, reference: string): unknown {
  let found: unknown = root;
  for (const token of decodeURIComponent(reference.slice(1)).split('/').slice(1)) {
    const name = token.replaceAll('~1', '/').replaceAll('~0', '~');
    if (typeof found !== 'object' || found === null || !Object.hasOwn(found, name)) return undefined;
    found = (found as Members)[name];
  }
  return found;
}

/** References that lead nowhere or out of the schema. */
export function* brokenReferences(root: Members): Generator<string> {
  for (const { schema, at } of placesOf(root)) {
    if (!isMembers(schema) || schema.$ref === undefined) continue;
    const reference = schema.$ref;
    if (!isText(reference) || !/^#(?:\/|$)/.test(reference))
      yield `${at}: $ref ${JSON.stringify(reference)} is no pointer into this schema`;
    else if (target(root, reference) === undefined) yield `${at}: $ref ${reference} leads nowhere`;
  }
}

/** Whether following references comes back to a schema that is still open. */
export function refersToItself(root: Members): boolean {
  const state = new Map<unknown, 'open' | 'done'>();
  const visit = (schema: unknown): boolean => {
    if (!isMembers(schema)) return false;
    const known = state.get(schema);
    if (known !== undefined) return known === 'open';
    state.set(schema, 'open');
    const found =
      [...childrenOf(schema)].some(
        ({ place, child }) => !/^\/(?:\$defs|definitions)\//.test(place) && visit(child),
      ) ||
      (isText(schema.$ref) && visit(target(root, schema.$ref)));
    state.set(schema, 'done');
    return found;
  };
  return visit(root);
}

const ajv = new Ajv2020({ strict: false, validateFormats: false, logger: false });

/** What makes a schema none of draft 2020-12, whatever it says it is, or one that leads out of itself. */
export function* invalidParts(schema: Members): Generator<string> {
  const { $schema: _dialect, ...own } = schema;
  if (!ajv.validateSchema(own)) {
    yield `is not valid JSON Schema 2020-12: ${ajv.errorsText(ajv.errors, { dataVar: '' })}`;
  }
  yield* brokenReferences(schema);
}
