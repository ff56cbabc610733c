import type { Configuration } from './config/configuration.ts';
import type { EventLog } from './core/events.ts';
import type { Redact } from './core/redact.ts';
import { inSlices } from './in-slices.ts';
import { type BoundServer, bindServer } from './tools/bind-server.ts';
import { buildRegistry, type Registry, type ServerTools } from './tools/registry.ts';
import { startUpstreams, type Upstreams } from './upstream/upstreams.ts';

/** Tools told one by one in the log; the rest is counted. `GET /v1/servers` lists them all. */
const withheldToldMax = 20;

/** The configured servers, started, and the registry that follows their tool lists. */
export interface LiveRegistry {
  readonly upstreams: Upstreams;
  /** The registry as it is now; a call keeps the one it looked at first (AZ-9). */
  readonly current: () => Registry;
}

/** Starts all servers of a configuration at once. Each new tool list replaces the registry as a whole. */
export function openLiveRegistry(
  configuration: Configuration,
  ports: { log: EventLog; redact: Redact },
): LiveRegistry {
  const policies = new Map(configuration.policies.map((policy) => [policy.alias, policy]));
  const tools = new Map<string, BoundServer>();
  const newest = new Map<string, symbol>();
  let registry = buildRegistry([]);
  const upstreams = startUpstreams(configuration.servers, configuration.faultyServers, {
    ...ports,
    nowMs: () => Date.now(),
    monotonicMs: () => performance.now(),
    onTools: async (alias, definitions, refused) => {
      const policy = policies.get(alias);
      if (policy === undefined) return;
      const list = Symbol(alias);
      newest.set(alias, list);
      const steps = bindServer(policy, definitions, refused, tools.get(alias));
      const bound = await inSlices(steps, () => newest.get(alias) === list);
      // A newer list has come meanwhile.
      if (bound === undefined) return;
      // A reason may repeat what stands in a schema, and a server may write its own credentials there (MT-14).
      const withheld = bound.withheld.map((tool) => ({ ...tool, reason: ports.redact(tool.reason) }));
      tools.set(alias, { ...bound, withheld });
      registry = buildRegistry(tools.values());
      tellTools(ports.log, { ...bound, withheld });
    },
  });
  return { upstreams, current: () => registry };
}

function tellTools(log: EventLog, { alias, bindings, withheld }: ServerTools): void {
  log.info('tools.listed', { server: alias, tools: bindings.length, withheld: withheld.length });
  for (const { tool, reason } of withheld.slice(0, withheldToldMax)) {
    log.warn('tool.withheld', { server: alias, tool, reason });
  }
}
