import type { Service } from './context.ts';
import { type Answer, jsonAnswer } from './exchange.ts';
import { Problem } from './problem.ts';

/** `GET /healthz`: the process answers (RL-9). */
export const getHealth = (requestId: string): Answer => jsonAnswer({ status: 'ok' }, requestId);

/** `GET /readyz`: 200 when calls can be taken, else 503 with what is still missing (RL-9). */
export function getReadiness(requestId: string, service: Service): Answer {
  const { ready, waitingFor } = service.readiness();
  return jsonAnswer(
    { status: ready ? 'ready' : 'not ready', waiting_for: waitingFor },
    requestId,
    ready ? 200 : 503,
  );
}

/** `GET /openapi.yaml`: the description of this API. */
export const getOpenapi = (requestId: string, service: Service): Answer => ({
  status: 200,
  headers: { 'content-type': 'application/yaml', 'x-request-id': requestId },
  body: service.openapi,
});

/** `GET /.well-known/oauth-protected-resource` (RFC 9728). */
export function getResourceMetadata(requestId: string, service: Service): Answer {
  if (service.resourceMetadata === undefined) {
    throw new Problem(
      'not_found',
      'there is no metadata: set callgate.publicUrl to the audience of an issuer',
    );
  }
  return jsonAnswer(service.resourceMetadata, requestId);
}
