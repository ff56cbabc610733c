import type { Configuration } from './config/configuration.ts';
import type { EventLog } from './core/events.ts';
import type { Redact } from './core/redact.ts';
import { bindServer, buildRegistry, type Registry, type ServerTools } from './tools/registry.ts';
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
  const tools = new Map<string, ServerTools>();
  let registry = buildRegistry([]);
  const upstreams = startUpstreams(configuration.servers, configuration.faultyServers, {
    ...ports,
    nowMs: () => Date.now(),
    monotonicMs: () => performance.now(),
    onTools: (alias, definitions, refused) => {
      const policy = policies.get(alias);
      if (policy === undefined) return;
      const bound = bindServer(policy, definitions, refused);
      tools.set(alias, bound);
      registry = buildRegistry(tools.values());
      tellTools(ports.log, bound);
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
