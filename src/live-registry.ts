import type { Configuration } from './config/configuration.ts';
import type { EventLog } from './core/events.ts';
import type { Redact } from './core/redact.ts';
import { type StoredToolList, type ToolListStore, ToolListTooLarge } from './dispatch/ports.ts';
import { inSlices } from './in-slices.ts';
import { type BoundServer, bindServer } from './tools/bind-server.ts';
import { buildRegistry, type Registry } from './tools/registry.ts';
import { listSource } from './upstream/list-source.ts';
import { openUpstreams, type Upstreams } from './upstream/upstreams.ts';

/** Tools told one by one in the log; the rest is counted. `GET /v1/servers` lists them all. */
const toolsToldMax = 20;

/** The configured servers, started, and the registry that follows their tool lists. */
export interface LiveRegistry {
  readonly upstreams: Upstreams;
  /** The registry as it is now; a call keeps the one it looked at first (AZ-9). */
  readonly current: () => Registry;
}

/**
 * All servers of a configuration, not yet started. Each new tool list replaces the registry as a whole, and is kept for
 * the next start.
 */
export function openLiveRegistry(
  configuration: Configuration,
  stored: readonly StoredToolList[],
  ports: { log: EventLog; redact: Redact; store: Pick<ToolListStore, 'saveToolList'> | undefined },
): LiveRegistry {
  const { log, redact } = ports;
  const policies = new Map(configuration.policies.map((policy) => [policy.alias, policy]));
  const sources = new Map(configuration.servers.map((server) => [server.alias, listSource(server)]));
  const tools = new Map<string, BoundServer>();
  const newest = new Map<string, symbol>();
  let registry = buildRegistry([]);

  /** Servers whose newest list could not be kept: the next reading of it is kept, even if it is the same. */
  const unkept = new Set<string>();
  const keep = async (list: Omit<StoredToolList, 'source' | 'readAtMs'>): Promise<void> => {
    const source = sources.get(list.alias);
    if (source === undefined || ports.store === undefined) return;
    unkept.delete(list.alias);
    try {
      await ports.store.saveToolList({ ...list, source, readAtMs: Date.now() });
    } catch (error) {
      if (!(error instanceof ToolListTooLarge)) unkept.add(list.alias);
      log.warn('tools.not_kept', {
        server: list.alias,
        reason: error instanceof Error ? error.message : String(error),
      });
    }
  };

  const upstreams = openUpstreams(configuration.servers, configuration.faultyServers, stored, {
    log,
    redact,
    nowMs: () => Date.now(),
    monotonicMs: () => performance.now(),
    onTools: async (alias, definitions, refused) => {
      const policy = policies.get(alias);
      if (policy === undefined) return;
      const list = Symbol(alias);
      newest.set(alias, list);
      const earlier = tools.get(alias);
      const bound = await inSlices(
        bindServer(policy, definitions, refused, earlier),
        () => newest.get(alias) === list,
      );
      // A newer list has come meanwhile.
      if (bound === undefined) return;
      // A reason may repeat what stands in a schema, and a server may write its own credentials there (MT-14).
      const withheld = bound.withheld.map((tool) => ({ ...tool, reason: redact(tool.reason) }));
      const now = { ...bound, withheld };
      const changes = earlier === undefined ? undefined : changesBetween(earlier, now);
      if (changes?.isNone === true && !unkept.has(alias)) return;
      tools.set(alias, now);
      registry = buildRegistry(tools.values());
      if (changes?.isNone !== true) tellTools(log, now, changes);
      // Nobody waits for it: without it the next start only knows the tools of this server a little later.
      if (!stored.some((list) => list.tools === definitions))
        void keep({ alias, tools: definitions, refused });
    },
  });
  return { upstreams, current: () => registry };
}

/** What is new in a list of one server, by the fingerprints of the definitions. */
interface Changes {
  readonly added: readonly string[];
  readonly removed: readonly string[];
  readonly changed: readonly string[];
  readonly isNone: boolean;
}

function changesBetween(earlier: BoundServer, now: BoundServer): Changes {
  const added: string[] = [];
  const changed: string[] = [];
  for (const [name, { fingerprint }] of now.known) {
    const before = earlier.known.get(name)?.fingerprint;
    if (before === undefined) added.push(`${name} ${short(fingerprint)}`);
    else if (before !== fingerprint) changed.push(`${name} ${short(before)} -> ${short(fingerprint)}`);
  }
  const removed = [...earlier.known]
    .filter(([name]) => !now.known.has(name))
    .map(([name, { fingerprint }]) => `${name} ${short(fingerprint)}`);
  const isNone =
    added.length + removed.length + changed.length === 0 &&
    JSON.stringify(earlier.withheld) === JSON.stringify(now.withheld);
  return { added, removed, changed, isNone };
}

const short = (fingerprint: string): string => fingerprint.slice(0, 12);

function tellTools(log: EventLog, { alias, bindings, withheld }: BoundServer, changes?: Changes): void {
  log.info('tools.listed', { server: alias, tools: bindings.length, withheld: withheld.length });
  if (changes !== undefined) {
    const { added, removed, changed } = changes;
    log.info('tools.changed', {
      server: alias,
      added: told(added),
      removed: told(removed),
      changed: told(changed),
    });
  }
  for (const { tool, reason } of withheld.slice(0, toolsToldMax)) {
    log.warn('tool.withheld', { server: alias, tool, reason });
  }
}

/** The first of some names, and how many more there are. */
const told = (names: readonly string[]): readonly string[] => {
  const rest = names.length - toolsToldMax;
  return rest > 0 ? [...names.slice(0, toolsToldMax), `and ${rest} more`] : names;
};
