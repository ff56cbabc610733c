import { createHash, type Hash } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import type { Actor } from '../access/actor.ts';
import { authorise, hasGrantOn } from '../access/authorise.ts';
import type { JsonObject } from '../core/json.ts';
import { limits } from '../core/limits.ts';
import { fitsPattern } from '../core/name-pattern.ts';
import { ok, type Result } from '../core/result.ts';
import type { DeclaredTool, DeclareOptions, Format } from '../formats/format.ts';
import { projectionOf } from '../tools/projection.ts';
import type { Adjustment, Binding, Registry } from '../tools/registry.ts';
import { strictSchema } from '../tools/strict-schema.ts';
import { jsonPieces } from './json-pieces.ts';
import type { DispatchPorts } from './ports.ts';

/** Narrows a list of declarations; patterns may end in `*`. Empty lists narrow nothing. */
export interface DeclarationFilter {
  readonly servers: readonly string[];
  readonly tools: readonly string[];
}

/** What somebody asks for. */
export interface DeclarationWish {
  readonly format: Format;
  readonly options: DeclareOptions;
  readonly filter: DeclarationFilter;
}

/** The finished body of a declarations answer. */
export interface DeclarationBody {
  readonly bytes: Uint8Array<ArrayBuffer>;
  /** A strong ETag, quotes included. */
  readonly etag: string;
  readonly revision: string;
}

/**
 * Declarations as finished bytes. They depend on the registry, the format, the options, the filter and the rights alone,
 * so actors with equal grants share them, and a request costs a look-up (performance 4.2).
 */
