import { hash } from 'node:crypto';
import { isJsonObject, type JsonObject, pointerStep } from '../core/json.ts';
import { type Steps, Unprojectable } from './projection-steps.ts';

/** A key that could be one of ours is replaced too, so that no two ever meet. */
const isLikeOurs = (key: string): boolean => /_[0-9a-f]{8}$/.test(key);

/**
 * A name that every provider takes for a parameter: it begins like the server's own and ends in a hash of it. It
 * depends on nothing else, so that it stays when other parameters come and go.
 */
function declaredKey(own: string): string {
  const stem = own
    .replace(/[^A-Za-z0-9]+/g, '_')
    .slice(0, 54)
    .replace(/^_|_$/g, '');
  return `${/^[A-Za-z]/.test(stem) ? '' : 'p'}${stem}_${hash('sha256', own).slice(0, 8)}`;
}

/** Gives the properties of a root names that the provider takes. */
export function renameKeys(
  root: JsonObject,
  pattern: RegExp,
  steps: Steps,
): { schema: JsonObject; renames: ReadonlyMap<string, string> } {
  const renames = new Map<string, string>();
  const declared = new Map<string, string>();
  const properties = isJsonObject(root.properties) ? root.properties : {};
  for (const own of Object.keys(properties)) {
    if (pattern.test(own) && !isLikeOurs(own)) continue;
    const name = declaredKey(own);
    if (renames.has(name))
      throw new Unprojectable('two of its parameters would have to be declared under the same name');
    renames.set(name, own);
    declared.set(own, name);
    steps.add('rename_property', `/properties${pointerStep(own)}`, false);
  }
  if (renames.size === 0) return { schema: root, renames };
  const nameOf = (own: string): string => declared.get(own) ?? own;
  const renamed = (map: JsonObject): JsonObject =>
    Object.fromEntries(Object.entries(map).map(([own, value]) => [nameOf(own), value]));
  const schema: Record<string, JsonObject[string]> = { ...root, properties: renamed(properties) };
  if (Array.isArray(root.required)) schema.required = (root.required as readonly string[]).map(nameOf);
  if (isJsonObject(root.dependentRequired)) {
    const entries = Object.entries(root.dependentRequired).map(([own, names]) => [
      nameOf(own),
      (names as readonly string[]).map(nameOf),
    ]);
    schema.dependentRequired = Object.fromEntries(entries);
  }
  if (root.propertyNames !== undefined) {
    delete schema.propertyNames;
    steps.add('drop_keyword', '/propertyNames', true);
  }
  return { schema, renames };
}

/** Names of properties at the root, from the declared one to the server's own. */
export type Renames = ReadonlyMap<string, string>;

/** A JSON Pointer into the arguments, under the name that the model knows. */
export function declaredPath(path: string, renames: Renames): string {
  for (const [name, own] of renames) {
    const step = pointerStep(own);
    if (path === step || path.startsWith(`${step}/`)) return pointerStep(name) + path.slice(step.length);
  }
  return path;
}

/**
 * Arguments under the server's own names. A name that the caller sent as the server has it stays, also where it sent
 * the declared one beside it.
 */
export function restoreKeys(value: JsonObject, renames: Renames): JsonObject {
  if (renames.size === 0 || !Object.keys(value).some((name) => renames.has(name))) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => {
      const own = renames.get(name);
      return [own === undefined || Object.hasOwn(value, own) ? name : own, member];
    }),
  );
}
