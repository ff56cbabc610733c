import type { Actor } from '../access/actor.ts';
import { authorise } from '../access/authorise.ts';
import { type FunctionCall, lookupName } from '../core/call.ts';
import { Secret } from '../core/secret.ts';
import type { Caller } from '../dispatch/ports.ts';
import type { Format } from '../formats/format.ts';
import type { Service } from './context.ts';
import type { IncomingRequest } from './exchange.ts';
import { Problem } from './problem.ts';
import { readNameHeader } from './request.ts';

/** The caller of a request for calls, and the revision of the declarations that are current for it. */
export function readCaller(
  request: IncomingRequest,
  actor: Actor,
  format: Format,
  requestId: string,
  service: Service,
): { caller: Caller; revision: string } {
  const revision = service.declarations.revision(actor, format);
  const shown = readNameHeader(request, 'callgate-revision');
  const caller: Caller = {
    actor,
    requestId,
    run: readNameHeader(request, 'callgate-run'),
    turn: readNameHeader(request, 'callgate-turn'),
    token: bearerToken(request),
    format,
    declarationsChanged: shown !== undefined && shown !== revision,
  };
  return { caller, revision };
}

/**
 * Refuses calls to servers that keep the runs of their callers apart, where the request names no run: there would be
 * no telling whose connection they belong to. Only of tools that the caller may call, so that nothing is disclosed.
 */
export function requireRun(
  calls: readonly FunctionCall[],
  { run, actor }: Caller,
  { dispatch }: Service,
): void {
  if (run !== undefined) return;
  const registry = dispatch.registry();
  for (const call of calls) {
    const binding = registry.find(lookupName(call));
    if (binding?.needsRun !== true || !authorise(actor, binding.target).allowed) continue;
    throw new Problem(
      'invalid_request',
      `the tool ${JSON.stringify(binding.name)} has a connection for each run: name the run in the header Callgate-Run; nothing was run`,
      { errors: [{ parameter: 'Callgate-Run', detail: 'is missing' }] },
    );
  }
}

/** The token that `authenticate` has accepted. */
function bearerToken(request: IncomingRequest): Secret | undefined {
  const header = request.headers.get('authorization');
  return header === null ? undefined : new Secret(header.replace(/^bearer +/i, ''));
}
