import type { JsonObject } from '../core/json.ts';
import type { Registry } from '../tools/registry.ts';
import type { ServerStatus } from '../upstream/settings.ts';
import { authenticate, requireScope } from './authenticate.ts';
import type { Service } from './context.ts';
import { type Answer, type IncomingRequest, jsonAnswer } from './exchange.ts';
import { readQuery, requireJsonAccepted } from './request.ts';

/** `GET /v1/servers`: every configured server, how it is, and what of it is withheld and why. */
export async function getServers(
  request: IncomingRequest,
  requestId: string,
  service: Service,
): Promise<Answer> {
  const actor = await authenticate(request, service, requestId);
  requireScope(actor, 'callgate:operate', service);
  requireJsonAccepted(request);
  readQuery(request, {});
  const registry = service.dispatch.registry();
  const counts = countTools(registry);
  const servers = service.serverStatuses().map((status) => serverMember(status, registry, counts));
  return jsonAnswer({ servers }, requestId);
}

function countTools(registry: Registry): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const { alias } of registry.bindings) counts.set(alias, (counts.get(alias) ?? 0) + 1);
  return counts;
}

function serverMember(
  status: ServerStatus,
  registry: Registry,
  counts: ReadonlyMap<string, number>,
): JsonObject {
  const time = (ms: number): string => new Date(ms).toISOString();
  return {
    alias: status.alias,
    state: status.state,
    ...(status.stage === undefined ? {} : { stage: status.stage }),
    since: time(status.since),
    attempts: status.attempts,
    ...(status.lastError === undefined ? {} : { last_error: status.lastError }),
    ...(status.lastExitCode === undefined ? {} : { last_exit_code: status.lastExitCode }),
    ...(status.nextTryAt === undefined ? {} : { next_try_at: time(status.nextTryAt) }),
    ...(status.protocolVersion === undefined ? {} : { protocol_version: status.protocolVersion }),
    connections: status.connections,
    breaker: status.breaker,
    ...(status.stderr === undefined ? {} : { stderr: status.stderr }),
    tools: counts.get(status.alias) ?? 0,
    withheld: (registry.withheld.get(status.alias) ?? []).map(({ tool, reason }) => ({ tool, reason })),
  };
}
