import { hash } from 'node:crypto';
import { type GrantTarget, grantSegment } from '../access/grants.ts';
import type { JsonObject } from '../core/json.ts';
import { limits } from '../core/limits.ts';
import type { ToolResult } from '../core/outcome.ts';
import { ok, type Result } from '../core/result.ts';
import { truncate, visible } from '../core/text.ts';
import type { ToolDefinition, WithheldTool } from './definition.ts';
import { describeFinding } from './findings.ts';
import { declaredName } from './names.ts';
import { once } from './once.ts';
import { PatternBook } from './pattern-book.ts';
import type { ServerPolicy } from './policy.ts';
import type { Adjustment, Binding, ServerTools, ToolMember, WithheldBinding } from './registry.ts';
import { type GatedSchema, gateInSteps } from './schema-gate.ts';
import { compileValidator, type Validator } from './validator.ts';
import { sizeWithin } from './value-size.ts';

/** Values of structured content that is still checked; what is larger is not worth the time of all other calls. */
const checkedOutputValuesMax = 100_000;

/** The tools of one server, and what the next list of the same server can take over. */
export interface BoundServer extends ServerTools {
  readonly known: ReadonlyMap<string, KnownTool>;
  readonly patterns: PatternBook;
}

interface KnownTool {
  /** Hash of the definition that was bound. */
  readonly fingerprint: string;
  readonly binding: Binding;
  readonly patterns: readonly string[];
}

/**
 * Turns one server's accepted tool list into bindings. `refused` are the entries that the list reader turned away.
 * It pauses between tools and within them, so that whoever runs it can let others go first (SC-9); tools that are as
 * they were in the list before keep their bindings, and with them their compiled validators (O29).
 */
export function* bindServer(
  policy: ServerPolicy,
  tools: readonly ToolDefinition[],
  refused: readonly WithheldTool[],
  earlier?: BoundServer,
): Generator<void, BoundServer> {
  const known = new Map<string, KnownTool>();
  const withheld: WithheldBinding[] = [];
  const patterns = new PatternBook(earlier?.patterns);
  const withhold = (tool: WithheldTool): void => {
    withheld.push({
      ...tool,
      target: targetOf(policy, tool.tool, policy.toolPolicy(tool.tool).class ?? 'write'),
    });
  };
  for (const tool of refused) {
    withhold(tool);
    yield;
  }
  for (const tool of tools) {
    // A tool that the operator left out is not withheld: it is as if the server did not have it.
    if (!policy.offers(tool.name)) continue;
    const bound = keepTool(tool, patterns, earlier) ?? (yield* bindTool(policy, tool, patterns));
    if (bound.ok) known.set(tool.name, bound.value);
    else withhold({ tool: tool.name, reason: `its input schema cannot be used: ${bound.error}` });
    yield;
  }
  const bindings = [...known.values()].map(({ binding }) => binding);
  return { alias: policy.alias, bindings, withheld, known, patterns };
}

/** What the list before made of a tool, if its definition is the same and its patterns still fit the bound. */
function keepTool(
  tool: ToolDefinition,
  patterns: PatternBook,
  earlier: BoundServer | undefined,
): Result<KnownTool, never> | undefined {
  const known = earlier?.known.get(tool.name);
  return known?.fingerprint === fingerprintOf(tool) &&
    known.patterns.every((source) => patterns.check(source).ok)
    ? ok(known)
    : undefined;
}

const fingerprintOf = (tool: ToolDefinition): string => hash('sha256', JSON.stringify(tool));

function* bindTool(
  policy: ServerPolicy,
  tool: ToolDefinition,
  patterns: PatternBook,
): Generator<void, Result<KnownTool, string>> {
  const input = yield* gateInSteps(tool.inputSchema, 'input', patterns);
  if (!input.ok) return input;
  const output =
    tool.outputSchema === undefined ? undefined : yield* gateInSteps(tool.outputSchema, 'output', patterns);
  const gatedOutput = output?.ok ? output.value : undefined;
  return ok({
    fingerprint: fingerprintOf(tool),
    binding: bindingOf(policy, tool, input.value, gatedOutput),
    patterns: [...input.value.patterns.keys(), ...(gatedOutput?.patterns.keys() ?? [])],
  });
}

