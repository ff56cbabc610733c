import { setImmediate } from 'node:timers/promises';
import { limits } from '../core/limits.ts';
import type { Attempt, StoredToolList, ToolCall, Upstream } from '../dispatch/ports.ts';
import { notSent, unavailable } from './fault.ts';
import { listSource } from './list-source.ts';
import type { ServerCredentials } from './oauth/server-credentials.ts';
import { Server, type ServerDeps } from './server.ts';
import type { FaultyServer, ServerSettings, ServerStatus } from './settings.ts';
import { shown } from './shown.ts';

/** Loaded where it is needed: a service without such servers stays smaller. */
async function credentialsOf(
  { alias, transport, connectTimeoutMs }: ServerSettings,
  { log, redact, monotonicMs }: ServerDeps,
): Promise<ServerCredentials | undefined> {
  if (transport.kind === 'stdio' || transport.credentials === undefined) return undefined;
  const { createCredentials } = await import('./oauth/server-credentials.ts');
  return createCredentials(transport.credentials, {
    alias,
    serverUrl: transport.url,
    connectTimeoutMs,
    log,
    redact,
    monotonicMs,
  });
}

/** All configured servers. */
export interface Upstreams extends Upstream {
  /** One for each configured server, those included whose configuration cannot be used. */
  statuses(): readonly ServerStatus[];
  /** Settles when the tools that were known before the start are known again. */
  readonly restored: Promise<void>;
  /** Begins to connect to all servers, each on its own; resolves when that has begun for the last one. */
  start(): Promise<void>;
  /** Settles when each server has listed its tools or failed once. */
  readonly firstListings: Promise<void>;
  /** Ends all connections and processes; no call gets through afterwards. */
  stop(): Promise<void>;
}

/**
 * All configured servers, not yet connected.
 * @param stored tool lists of an earlier run: they are taken in first, so that a restart takes no tool away
 */
export function openUpstreams(
  settings: readonly ServerSettings[],
  faulty: readonly FaultyServer[],
  stored: readonly StoredToolList[],
  deps: ServerDeps,
): Upstreams {
  const servers = new Map(settings.map((one) => [one.alias, new Server(one, deps)]));
  const startedAtMs = deps.nowMs();
  const faultyStatuses = faulty.map(
    ({ alias, reason }): ServerStatus => ({
      alias,
      state: 'stopped',
      stage: 'config',
      since: startedAtMs,
      attempts: 0,
      lastError: shown(reason, deps.redact, limits.foreignMessageCharsMax),
      connections: 0,
      breaker: 'closed',
    }),
  );

  const restore = async (one: ServerSettings): Promise<boolean> => {
    const list = stored.find(({ alias, source }) => alias === one.alias && source === listSource(one));
    if (list === undefined) return false;
    try {
      await deps.onTools(one.alias, list.tools, list.refused);
      return true;
    } catch (error) {
      // What an earlier version wrote down must not keep this one from starting.
      const reason = error instanceof Error ? error.message : String(error);
      deps.log.warn('tools.not_restored', { server: one.alias, reason });
      return false;
    }
  };
  const prepare = async (one: ServerSettings): Promise<void> =>
    servers.get(one.alias)?.prepare(await restore(one), await credentialsOf(one, deps));
  const restored = Promise.all(settings.map(prepare)).then(() => {});

  const unavailability = (alias: string): string =>
    servers.get(alias)?.unavailability() ?? unavailable(alias, 'its configuration cannot be used');

  return {
    callTool: (call: ToolCall): Promise<Attempt> =>
      servers.get(call.alias)?.callTool(call) ??
      Promise.resolve({
        kind: 'failed',
        ...notSent('server_unavailable', unavailability(call.alias)),
        attempts: 0,
        upstreamMs: 0,
      }),
    canSendNow: (alias, caller) => servers.get(alias)?.canSendNow(caller) ?? false,
    hasListed: (alias) => servers.get(alias)?.hasListed ?? false,
    unavailability,
    statuses: () => [...[...servers.values()].map((server) => server.status()), ...faultyStatuses],
    restored,
    start: async () => {
      await restored;
      for (const server of servers.values()) {
        server.start();
        // The start of a process keeps the event loop for a while, and there may be many.
        await setImmediate();
      }
    },
    firstListings: Promise.all([...servers.values()].map(({ firstListing }) => firstListing)).then(() => {}),
    endRun: async (actor, run) => {
      await Promise.all([...servers.values()].map((server) => server.endRun(actor, run)));
    },
    stop: async () => {
      await restored;
      await Promise.all([...servers.values()].map((server) => server.stop()));
    },
  };
}
