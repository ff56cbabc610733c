import type { FunctionCall } from '../core/call.ts';
import type { JsonObject } from '../core/json.ts';
import { limits } from '../core/limits.ts';
import type { Caller, SettledCall } from '../dispatch/ports.ts';
import { type CallRecord, mayHaveExecuted } from '../dispatch/record.ts';
import { dispatchTurn, isOurs, type Order, type PendingTurn, repeatedCallId } from '../dispatch/turn.ts';
import type { Format, Intent } from '../formats/format.ts';
import { authenticate } from './authenticate.ts';
import { identify } from './call-ids.ts';
import { readCaller, requireRun } from './caller.ts';
import { outputOf, readRender, unreadableBody } from './calls.ts';
import type { Service } from './context.ts';
import { readFormat } from './declarations.ts';
import { type OnBegun, streamedAnswer } from './event-stream.ts';
import { type Answer, type IncomingRequest, jsonAnswer, jsonTextAnswer } from './exchange.ts';
import { logFailure, Problem } from './problem.ts';
import { choose, prefersEvents, readQuery, withJson } from './request.ts';
import { isSettled, keep, readWait, unfinishedHeaders, type Wait, watchCaller, within } from './waiting.ts';

const orders: readonly Order[] = ['parallel', 'sequential'];
const unknowns = ['answer', 'leave'] as const;

/** Where a call of a turn stands; undefined when its turn to run has not come yet. */
type Standing = SettledCall | CallRecord | undefined;

/** `POST /v1/turns`: a whole model answer in, everything to append to the conversation out. */
export async function postTurn(
  request: IncomingRequest,
  requestId: string,
  service: Service,
): Promise<Answer> {
  const actor = await authenticate(request, service, requestId);
  const isStream = prefersEvents(request);
  const query = readQuery(request, { format: 'one', order: 'one', unknown: 'one', render: 'one' });
  const format = readFormat(query('format'));
  const order = choose('order', query('order'), orders, 'parallel');
  const unknown = choose('unknown', query('unknown'), unknowns, 'answer');
  const render = readRender(query('render'));
  const wait = readWait(request, service.limits.waitMaxMs);
  return withJson(request, service.limits.turnBytesMax, service.admission, async (body) => {
    const read = format.readTurn(body);
    if (!read.ok) throw unreadableBody(read.error, format);
    const intents = read.value;
    refuseLongTurn(intents, service.limits.intentsMax);
    const { caller, revision } = readCaller(request, actor, format, requestId, service);
    const identified = identify(intents, caller.turn, service.dispatch.newId());
    refuseRepeatedIds(identified, intents);
    const isLeft = (call: FunctionCall): boolean =>
      unknown === 'leave' && !isOurs(call, service.dispatch.aliases);
    const calls = identified.filter((call) => !isLeft(call));
    requireRun(calls, caller, service);
    const left = identified.flatMap((call, place) =>
      isLeft(call) ? [{ index: intents[place]?.index ?? 0, call_id: call.callId, name: call.name }] : [],
    );
    const itemOf = (settled: SettledCall): JsonObject => outputOf(settled, format, render);
    const factsOf = (settled: readonly SettledCall[]): JsonObject => ({
      calls: settled.map((each) => settledMember(each, caller)),
      left,
    });
    const headers = { 'callgate-revision': revision };
    const begin = (onBegun?: OnBegun): PendingTurn =>
      dispatchTurn(calls, order, caller, service.dispatch, onBegun);
    if (isStream) {
      const whole = (settled: readonly SettledCall[]): JsonObject => ({
        append: appended(settled.map(itemOf), format),
        ...factsOf(settled),
      });
      const bytesMax = limits.turnOutputBytesMax;
      return streamedAnswer({ begin, item: itemOf, whole, bytesMax }, headers, requestId, service);
    }

    const turn = begin();
    const standings = await waitFor(turn, calls.length, order, wait, request, service);
    if (standings.every((standing) => standing !== undefined && isSettled(standing))) {
      const facts = JSON.stringify(factsOf(standings));
      const text = `{"append":${appendText(standings, itemOf, format)},${facts.slice(1)}`;
      return jsonTextAnswer(text, requestId, 200, headers);
    }
    logFailure(turn.settled, requestId, service.log);
    const members = calls.map((call, index) => memberOf(call, standings[index], caller));
    return jsonAnswer({ calls: members, left }, requestId, 202, { ...headers, ...unfinishedHeaders(wait) });
  });
}

/** The outputs as the provider wants them to follow its answer: side by side, or all in one message. */
const appended = (outputs: readonly JsonObject[], { message }: Format): readonly JsonObject[] =>
  message === undefined || outputs.length === 0 ? outputs : [message(outputs)];

