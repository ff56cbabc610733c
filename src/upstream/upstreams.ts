import { limits } from '../core/limits.ts';
import type { Attempt, ToolCall, Upstream } from '../dispatch/ports.ts';
import { notSent, unavailable } from './fault.ts';
import type { FaultyServer, ServerSettings, ServerStatus } from './settings.ts';
import { shown } from './shown.ts';
import { Supervisor, type SupervisorDeps } from './supervisor.ts';

/** All configured servers. */
export interface Upstreams extends Upstream {
  /** One for each configured server, those included whose configuration cannot be used. */
  statuses(): readonly ServerStatus[];
  /** Settles when each server has listed its tools or failed once. */
  readonly firstListings: Promise<void>;
  /** Ends all connections and processes; no call gets through afterwards. */
  stop(): Promise<void>;
}

/** Begins to connect to all servers, at the same time and each on its own. */
export function startUpstreams(
  servers: readonly ServerSettings[],
  faulty: readonly FaultyServer[],
  deps: SupervisorDeps,
): Upstreams {
  const supervisors = new Map(servers.map((settings) => [settings.alias, new Supervisor(settings, deps)]));
  const startedAtMs = deps.nowMs();
  const faultyStatuses = faulty.map(
    ({ alias, reason }): ServerStatus => ({
      alias,
      state: 'stopped',
      stage: 'config',
      since: startedAtMs,
      attempts: 0,
      lastError: shown(reason, deps.redact, limits.foreignMessageCharsMax),
    }),
  );
  for (const supervisor of supervisors.values()) supervisor.start();

  const unavailability = (alias: string): string =>
    supervisors.get(alias)?.unavailability() ?? unavailable(alias, 'its configuration cannot be used');

  return {
    callTool: (call: ToolCall): Promise<Attempt> =>
      supervisors.get(call.alias)?.callTool(call) ??
      Promise.resolve({
        kind: 'failed',
        ...notSent('server_unavailable', unavailability(call.alias)),
        attempts: 0,
        upstreamMs: 0,
      }),
    canSendNow: (alias) => supervisors.get(alias)?.canSendNow ?? false,
    hasListed: (alias) => supervisors.get(alias)?.hasListed ?? false,
    unavailability,
    statuses: () => [
      ...[...supervisors.values()].map((supervisor) => supervisor.status()),
      ...faultyStatuses,
    ],
    firstListings: Promise.all([...supervisors.values()].map(({ firstListing }) => firstListing)).then(
      () => {},
    ),
    stop: async () => {
      await Promise.all([...supervisors.values()].map((supervisor) => supervisor.stop()));
    },
  };
}
