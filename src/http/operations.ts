import type { Service } from './context.ts';
import { Problem } from './problem.ts';

const json = (body: unknown, requestId: string, status = 200): Response =>
  new Response(JSON.stringify(body), {
    status,
    headers: { 'content-type': 'application/json', 'cache-control': 'no-store', 'x-request-id': requestId },
  });

/** `GET /healthz`: the process answers (RL-9). */
export const getHealth = (requestId: string): Response => json({ status: 'ok' }, requestId);

/** `GET /readyz`: 200 when calls can be taken, else 503 with what is still missing (RL-9). */
export function getReadiness(requestId: string, service: Service): Response {
  const { ready, waitingFor } = service.readiness();
  return json(
    { status: ready ? 'ready' : 'not ready', waiting_for: waitingFor },
    requestId,
    ready ? 200 : 503,
  );
}

/** `GET /openapi.yaml`: the description of this API. */
export const getOpenapi = (requestId: string, service: Service): Response =>
  new Response(service.openapi, {
    headers: { 'content-type': 'application/yaml', 'x-request-id': requestId },
  });

/** `GET /.well-known/oauth-protected-resource` (RFC 9728). */
export function getResourceMetadata(requestId: string, service: Service): Response {
  if (service.resourceMetadata === undefined) {
    throw new Problem(
      'not_found',
      'there is no metadata: set callgate.publicUrl to the audience of an issuer',
    );
  }
  return json(service.resourceMetadata, requestId);
}
