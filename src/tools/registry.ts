import type { GrantTarget } from '../access/grants.ts';
import type { JsonObject, JsonValue } from '../core/json.ts';
import type { ToolResult } from '../core/outcome.ts';
import type { Result } from '../core/result.ts';
import type { WithheldTool } from './definition.ts';
import type { SchemaFinding } from './findings.ts';
import { once } from './once.ts';
import type { ToolPolicy } from './policy.ts';

/** One tool that may be called: everything a call needs to know, found by its declared name. */
export interface Binding {
  readonly name: string;
  readonly alias: string;
  /** The server's own name, byte for byte. */
  readonly tool: string;
  /** What a grant has to cover, the tool's class included. */
  readonly target: GrantTarget;
  readonly policy: ToolPolicy;
  /** Hash of all that a declaration of it can depend on. */
  readonly fingerprint: string;
  /** Whether it can only be called inside a run, see `ServerPolicy`. */
  readonly needsRun: boolean;
  readonly title: string | undefined;
  readonly description: string | undefined;
  /** The server's own schema, with a missing root `type` or `properties` added. */
  readonly inputSchema: JsonObject;
  /** The server's own schema, where it can be used. */
  readonly outputSchema: JsonObject | undefined;
  readonly annotations: JsonObject | undefined;
  /** In what the members above differ from what the server sent. */
  readonly adjustments: readonly Adjustment[];
  /** What is wrong with these arguments; the error blames the schema. Compiles at the first call, once. */
  readonly checkArguments: (value: JsonValue) => Result<readonly SchemaFinding[], string>;
  /** Remarks on a result that does not fit the tool's output schema. Never a reason to fail the call. */
  readonly checkOutput: (result: ToolResult) => readonly string[];
}

/** What of a tool a model may be told beside its name. */
export type ToolMember = 'title' | 'description' | 'inputSchema' | 'outputSchema';

/** How a declaration came to differ. The first five are taken when a tool is bound, the others for a provider. */
export type AdjustmentStep =
  | 'add_keyword'
  | 'cut_description'
  | 'cut_title'
  | 'drop_characters'
  | 'drop_output_schema'
  | 'add_items'
  | 'drop_keyword'
  | 'inline_ref'
  | 'merge_all_of'
  | 'merge_root'
  | 'move_definitions'
  | 'prune_definitions'
  | 'rename_property'
  | 'rewrite_boolean_schema'
  | 'rewrite_const'
  | 'rewrite_dependencies'
  | 'rewrite_enum'
  | 'rewrite_one_of'
  | 'rewrite_tuple'
  | 'rewrite_type_list';

/** One thing that is declared otherwise than the server sent it. */
export interface Adjustment {
  readonly member: ToolMember;
  readonly step: AdjustmentStep;
  /**
   * A JSON Pointer: into the input schema for `add_keyword` and the steps of the projection, else to the member of the
   * tool. Empty where it stands for places in the input schema that are too many, or too long, to be told.
   */
  readonly path: string;
  /** Whether the declaration says less than the server did. */
  readonly loss: boolean;
}

/** A tool that is not offered, with what a grant would have to cover to see that. */
export interface WithheldBinding extends WithheldTool {
  readonly target: GrantTarget;
}

/** The tools of one server: what is offered and what is not. */
export interface ServerTools {
  readonly alias: string;
  readonly bindings: readonly Binding[];
  readonly withheld: readonly WithheldBinding[];
}

/** An immutable set of bindings. A change makes a new one; a call keeps the one it started with (AZ-9). */
export interface Registry {
  /** Changes with every new registry, so that what was derived from an older one can be told apart. */
  readonly generation: number;
  /** Sorted by declared name in code-unit order, so that declarations are byte-stable. */
  readonly bindings: readonly Binding[];
  /** Withheld tools by alias; what clashes between servers included. */
  readonly withheld: ReadonlyMap<string, readonly WithheldBinding[]>;
  /** Whole declared names only: never split, never guessed. */
  readonly find: (name: string) => Binding | undefined;
  /** Some bindings whose name a model may have meant. Only ever told, never run. */
  readonly near: (name: string) => readonly Binding[];
}

let generations = 0;

/** Joins the tools of all servers. Two bindings with one name are both withheld (MT-5). */
export function buildRegistry(servers: Iterable<ServerTools>): Registry {
  const byName = new Map<string, Binding>();
  const clashing = new Map<string, Binding[]>();
  const withheld = new Map<string, WithheldBinding[]>();
  for (const server of servers) {
    withheld.set(server.alias, [...server.withheld]);
    for (const binding of server.bindings) {
      const other = byName.get(binding.name);
      if (other === undefined) byName.set(binding.name, binding);
      else clashing.set(binding.name, [...(clashing.get(binding.name) ?? [other]), binding]);
    }
  }
  for (const [name, bindings] of clashing) {
    byName.delete(name);
    const owners = bindings.map(({ alias, tool }) => `${alias}:${tool}`).join(', ');
    for (const { alias, tool, target } of bindings) {
      withheld.get(alias)?.push({
        tool,
        target,
        reason: `its declared name ${name} would stand for several tools: ${owners}`,
      });
    }
  }
  generations += 1;
  const bindings = [...byName.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
  const index = once(() => indexOfLikenesses(bindings));
  return {
    generation: generations,
    bindings,
    withheld,
    find: (name) => byName.get(name),
    near: (name) => likenessesOf(name).flatMap((likeness) => index().get(likeness) ?? []),
  };
}

const fold = (name: string): string => name.toLowerCase().replace(/[^a-z0-9]+/g, '');

/**
 * The spellings under which a missed name is looked up for a hint: other case or separators, a prefix that some models
 * put in front (`functions.x`, `default_api:x`), or a tool name without its alias.
 */
const likenessesOf = (name: string): string[] =>
  [
    ...new Set([fold(name), fold(name.split(/[.:/]/).at(-1) ?? ''), fold(name.split('__').at(-1) ?? '')]),
  ].filter(Boolean);

/** Bindings that are kept for one likeness. A server can make all its names alike, and every hint would go over them. */
const alikeMax = 20;

function indexOfLikenesses(bindings: readonly Binding[]): ReadonlyMap<string, readonly Binding[]> {
  const index = new Map<string, Binding[]>();
  for (const binding of bindings) {
    for (const likeness of new Set([fold(binding.name), fold(binding.tool)])) {
      const alike = index.get(likeness);
      if (alike === undefined) index.set(likeness, [binding]);
      else if (alike.length < alikeMax) alike.push(binding);
    }
  }
  return index;
}