export class Declarations {
  readonly #ports: Pick<DispatchPorts, 'registry' | 'upstream' | 'aliases' | 'inSlices'>;
  readonly #bodies = new LRUCache<string, DeclarationBody>({
    maxSize: limits.declarationCacheBytesMax,
    sizeCalculation: (body, key) => body.bytes.byteLength + key.length + 200,
  });
  /** Bodies that are being made: whoever asks for the same one meanwhile waits for it. */
  readonly #making = new Map<string, Promise<DeclarationBody>>();
  /** Ends with the last of them: side by side, their slices would add up, and so would what they hold. */
  #lastMade: Promise<unknown> = Promise.resolve();
  readonly #revisions = new LRUCache<string, string>({ max: 10_000 });

  constructor(ports: Pick<DispatchPorts, 'registry' | 'upstream' | 'aliases' | 'inSlices'>) {
    this.#ports = ports;
  }

  /** The declarations that this actor may see, in this format; at once where they are at hand. */
  body(actor: Actor, wish: DeclarationWish): DeclarationBody | Promise<DeclarationBody> {
    const registry = this.#ports.registry();
    const { format, options, filter } = wish;
    const pending = this.#ports.aliases
      .filter((alias) => hasGrantOn(actor, alias) && !this.#ports.upstream.hasListed(alias))
      .sort();
    const key = JSON.stringify([
      registry.generation,
      format.name,
      options,
      actor.grantsKey,
      pending,
      filter.servers,
      filter.tools,
    ]);
    const body = this.#bodies.get(key) ?? this.#making.get(key);
    if (body !== undefined) return body;
    const revision = this.revision(actor, format);
    const making = this.#lastMade
      .then(() => this.#ports.inSlices(writeBody(registry, actor, wish, pending, revision)))
      .then((made) => {
        this.#bodies.set(key, made);
        return made;
      })
      .finally(() => this.#making.delete(key));
    this.#making.set(key, making);
    this.#lastMade = making.catch(() => {});
    return making;
  }

  /** Names the set of all tools that this actor may see in this format, whatever the options and the filter. */
  revision(actor: Actor, format: Format): string {
    const registry = this.#ports.registry();
    const key = `${registry.generation} ${format.name} ${actor.grantsKey}`;
    let revision = this.#revisions.get(key);
    if (revision === undefined) {
      const fingerprints = visible(registry, actor).map(({ name, fingerprint }) => [name, fingerprint]);
      revision = hash(JSON.stringify([format.name, fingerprints]));
      this.#revisions.set(key, revision);
    }
    return revision;
  }
}

const visible = (registry: Registry, actor: Actor): readonly Binding[] =>
  registry.bindings.filter((binding) => authorise(actor, binding.target).allowed);

type OmittedTool = Readonly<Record<'server' | 'tool' | 'reason', string>>;

interface Declared {
  readonly tools: DeclaredTool[];
  /** Declared tools that are told otherwise than their server sent them. */
  readonly adjusted: JsonObject[];
  readonly omitted: OmittedTool[];
}

/**
 * Characters of those schemas of one server that are written otherwise for a provider, and of what is told of that. With
 * references written out, and long paths told many times, a short list can become one that no text can hold.
 */
const grownCharsMax = 33_554_432;
const grewTooMuch =
  'the input schemas of its server, written as the API wants them, have over ' +
  `${grownCharsMax} characters together`;

/** Brings each tool into the form that the format can carry. It pauses after each, so that others get their turn. */
function* declare(
  bindings: readonly Binding[],
  format: Format,
  options: DeclareOptions,
): Generator<void, Declared> {
  const declared: Declared = { tools: [], adjusted: [], omitted: [] };
  const grownChars = new Map<string, number>();
  for (const binding of bindings) {
    const { name, alias, tool, adjustments } = binding;
    const projected = declaredTool(binding, format, options);
    const grown = (grownChars.get(alias) ?? 0) + (projected.ok ? projected.value.grownChars : 0);
    if (!projected.ok) declared.omitted.push({ server: alias, tool, reason: projected.error });
    else if (grown > grownCharsMax) {
      declared.omitted.push({ server: alias, tool, reason: grewTooMuch });
    } else {
      grownChars.set(alias, grown);
      declared.tools.push(projected.value.tool);
      const steps = [
        ...adjustments.filter(({ member }) => format.members.has(member)),
        ...projected.value.steps,
      ];
      if (steps.length > 0) {
        declared.adjusted.push({ name, steps: steps.map(({ step, path, loss }) => ({ step, path, loss })) });
      }
    }
    yield;
  }
  return declared;
}

function declaredTool(
  binding: Binding,
  format: Format,
  options: DeclareOptions,
): Result<{ tool: DeclaredTool; steps: readonly Adjustment[]; grownChars: number }, string> {
  const own = binding.description === '' ? undefined : binding.description;
  if (format.schemaRules === undefined) {
    const tool = { binding, description: own, schema: binding.inputSchema, isStrict: false };
    return ok({ tool, steps: [], grownChars: 0 });
  }
  const projection = projectionOf(binding, format.schemaRules);
  if (!projection.ok) return projection;
  const { schema, steps, grownChars, note } = projection.value;
  // A schema that has lost something already would forbid in strict mode what the server takes.
  const isLossless = !steps.some(({ loss }) => loss);
  const strict = options.strict === 'lossless' && isLossless ? strictSchema(schema) : undefined;
  const description = note === undefined ? own : [own, note].filter(Boolean).join('\n');
  return ok({
    tool: { binding, description, schema: strict ?? schema, isStrict: strict !== undefined },
    steps,
    grownChars,
  });
}

/** Characters of a body that are written at a time; a hash has to be worth its call. */
const partCharsMin = 65_536;

function* writeBody(
  registry: Registry,
  actor: Actor,
  { format, options, filter }: DeclarationWish,
  pending: readonly string[],
  revision: string,
): Generator<void, DeclarationBody> {
  const chosen = visible(registry, actor).filter((binding) =>
    passes(filter, binding.alias, [binding.name, binding.tool]),
  );
  const { tools, adjusted, omitted } = yield* declare(chosen, format, options);
  const withheld = [...registry.withheld.values()]
    .flat()
    .filter((tool) => authorise(actor, tool.target).allowed && passes(filter, tool.target.alias, [tool.tool]))
    .map(({ target, tool, reason }) => ({ server: target.alias, tool, reason }));
  const warnings =
    format.toolsMax !== undefined && tools.length > format.toolsMax
      ? [{ code: 'too_many_tools', count: tools.length, max: format.toolsMax }]
      : [];
  const body = {
    format: format.name,
    revision,
    tools: format.declare(tools, options),
    adjusted,
    omitted: [...omitted, ...withheld].sort(byServerAndTool),
    pending,
    warnings,
  };
  yield;
  const sha = createHash('sha256');
  const parts: Buffer[] = [];
  let text = '';
  const writePart = (): void => {
    const part = Buffer.from(text);
    sha.update(part);
    parts.push(part);
    text = '';
  };
  for (const piece of jsonPieces(body)) {
    text += piece;
    if (text.length < partCharsMin) continue;
    writePart();
    yield;
  }
  writePart();
  return { bytes: Buffer.concat(parts), revision, etag: `"${shortened(sha)}"` };
}

const byServerAndTool = (a: OmittedTool, b: OmittedTool): number =>
  compare(a.server, b.server) || compare(a.tool, b.tool) || compare(a.reason, b.reason);

const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);

const passes = (filter: DeclarationFilter, alias: string, names: readonly string[]): boolean =>
  (filter.servers.length === 0 || filter.servers.some((pattern) => fitsPattern(pattern, alias))) &&
  (filter.tools.length === 0 ||
    filter.tools.some((pattern) => names.some((name) => fitsPattern(pattern, name))));

const hash = (text: string): string => shortened(createHash('sha256').update(text));

const shortened = (sha: Hash): string => sha.digest('base64url').slice(0, 22);
