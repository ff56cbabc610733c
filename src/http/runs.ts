import { limits } from '../core/limits.ts';
import { actorText } from '../dispatch/receipt.ts';
import { authenticate } from './authenticate.ts';
import type { Service } from './context.ts';
import { type Answer, emptyAnswer, type IncomingRequest } from './exchange.ts';
import { Problem } from './problem.ts';
import { readQuery } from './request.ts';

/**
 * `DELETE /v1/runs/{run}`: ends one of the caller's own runs here. Its connections are closed, and what still runs on
 * them is cancelled. A run that has none is as good as ended.
 */
export async function deleteRun(
  request: IncomingRequest,
  requestId: string,
  service: Service,
  run: string,
): Promise<Answer> {
  const actor = await authenticate(request, service, requestId);
  readQuery(request, {});
  if (run === '' || run.length > limits.idCharsMax) {
    throw new Problem(
      'invalid_request',
      `the path must end in the name of a run as Callgate-Run had it, of at most ${limits.idCharsMax} characters`,
    );
  }
  await service.dispatch.upstream.endRun(actorText(actor), run);
  return emptyAnswer(requestId);
}
