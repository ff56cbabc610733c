import type { JsonObject } from '../core/json.ts';
import type { SettledCall } from '../dispatch/ports.ts';
import { dispatchTurn, isOurs, type Order, repeatedCallId } from '../dispatch/turn.ts';
import type { Intent } from '../formats/format.ts';
import { authenticate } from './authenticate.ts';
import { readCaller } from './caller.ts';
import { outputOf, readRender, unreadableBody } from './calls.ts';
import type { Service } from './context.ts';
import { readFormat } from './declarations.ts';
import type { Answer, IncomingRequest } from './exchange.ts';
import { Problem } from './problem.ts';
import { choose, readQuery, requireJsonAccepted, withJson } from './request.ts';

const orders: readonly Order[] = ['parallel', 'sequential'];
const unknowns = ['answer', 'leave'] as const;

/** `POST /v1/turns`: a whole model answer in, everything to append to the conversation out. */
export async function postTurn(
  request: IncomingRequest,
  requestId: string,
  service: Service,
): Promise<Answer> {
  const actor = await authenticate(request, service, requestId);
  requireJsonAccepted(request);
  const query = readQuery(request, { format: 'one', order: 'one', unknown: 'one', render: 'one' });
  const format = readFormat(query('format'));
  const order = choose('order', query('order'), orders, 'parallel');
  const unknown = choose('unknown', query('unknown'), unknowns, 'answer');
  const render = readRender(query('render'));
  return withJson(request, service.limits.turnBytesMax, service.admission, async (body) => {
    const read = format.readTurn(body);
    if (!read.ok) throw unreadableBody(read.error);
    const intents = read.value;
    refuseFaultyTurn(intents, service.limits.intentsMax);

    const { caller, revision } = readCaller(request, actor, format, requestId, service);
    const isLeft = ({ call }: Intent): boolean =>
      unknown === 'leave' && !isOurs(call, service.dispatch.aliases);
    const calls = intents.filter((intent) => !isLeft(intent)).map(({ call }) => call);
    const settled = await dispatchTurn(calls, order, caller, service.dispatch);
    const answer = {
      append: settled.map((each) => outputOf(each, format, render)),
      calls: settled.map(callMember),
      left: intents
        .filter(isLeft)
        .map(({ index, call }) => ({ index, call_id: call.callId, name: call.name })),
    };
    const headers = {
      'content-type': 'application/json',
      'cache-control': 'no-store',
      'x-request-id': requestId,
      'callgate-revision': revision,
    };
    return { status: 200, headers, body: JSON.stringify(answer) };
  });
}

// Whatever is wrong with a turn as a whole is found before any of its calls runs.
function refuseFaultyTurn(intents: readonly Intent[], intentsMax: number): void {
  if (intents.length > intentsMax) {
    throw new Problem(
      'invalid_request',
      `the turn has ${intents.length} calls, at most ${intentsMax} are taken; nothing was run`,
    );
  }
  const repeated = repeatedCallId(intents.map(({ call }) => call));
  if (repeated !== undefined) {
    const at = intents.filter(({ call }) => call.callId === repeated);
    throw new Problem(
      'invalid_request',
      `the call id ${JSON.stringify(repeated)} stands on ${at.length} calls of this turn; give each its own. Nothing was run`,
      { errors: at.map(({ pointer }) => ({ pointer, detail: 'repeats a call id' })) },
    );
  }
}

const callMember = ({ id, call, outcome, attempts, durationMs }: SettledCall): JsonObject => ({
  id,
  call_id: call.callId,
  name: call.name,
  status: outcome.status,
  ...(outcome.error === undefined ? {} : { code: outcome.error.code }),
  may_have_executed: outcome.error?.mayHaveExecuted ?? true,
  // Without a record of past calls nothing is replayed, and a repeat is not recognised.
  replayed: false,
  replay_protected: false,
  attempts,
  duration_ms: Math.round(durationMs),
});
