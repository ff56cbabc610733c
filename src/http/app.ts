import { randomUUID } from 'node:crypto';
import { Hono } from 'hono';
import { LedgerUnavailable } from '../dispatch/ports.ts';
import { postCall } from './calls.ts';
import { postCancel } from './cancel.ts';
import type { Service } from './context.ts';
import { getDeclarations } from './declarations.ts';
import { type Answer, afterAnswer, type IncomingRequest, isStreamed, type Route } from './exchange.ts';
import { getHealth, getOpenapi, getReadiness, getResourceMetadata } from './operations.ts';
import { ledgerUnavailable, Problem, problemAnswer, unexpected } from './problem.ts';
import { getCall, getCalls } from './records.ts';
import { deleteRun } from './runs.ts';
import { getServers } from './servers.ts';
import { postTurn } from './turns.ts';

type Method = 'GET' | 'POST' | 'DELETE';

/** One method of one path. */
export interface Endpoint {
  readonly method: Method;
  /** As in `openapi.yaml`; a part in braces is the id that the route gets. */
  readonly path: string;
  readonly route: Route;
  /** Whether calls come in by it: then it is closed while the service drains, and what it has let in is waited for. */
  readonly takesCalls?: boolean;
}

/** Every route of the API: the paths and methods of `openapi.yaml`, no more and no fewer. */
export const endpoints: readonly Endpoint[] = [
  { method: 'GET', path: '/v1/declarations', route: getDeclarations },
  { method: 'POST', path: '/v1/calls', route: postCall, takesCalls: true },
  { method: 'GET', path: '/v1/calls', route: getCalls },
  { method: 'GET', path: '/v1/calls/{id}', route: getCall },
  { method: 'POST', path: '/v1/calls/{id}/cancel', route: postCancel },
  { method: 'POST', path: '/v1/turns', route: postTurn, takesCalls: true },
  { method: 'DELETE', path: '/v1/runs/{run}', route: deleteRun },
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
  for (const path of new Set(endpoints.map((endpoint) => endpoint.path))) {
    const known = endpoints.filter((endpoint) => endpoint.path === path);
    const other = { route: methodNotAllowed(known) };
    // One handler a path: with several for one request hono walks a chain, which costs more than the check.
    app.all(path.replace(/\{\w+\}/, ':id'), ({ req }) => {
      const endpoint = known.find(({ method }) => isAllowed(req.method, method)) ?? other;
      return answer(req.raw, service, endpoint, req.param('id')).then(responseOf);
    });
  }
  app.notFound(({ req }) => answer(req.raw, service, { route: notFound }).then(responseOf));
  return app;
}

// hono answers HEAD as GET and leaves the body out.
const isAllowed = (sent: string, method: Method): boolean =>
  sent === method || (sent === 'HEAD' && method === 'GET');

/** An answer as a web `Response`. */
export const responseOf = ({ status, headers, body }: Answer): Response =>
  new Response(isStreamed(body) ? body.stream : body, { status, headers });

/** When somebody may ask the ledger again that could not be asked now. */
const ledgerRetryMs = 1_000;

/** The answer of a route, or the problem that it ended in. @throws never */
export async function answer(
  request: IncomingRequest,
  service: Service,
  { route, takesCalls }: Pick<Endpoint, 'route' | 'takesCalls'>,
  id = '',
): Promise<Answer> {
  const requestId = readRequestId(request);
  try {
    refuseForeignPage(request, service);
    if (takesCalls !== true) return await route(request, requestId, service, id);
    if (!service.admission.enter()) throw draining;
    let answered: Answer | undefined;
    try {
      answered = await route(request, requestId, service, id);
      return answered;
    } finally {
      afterAnswer(answered, () => service.admission.leave());
    }
  } catch (error) {
    return problemAnswer(problemOf(error, requestId, service), requestId);
  }
}

function problemOf(error: unknown, requestId: string, { log }: Service): Problem {
  if (error instanceof Problem) return error;
  return error instanceof LedgerUnavailable
    ? ledgerUnavailable(ledgerRetryMs)
    : unexpected(error, requestId, log);
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

const methodNotAllowed = (known: readonly Endpoint[]): Route => {
  const methods = known.map(({ method }) => method).sort();
  const allow = methods.map((method) => (method === 'GET' ? 'GET, HEAD' : method)).join(', ');
  return (request) => {
    throw new Problem(
      'method_not_allowed',
      `${request.method.slice(0, 20)} is not possible here; use ${methods.join(' or ')}`,
      { headers: { allow } },
    );
  };
};

const notFound: Route = () => {
  throw new Problem('not_found', 'there is no such route; GET /openapi.yaml lists them all');
};