function bindingOf(
  policy: ServerPolicy,
  tool: ToolDefinition,
  input: GatedSchema,
  output: GatedSchema | undefined,
): Binding {
  const toolPolicy = policy.toolPolicy(tool.name);
  const adjustments: Adjustment[] = [];
  const adjust = (member: ToolMember, step: Adjustment['step'], path = `/${member}`): void => {
    adjustments.push({ member, step, path, loss: step !== 'add_keyword' });
  };
  const title = shownText('title', tool.title, adjust);
  const description = toolPolicy.description ?? shownText('description', tool.description, adjust);
  // The gate has found objects.
  const schema = tool.inputSchema as JsonObject;
  const added = Object.entries(input.schema).filter(([key]) => !Object.hasOwn(schema, key));
  for (const [key] of added) adjust('inputSchema', 'add_keyword', `/${key}`);
  const outputSchema = output === undefined ? undefined : (tool.outputSchema as JsonObject);
  if (outputSchema === undefined && tool.outputSchema !== undefined)
    adjust('outputSchema', 'drop_output_schema');
  const described = withPrefix(policy.descriptionPrefix, description);
  const validator = once(() => compileValidator(input));
  const outputValidator = once(() => (output === undefined ? undefined : compileOutput(output)));
  return {
    name: declaredName(policy.alias, tool.name),
    alias: policy.alias,
    tool: tool.name,
    fingerprint: hash('sha256', JSON.stringify([fingerprintOf(tool), title, described]), 'base64url'),
    needsRun: policy.needsRun,
    target: targetOf(policy, tool.name, toolPolicy.class ?? hintedClass(policy, tool)),
    policy: { ...toolPolicy, idempotent: toolPolicy.idempotent ?? isHintedIdempotent(policy, tool) },
    title,
    description: described,
    inputSchema: added.length === 0 ? schema : { ...schema, ...Object.fromEntries(added) },
    outputSchema,
    annotations: tool.annotations,
    adjustments,
    checkArguments: (value) => {
      const compiled = validator();
      return compiled.ok ? ok(compiled.value(value)) : compiled;
    },
    checkOutput: (result) => outputRemarks(result, outputValidator()),
  };
}

/** A text of the server, bounded and freed of what a reader would not see (MT-4). */
function shownText(
  member: 'title' | 'description',
  text: string | undefined,
  adjust: (member: ToolMember, step: Adjustment['step']) => void,
): string | undefined {
  if (text === undefined) return undefined;
  const cut = truncate(text, limits.toolTextCharsMax);
  const shown = visible(cut);
  if (cut !== text) adjust(member, `cut_${member}`);
  if (shown !== cut) adjust(member, 'drop_characters');
  return shown;
}

const targetOf = (policy: ServerPolicy, rawName: string, toolClass: 'read' | 'write'): GrantTarget => ({
  alias: policy.alias,
  tool: grantSegment(rawName, declaredName(policy.alias, rawName), policy.alias),
  class: toolClass,
});

// AZ-6: what a server says about itself counts only where the operator trusts it; everything else may write.
const hintedClass = (policy: ServerPolicy, tool: ToolDefinition): 'read' | 'write' =>
  policy.trustAnnotations && tool.annotations?.readOnlyHint === true ? 'read' : 'write';

const isHintedIdempotent = (policy: ServerPolicy, tool: ToolDefinition): boolean =>
  policy.trustAnnotations && tool.annotations?.idempotentHint === true;

function withPrefix(prefix: string | undefined, own: string | undefined): string | undefined {
  const parts = [prefix, own].filter((part) => part !== undefined && part !== '');
  return parts.length === 0 ? undefined : parts.join(' ');
}

// SC-12: an output schema that cannot be used is no reason to withhold a tool; its results are then not checked.
function compileOutput(gated: GatedSchema): Validator | undefined {
  const compiled = compileValidator(gated);
  return compiled.ok ? compiled.value : undefined;
}

function outputRemarks(result: ToolResult, validator: Validator | undefined): readonly string[] {
  if (validator === undefined || result.isError) return [];
  if (result.structuredContent === undefined) {
    return ['the tool promises structured content with its result and sent none'];
  }
  if (sizeWithin(result.structuredContent, { values: checkedOutputValuesMax, chars: Infinity }) === undefined)
    return [];
  const finding = validator(result.structuredContent)[0];
  return finding === undefined
    ? []
    : [`the structured content does not fit the tool's output schema: ${describeFinding(finding)}`];
}
