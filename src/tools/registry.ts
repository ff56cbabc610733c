import { type GrantTarget, grantSegment } from '../access/grants.ts';
import type { JsonObject, JsonValue } from '../core/json.ts';
import type { ToolResult } from '../core/outcome.ts';
import { ok, type Result } from '../core/result.ts';
import type { ToolDefinition, WithheldTool } from './definition.ts';
import { describeFinding, type SchemaFinding } from './findings.ts';
import { declaredName } from './names.ts';
import type { ServerPolicy, ToolPolicy } from './policy.ts';
import { type GatedSchema, gateSchema } from './schema-gate.ts';
import { compileValidator, type Validator } from './validator.ts';

/** One tool that may be called: everything a call needs to know, found by its declared name. */
export interface Binding {
  readonly name: string;
  readonly alias: string;
  /** The server's own name, byte for byte. */
  readonly tool: string;
  /** What a grant has to cover, the tool's class included. */
  readonly target: GrantTarget;
  readonly policy: ToolPolicy;
  readonly title: string | undefined;
  readonly description: string | undefined;
  /** The server's schema with a missing root `type` or `properties` added; what arguments are checked against. */
  readonly inputSchema: JsonObject;
  /** The root keywords that were added to it. */
  readonly added: readonly string[];
  readonly outputSchema: JsonObject | undefined;
  readonly annotations: JsonObject | undefined;
  /** What is wrong with these arguments; the error blames the schema. Compiles at the first call, once. */
  readonly checkArguments: (value: JsonValue) => Result<readonly SchemaFinding[], string>;
  /** Remarks on a result that does not fit the tool's output schema. Never a reason to fail the call. */
  readonly checkOutput: (result: ToolResult) => readonly string[];
}

/** A tool that is not offered, with what a grant would have to cover to see that. */
export interface WithheldBinding extends WithheldTool {
  readonly target: GrantTarget;
}

/** The tools of one server: what is offered and what is not. Made once per tool list. */
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
  /** Bindings whose name a model may have meant. Only ever told, never run. */
  readonly near: (name: string) => readonly Binding[];
}

/** Turns one server's accepted tool list into bindings. `refused` are the entries that the list reader turned away. */
export function bindServer(
  policy: ServerPolicy,
  tools: readonly ToolDefinition[],
  refused: readonly WithheldTool[],
): ServerTools {
  const bindings: Binding[] = [];
  const withheld: WithheldBinding[] = [];
  const withhold = (tool: WithheldTool): void => {
    withheld.push({
      ...tool,
      target: targetOf(policy, tool.tool, policy.toolPolicy(tool.tool).class ?? 'write'),
    });
  };
  for (const tool of refused) withhold(tool);
  for (const tool of tools) {
    // A tool that the operator left out is not withheld: it is as if the server did not have it.
    if (!policy.offers(tool.name)) continue;
    const gated = gateSchema(tool.inputSchema, 'input');
    if (gated.ok) bindings.push(bindTool(policy, tool, gated.value));
    else withhold({ tool: tool.name, reason: `its input schema cannot be used: ${gated.error}` });
  }
  return { alias: policy.alias, bindings, withheld };
}

function bindTool(policy: ServerPolicy, tool: ToolDefinition, gated: GatedSchema): Binding {
  const toolPolicy = policy.toolPolicy(tool.name);
  const validator = once(() => compileValidator(gated));
  const outputValidator = once(() => compileOutputValidator(tool.outputSchema));
  return {
    name: declaredName(policy.alias, tool.name),
    alias: policy.alias,
    tool: tool.name,
    target: targetOf(policy, tool.name, toolPolicy.class ?? hintedClass(policy, tool)),
    policy: toolPolicy,
    title: tool.title,
    description: describe(policy, toolPolicy, tool),
    inputSchema: gated.schema,
    added: Object.keys(gated.schema).filter((key) => !Object.hasOwn(tool.inputSchema as object, key)),
    outputSchema: objectSchema(tool.outputSchema),
    annotations: tool.annotations,
    checkArguments: (value) => {
      const compiled = validator();
      return compiled.ok ? ok(compiled.value(value)) : compiled;
    },
    checkOutput: (result) =>
      outputRemarks(result, tool.outputSchema === undefined ? undefined : outputValidator()),
  };
}

const targetOf = (policy: ServerPolicy, rawName: string, toolClass: 'read' | 'write'): GrantTarget => ({
  alias: policy.alias,
  tool: grantSegment(rawName, declaredName(policy.alias, rawName), policy.alias),
  class: toolClass,
});

// AZ-6: what a server says about itself counts only where the operator trusts it; everything else may write.
const hintedClass = (policy: ServerPolicy, tool: ToolDefinition): 'read' | 'write' =>
  policy.trustAnnotations && tool.annotations?.readOnlyHint === true ? 'read' : 'write';

function describe(policy: ServerPolicy, toolPolicy: ToolPolicy, tool: ToolDefinition): string | undefined {
  const own = toolPolicy.description ?? tool.description;
  const parts = [policy.descriptionPrefix, own].filter((part) => part !== undefined && part !== '');
  return parts.length === 0 ? undefined : parts.join(' ');
}

const objectSchema = (schema: unknown): JsonObject | undefined =>
  typeof schema === 'object' && schema !== null && !Array.isArray(schema)
    ? (schema as JsonObject)
    : undefined;

// An output schema that cannot be used is no reason to withhold a tool; its results are then not checked (SC-12).
function compileOutputValidator(schema: unknown): Validator | undefined {
  const gated = gateSchema(schema, 'output');
  const compiled = gated.ok ? compileValidator(gated.value) : gated;
  return compiled.ok ? compiled.value : undefined;
}

function outputRemarks(result: ToolResult, validator: Validator | undefined): readonly string[] {
  if (validator === undefined || result.isError) return [];
  if (result.structuredContent === undefined) {
    return ['the tool promises structured content with its result and sent none'];
  }
  const finding = validator(result.structuredContent)[0];
  return finding === undefined
    ? []
    : [`the structured content does not fit the tool's output schema: ${describeFinding(finding)}`];
}

function once<T>(make: () => T): () => T {
  let made: { value: T } | undefined;
  return () => {
    made ??= { value: make() };
    return made.value;
  };
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

function indexOfLikenesses(bindings: readonly Binding[]): ReadonlyMap<string, readonly Binding[]> {
  const index = new Map<string, Binding[]>();
  for (const binding of bindings) {
    for (const likeness of new Set([fold(binding.name), fold(binding.tool)])) {
      const alike = index.get(likeness);
      if (alike === undefined) index.set(likeness, [binding]);
      else alike.push(binding);
    }
  }
  return index;
}
