import type { Actor } from '../access/actor.ts';
import type { Caller } from '../dispatch/ports.ts';
import type { Format } from '../formats/format.ts';
import type { Service } from './context.ts';
import type { IncomingRequest } from './exchange.ts';
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
    declarationsChanged: shown !== undefined && shown !== revision,
  };
  return { caller, revision };
}
