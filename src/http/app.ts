import { randomUUID } from 'node:crypto';
import { Hono } from 'hono';
import { postCall } from './calls.ts';
import type { Service } from './context.ts';
import { getDeclarations } from './declarations.ts';
import type { Answer, IncomingRequest, Route } from './exchange.ts';
import { getHealth, getOpenapi, getReadiness, getResourceMetadata } from './operations.ts';
import { Problem, problemAnswer } from './problem.ts';
import { getServers } from './servers.ts';
import { postTurn } from './turns.ts';

/** Every route of the API: the paths and methods of `openapi.yaml`, no more and no fewer. */
export const routes: readonly { method: 'GET' | 'POST'; path: string; route: Route }[] = [
  { method: 'GET', path: '/v1/declarations', route: getDeclarations },
  { method: 'POST', path: '/v1/calls', route: postCall },
  { method: 'POST', path: '/v1/turns', route: postTurn },
  { method: 'GET', path: '/v1/servers', route: getServers },
  { method: 'GET', path: '/healthz', route: (_request, requestId) => getHealth(requestId) },
  {
    method: 'GET',
    path: '/readyz',
    route: (_request, requestId, service) => getReadiness(requestId, service),
  },
  {
    method: 'GET',
    path: '/openapi.yaml',
    route: (_request, requestId, service) => getOpenapi(requestId, service),
  },
  {
    method: 'GET',
    path: '/.well-known/oauth-protected-resource',
    route: (_request, requestId, service) => getResourceMetadata(requestId, service),
  },
];

/** The HTTP side as a function from request to response; a server or a test gives it requests. */
export function createApp(service: Service): Hono {
  const app = new Hono();
  for (const { method, path, route } of routes) {
    const other = methodNotAllowed(method);
    // One handler a path: with several for one request hono walks a chain, which costs more than the check.
    app.all(path, ({ req }) =>
      answer(req.raw, service, isAllowed(req.method, method) ? route : other).then(responseOf),
    );
  }
  app.notFound(({ req }) => answer(req.raw, service, notFound).then(responseOf));
  return app;
}

// hono answers HEAD as GET and leaves the body out.
const isAllowed = (sent: string, method: 'GET' | 'POST'): boolean =>
  sent === method || (sent === 'HEAD' && method === 'GET');

/** An answer as a web `Response`. */
export const responseOf = ({ status, headers, body }: Answer): Response =>
  new Response(body, { status, headers });

/** The answer of a route, or the problem that it ended in. @throws never */
export async function answer(request: IncomingRequest, service: Service, route: Route): Promise<Answer> {
  const requestId = readRequestId(request);
  try {
    refuseForeignPage(request, service);
    if (request.method !== 'POST') return await route(request, requestId, service);
    if (!service.admission.enter()) throw draining;
    try {
      return await route(request, requestId, service);
    } finally {
      service.admission.leave();
    }
  } catch (error) {
    return problemAnswer(error instanceof Problem ? error : unexpected(error, requestId, service), requestId);
  }
}

const requestIdPattern = /^[A-Za-z0-9._~-]{1,128}$/;

const readRequestId = (request: IncomingRequest): string => {
  const sent = request.headers.get('x-request-id');
  return sent !== null && requestIdPattern.test(sent) ? sent : randomUUID();
};

// MT-15: a page in the operator's browser must not reach a service on loopback, under its own name or ours.
function refuseForeignPage({ headers }: IncomingRequest, { hostsAllowed }: Service): void {
  if (hostsAllowed === undefined) return;
  const names = [headers.get('host') ?? '', headers.get('origin')?.replace(/^https?:\/\//i, '')];
  const foreign = names.some(
    (name) => name !== undefined && !hostsAllowed.has(name.replace(/:\d+$/, '').toLowerCase()),
  );
  if (foreign) {
    throw new Problem(
      'invalid_request',
      'the Host or Origin header names another service; use localhost, or set callgate.publicUrl',
    );
  }
}

const draining = new Problem(
  'draining',
  'callgate is shutting down; send the request to another replica, or again',
  { headers: { 'retry-after': '5', connection: 'close' } },
);

function unexpected(error: unknown, requestId: string, service: Service): Problem {
  service.log.error('request.failed', {
    request_id: requestId,
    error: error instanceof Error ? (error.stack ?? error.message) : String(error),
  });
  return new Problem(
    'internal',
    `callgate failed on this request; its log has the reason under ${requestId}`,
  );
}

const methodNotAllowed =
  (method: 'GET' | 'POST'): Route =>
  (request) => {
    const allow = method === 'GET' ? 'GET, HEAD' : method;
    throw new Problem(
      'method_not_allowed',
      `${request.method.slice(0, 20)} is not possible here; use ${method}`,
      { headers: { allow } },
    );
  };

const notFound: Route = () => {
  throw new Problem('not_found', 'there is no such route; GET /openapi.yaml lists them all');
};
