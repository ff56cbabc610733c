import { isJsonObject, type JsonObject, type JsonValue } from '../core/json.ts';
import { fail, ok, type Result } from '../core/result.ts';
import { type Renames, renameKeys } from './projection-keys.ts';
import { Rewriter } from './projection-rewrite.ts';
import { plainRoot } from './projection-root.ts';
import { Unprojectable } from './projection-steps.ts';
import type { Adjustment, Binding } from './registry.ts';
import { schemaLimits } from './schema-gate.ts';

export { declaredPath, type Renames, restoreKeys } from './projection-keys.ts';

/**
 * What a provider takes of JSON Schema in a declaration, beyond what none takes: combinators at the root. The server's
 * own schema decides about arguments all the same.
 */
export interface SchemaRules {
  /** Whether an array has to say what its items are. */
  readonly needsItems: boolean;
  /** Whether a schema may be just `true` or `false`, besides `additionalProperties`. */
  readonly booleans: boolean;
  /**
   * Local `$ref`: kept as it is, also where it leads back to itself; only without other keywords beside it; or replaced
   * by what it means. In the latter two nothing may refer to itself.
   */
  readonly refs: 'kept' | 'alone' | 'inlined';
  /** What the names of the parameters look like, which are the properties at the root; any where undefined. */
  readonly keys?: RegExp;
  /** Keywords that the provider knows; others are rewritten or left out. Any where undefined. */
  readonly keywords?: ReadonlySet<string>;
  /** Types of the values that an `enum` may hold, as `typeof` names them; any where undefined. */
  readonly enumValues?: ReadonlySet<string>;
}

/** A tool's schema as a provider takes it, and in what it differs. */
export interface Projection {
  readonly schema: JsonObject;
  readonly steps: readonly Adjustment[];
  /** Characters of what can be much longer than the server's own schema: of the steps, and of a schema that is. */
  readonly grownChars: number;
  /** What the schema cannot say any more, for the description. */
  readonly note: string | undefined;
  /** The parameters that are declared otherwise than their server calls them: declared name to own. */
  readonly renames: Renames;
}

/** What a projection may be at most; with every `$ref` written out, a small schema can become a huge one. */
const projectionLimits = { charsMax: 2 * schemaLimits.charsMax, depthMax: 96 } as const;

const projections = new WeakMap<Binding, Map<SchemaRules, Result<Projection, string>>>();

/** The projection of a tool's input schema, made once; the error is the reason why the provider cannot be told of it. */
export function projectionOf(binding: Binding, rules: SchemaRules): Result<Projection, string> {
  const made = projections.get(binding) ?? new Map<SchemaRules, Result<Projection, string>>();
  let projection = made.get(rules);
  if (projection === undefined) {
    projection = projectSchema(binding.inputSchema, rules);
    made.set(rules, projection);
    projections.set(binding, made);
  }
  return projection;
}

/**
 * Rewrites a schema that has passed the gate so that a provider takes it: first without loss, then with less said, else
 * not at all. The given schema stays as it is; parts of it are shared.
 */
export function projectSchema(schema: JsonObject, rules: SchemaRules): Result<Projection, string> {
  try {
    return ok(project(schema, rules));
  } catch (error) {
    if (error instanceof Unprojectable) return fail(error.reason);
    throw error;
  }
}

function project(source: JsonObject, rules: SchemaRules): Projection {
  const rewriter = new Rewriter(source, rules);
  const { steps } = rewriter;
  const plain = plainRoot(rewriter.object(source, ''), rewriter);
  const { schema: root, renames } =
    rules.keys === undefined
      ? { schema: plain.schema, renames: new Map<string, string>() }
      : renameKeys(plain.schema, rules.keys, steps);
  const declared = new Map([...renames].map(([name, own]) => [own, name]));
  const schema = withDefinitions(root, rewriter);
  for (const keyword of ['$defs', 'definitions']) {
    const all = Object.values(source[keyword] ?? {});
    if (source[keyword] !== undefined && (all.length === 0 || !all.every((own) => rewriter.isUsed(own))))
      steps.add('prune_definitions', `/${keyword}`, false);
  }
  // What is only rewritten in its place stays about as large as it was.
  const schemaChars = rewriter.hasDefinitions || plain.isMerged ? checkSize(schema) : 0;
  const grownChars = schemaChars + steps.chars;
  const note = plain.note((own) => declared.get(own) ?? own);
  return { schema, steps: steps.list(), grownChars, note, renames };
}

/** Adds the definitions that anything refers to. */
function withDefinitions(root: JsonObject, rewriter: Rewriter): JsonObject {
  const definitions: Record<string, JsonValue> = {};
  const open: JsonValue[] = rewriter.hasDefinitions ? [root] : [];
  // What was written out in many places is one and the same object.
  const seen = new Set<JsonValue>();
  for (let value = open.pop(); value !== undefined; value = open.pop()) {
    if (typeof value !== 'object' || value === null || seen.has(value)) continue;
    seen.add(value);
    const reference = isJsonObject(value) ? value.$ref : undefined;
    const name = typeof reference === 'string' ? reference.slice('#/$defs/'.length) : '';
    const definition = Object.hasOwn(definitions, name) ? undefined : rewriter.definition(name);
    if (definition?.schema !== undefined) {
      definitions[name] = definition.schema;
      open.push(definition.schema);
      if (definition.path !== `/$defs/${name}`)
        rewriter.steps.add('move_definitions', definition.path, false);
    }
    for (const part of Object.values(value)) open.push(part as JsonValue);
  }
  return Object.keys(definitions).length === 0 ? root : { ...root, $defs: definitions };
}

/** @returns about as many characters as it has */
function checkSize(schema: JsonObject): number {
  const { charsMax, depthMax } = projectionLimits;
  let chars = 0;
  const measure = (value: JsonValue, depth: number): void => {
    chars += typeof value === 'string' ? value.length + 2 : 2;
    if (chars > charsMax)
      throw new Unprojectable(
        `its input schema, written as the API wants it, has over ${charsMax} characters`,
      );
    if (typeof value !== 'object' || value === null) return;
    if (depth > depthMax)
      throw new Unprojectable(
        `its input schema, written as the API wants it, nests deeper than ${depthMax} levels`,
      );
    if (Array.isArray(value)) for (const item of value as readonly JsonValue[]) measure(item, depth + 1);
    else
      for (const [name, member] of Object.entries(value)) {
        chars += name.length;
        measure(member as JsonValue, depth + 1);
      }
  };
  measure(schema, 0);
  return chars;
}
