import { createHash } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import type { Actor } from '../access/actor.ts';
import { authorise, hasGrantOn } from '../access/authorise.ts';
import type { JsonObject } from '../core/json.ts';
import { limits } from '../core/limits.ts';
import { fitsPattern } from '../core/name-pattern.ts';
import type { Format } from '../formats/format.ts';
import type { Binding, Registry } from '../tools/registry.ts';
import type { DispatchPorts } from './ports.ts';

/** Narrows a list of declarations; patterns may end in `*`. Empty lists narrow nothing. */
export interface DeclarationFilter {
  readonly servers: readonly string[];
  readonly tools: readonly string[];
}

/** The finished body of a declarations answer. */
export interface DeclarationBody {
  readonly bytes: Uint8Array<ArrayBuffer>;
  /** A strong ETag, quotes included. */
  readonly etag: string;
  readonly revision: string;
}

/**
 * Declarations as finished bytes. They depend on the registry, the format, the filter and the rights alone, so actors
 * with equal grants share them, and a request costs a look-up (performance 4.2).
 */
export class Declarations {
  readonly #ports: Pick<DispatchPorts, 'registry' | 'upstream' | 'aliases'>;
  readonly #bodies = new LRUCache<string, DeclarationBody>({
    maxSize: limits.declarationCacheBytesMax,
    sizeCalculation: (body, key) => body.bytes.byteLength + key.length + 200,
  });
  readonly #revisions = new LRUCache<string, string>({ max: 10_000 });

  constructor(ports: Pick<DispatchPorts, 'registry' | 'upstream' | 'aliases'>) {
    this.#ports = ports;
  }

  /** The declarations that this actor may see, in this format. */
  body(actor: Actor, format: Format, filter: DeclarationFilter): DeclarationBody {
    const registry = this.#ports.registry();
    const pending = this.#ports.aliases
      .filter((alias) => hasGrantOn(actor, alias) && !this.#ports.upstream.hasListed(alias))
      .sort();
    const key = JSON.stringify([
      registry.generation,
      format.name,
      actor.grantsKey,
      pending,
      filter.servers,
      filter.tools,
    ]);
    let body = this.#bodies.get(key);
    if (body === undefined) {
      body = writeBody(registry, actor, format, filter, pending, this.revision(actor, format));
      this.#bodies.set(key, body);
    }
    return body;
  }

  /** Hash of all tools that this actor may see in this format, whatever the filter. */
  revision(actor: Actor, format: Format): string {
    const registry = this.#ports.registry();
    const key = `${registry.generation} ${format.name} ${actor.grantsKey}`;
    let revision = this.#revisions.get(key);
    if (revision === undefined) {
      revision = hash(JSON.stringify(declare(visible(registry, actor), format).tools));
      this.#revisions.set(key, revision);
    }
    return revision;
  }
}

const visible = (registry: Registry, actor: Actor): readonly Binding[] =>
  registry.bindings.filter((binding) => authorise(actor, binding.target).allowed);

interface OmittedTool {
  readonly server: string;
  readonly tool: string;
  readonly reason: string;
}

interface Declared {
  readonly tools: JsonObject[];
  /** Declared tools that are told otherwise than their server sent them. */
  readonly adjusted: JsonObject[];
  readonly omitted: OmittedTool[];
}

function declare(bindings: readonly Binding[], format: Format): Declared {
  const declared: Declared = { tools: [], adjusted: [], omitted: [] };
  for (const binding of bindings) {
    const { name, alias, tool, adjustments } = binding;
    const written = format.declare(binding);
    if (!written.ok) {
      declared.omitted.push({ server: alias, tool, reason: written.error });
      continue;
    }
    declared.tools.push(written.value);
    const steps = adjustments
      .filter(({ member }) => format.members.has(member))
      .map(({ step, path, loss }) => ({ step, path, loss }));
    if (steps.length > 0) declared.adjusted.push({ name, steps });
  }
  return declared;
}

function writeBody(
  registry: Registry,
  actor: Actor,
  format: Format,
  filter: DeclarationFilter,
  pending: readonly string[],
  revision: string,
): DeclarationBody {
  const chosen = visible(registry, actor).filter((binding) =>
    passes(filter, binding.alias, [binding.name, binding.tool]),
  );
  const { tools, adjusted, omitted } = declare(chosen, format);
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
    tools,
    adjusted,
    omitted: [...omitted, ...withheld].sort(byServerAndTool),
    pending,
    warnings,
  };
  const bytes = new TextEncoder().encode(JSON.stringify(body));
  return { bytes, revision, etag: `"${hash(bytes)}"` };
}

const byServerAndTool = (a: OmittedTool, b: OmittedTool): number =>
  compare(a.server, b.server) || compare(a.tool, b.tool) || compare(a.reason, b.reason);

const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);

const passes = (filter: DeclarationFilter, alias: string, names: readonly string[]): boolean =>
  (filter.servers.length === 0 || filter.servers.some((pattern) => fitsPattern(pattern, alias))) &&
  (filter.tools.length === 0 ||
    filter.tools.some((pattern) => names.some((name) => fitsPattern(pattern, name))));

const hash = (data: string | Uint8Array): string =>
  createHash('sha256').update(data).digest('base64url').slice(0, 22);