/** The same as JSON text, its outputs written one by one so that no more than the limit is ever in memory. */
function appendText(
  settled: readonly SettledCall[],
  itemOf: (settled: SettledCall) => JsonObject,
  { message }: Format,
): string {
  const outputs = outputsText(settled, itemOf);
  if (message === undefined || settled.length === 0) return outputs;
  // The one empty list in a message without outputs is where they go.
  const [before = '', after = ''] = JSON.stringify([message([])]).split('[]');
  return before + outputs + after;
}

function outputsText(settled: readonly SettledCall[], itemOf: (settled: SettledCall) => JsonObject): string {
  const bytesMax = limits.turnOutputBytesMax;
  const texts: string[] = [];
  let bytes = 0;
  for (const each of settled) {
    const text = JSON.stringify(itemOf(each));
    bytes += Buffer.byteLength(text);
    if (bytes <= bytesMax) texts.push(text);
    else texts.length = 0;
  }
  if (bytes <= bytesMax) return `[${texts.join(',')}]`;
  throw new Problem(
    'payload_too_large',
    `the calls have run, but the outputs of this turn are ${bytes} bytes together, more than ${bytesMax}: ` +
      'post its calls one by one, or in smaller turns; nothing is lost, each is on record',
  );
}

/** The ends of all calls, or where each stands when the caller's patience is over. */
async function waitFor(
  turn: PendingTurn,
  count: number,
  order: Order,
  { ms }: Wait,
  request: IncomingRequest,
  service: Service,
): Promise<readonly Standing[]> {
  const line = watchCaller(request, () => turn.leave());
  const settled = ms === 0 ? undefined : await within(turn.settled, ms);
  if (settled !== undefined) return settled;
  line.letGo();
  let isOver = false;
  const over = (): void => {
    isOver = true;
  };
  turn.settled.then(over, over);
  // Those that run side by side are all about to begin, unless the caller left before that.
  while (order === 'parallel' && turn.begun.length < count && !line.isCut && !isOver) {
    await service.dispatch.nextLoopTurn();
  }
  if (isOver) return turn.settled;
  const begun: Standing[] = await Promise.all(turn.begun.map(keep));
  return [...begun, ...Array<undefined>(count - begun.length).fill(undefined)];
}

// Whatever is wrong with a turn as a whole is found before any of its calls runs.
function refuseLongTurn(intents: readonly Intent[], intentsMax: number): void {
  if (intents.length <= intentsMax) return;
  throw new Problem(
    'invalid_request',
    `the turn has ${intents.length} calls, at most ${intentsMax} are taken; nothing was run`,
  );
}

function refuseRepeatedIds(calls: readonly FunctionCall[], intents: readonly Intent[]): void {
  const repeated = repeatedCallId(calls);
  if (repeated === undefined) return;
  const at = intents.filter((_, place) => calls[place]?.callId === repeated);
  throw new Problem(
    'invalid_request',
    `the call id ${JSON.stringify(repeated)} stands on ${at.length} calls of this turn; give each its own. Nothing was run`,
    { errors: at.map(({ pointer }) => ({ pointer, detail: 'repeats a call id' })) },
  );
}

const memberOf = (call: FunctionCall, standing: Standing, caller: Caller): JsonObject => {
  const { callId: call_id, name } = call;
  const replay_protected = hasLastingId(call, caller);
  if (standing === undefined) {
    return { call_id, name, status: 'received', may_have_executed: false, replay_protected, attempts: 0 };
  }
  if (isSettled(standing)) return settledMember(standing, caller);
  return {
    id: standing.id,
    call_id,
    name,
    status: standing.status,
    may_have_executed: mayHaveExecuted(standing),
    replay_protected,
    attempts: standing.attempts,
  };
};

/** Whether a retry has the same id: one that was made here is made anew, unless the turn has a name. */
const hasLastingId = ({ hasMadeId }: FunctionCall, { turn }: Caller): boolean =>
  hasMadeId !== true || turn !== undefined;

const settledMember = (
  { id, call, outcome, replayed, isRecorded, attempts, durationMs }: SettledCall,
  caller: Caller,
): JsonObject => ({
  id,
  call_id: call.callId,
  name: call.name,
  status: outcome.status,
  ...(outcome.error === undefined ? {} : { code: outcome.error.code }),
  may_have_executed: outcome.error?.mayHaveExecuted ?? true,
  replayed,
  replay_protected: isRecorded && hasLastingId(call, caller),
  attempts,
  duration_ms: Math.round(durationMs),
});
