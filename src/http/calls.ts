import type { Actor } from '../access/actor.ts';
import type { JsonObject } from '../core/json.ts';
import { timeText } from '../core/text.ts';
import { dispatch } from '../dispatch/dispatch.ts';
import type { PendingCall, SettledCall } from '../dispatch/ports.ts';
import type { CallRecord } from '../dispatch/record.ts';
import type { BodyFault, Format } from '../formats/format.ts';
import { nativeFormat } from '../formats/formats.ts';
import type { Render } from '../tools/policy.ts';
import { authenticate } from './authenticate.ts';
import { readCaller, requireRun } from './caller.ts';
import type { Service } from './context.ts';
import { type OnBegun, streamedAnswer } from './event-stream.ts';
import { type Answer, type IncomingRequest, jsonAnswer } from './exchange.ts';
import { ledgerUnavailable, logFailure, Problem } from './problem.ts';
import { recordMember } from './records.ts';
import { choose, prefersEvents, readQuery, withJson } from './request.ts';
import {
  type CallerLine,
  isSettled,
  keep,
  readWait,
  unfinishedHeaders,
  watchCaller,
  within,
} from './waiting.ts';

const callParameters = { render: 'one' } as const;
const renders: readonly Render[] = ['envelope', 'text'];

/** `POST /v1/calls`: one `function_call` item in, its `function_call_output` item out. */
export function postCall(request: IncomingRequest, requestId: string, service: Service): Promise<Answer> {
  const actor = authenticate(request, service, requestId);
  return actor instanceof Promise
    ? actor.then((known) => takeCall(known, request, requestId, service))
    : takeCall(actor, request, requestId, service);
}

function takeCall(
  actor: Actor,
  request: IncomingRequest,
  requestId: string,
  service: Service,
): Promise<Answer> {
  const isStream = prefersEvents(request);
  const query = readQuery(request, callParameters);
  const render = readRender(query('render'));
  const wait = readWait(request, service.limits.waitMaxMs);
  return withJson(request, service.limits.bodyBytesMax, service.admission, async (body) => {
    const read = nativeFormat.readIntent(body);
    if (!read.ok) throw unreadableBody(read.error, nativeFormat);
    const { caller, revision } = readCaller(request, actor, nativeFormat, requestId, service);
    requireRun([read.value], caller, service);
    const itemOf = (settled: SettledCall): JsonObject => outputOf(settled, nativeFormat, render);

    const pending = dispatch(read.value, caller, service.dispatch);
    if (isStream) {
      const begin = (onBegun: OnBegun): PendingCall => {
        onBegun(pending, 0);
        return pending;
      };
      const headers = { 'callgate-revision': revision };
      return streamedAnswer({ begin, item: itemOf, whole: itemOf }, headers, requestId, service);
    }
    const line = watchCaller(request, () => pending.leave());
    const settled = wait.ms === 0 ? undefined : await within(pending.settled, wait.ms);
    const standing = settled ?? (await keepFor(pending, line));
    if (!isSettled(standing)) {
      logFailure(pending.settled, requestId, service.log);
      return jsonAnswer(recordMember(standing, actor), requestId, 202, {
        ...unfinishedHeaders(wait),
        'callgate-revision': revision,
        'callgate-id': standing.id,
        'callgate-status': standing.status,
        ...(pending.isRecorded() ? {} : { 'callgate-recorded': 'false' }),
        location: `/v1/calls/${standing.id}`,
      });
    }
    const { error } = standing.outcome;
    if (error?.code === 'ledger_unavailable')
      throw ledgerUnavailable(Number(error.details?.retry_after_ms ?? 0));
    return jsonAnswer(itemOf(standing), requestId, 200, factsOf(standing, revision));
  });
}

/** Where a call stands when its caller's patience is over. */
function keepFor(pending: PendingCall, line: CallerLine): Promise<SettledCall | CallRecord> {
  line.letGo();
  return keep(pending);
}

/** What became of a call, for the head of its answer. */
function factsOf(
  { id, outcome, replayed, recordedAtMs, isRecorded }: SettledCall,
  revision: string,
): Record<string, string> {
  const facts: Record<string, string> = {
    'callgate-id': id,
    'callgate-status': outcome.status,
    'callgate-revision': revision,
  };
  if (outcome.error !== undefined) facts['callgate-code'] = outcome.error.code;
  if (replayed) facts['callgate-replayed'] = 'true';
  if (recordedAtMs !== undefined) facts['callgate-recorded-at'] = timeText(recordedAtMs);
  if (!isRecorded) facts['callgate-recorded'] = 'false';
  return facts;
}

/** How a request may ask for its outputs to be written. */
export const readRender = (values: readonly string[]): Render | undefined =>
  values.length === 0 ? undefined : choose('render', values, renders, 'envelope');

/** The output of a settled call: as the request asks, else as the operator says, else as the format does. */
export const outputOf = (settled: SettledCall, format: Format, render: Render | undefined): JsonObject =>
  format.output(settled.call, settled.outcome, render ?? settled.render ?? format.defaultRender);

/** The problem of a body that is JSON and still no call. */
export const unreadableBody = (faults: readonly BodyFault[], { name }: Format): Problem =>
  new Problem(
    'invalid_request',
    `the body cannot be read as ${name}: ${[faults[0]?.pointer, faults[0]?.detail].filter(Boolean).join(' ')}`,
    {
      errors: faults.slice(0, 20),
    },
  );
