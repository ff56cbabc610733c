import type { Actor } from '../access/actor.ts';
import { authorise } from '../access/authorise.ts';
import type { JsonObject } from '../core/json.ts';
import { limits } from '../core/limits.ts';
import { timeText } from '../core/text.ts';
import type { Ledger, RecordQuery } from '../dispatch/ports.ts';
import { actorText } from '../dispatch/receipt.ts';
import {
  type CallRecord,
  callIdPattern,
  mayHaveExecuted,
  type RecordStatus,
  recordStatuses,
} from '../dispatch/record.ts';
import { nativeFormat } from '../formats/formats.ts';
import { authenticate } from './authenticate.ts';
import type { Service } from './context.ts';
import { type Answer, type IncomingRequest, jsonAnswer } from './exchange.ts';
import { Problem } from './problem.ts';
import { badParameter, type Query, readQuery, requireJsonAccepted } from './request.ts';

const pageDefault = 20;
const pageMax = 100;
/** Records that are read from the ledger at a time, fewer where they are large (see `RecordList`). */
const batchSize = 25;
/** How often the ledger is asked for one page: often enough for the longest, and a bound where few records fit. */
const batchesMax = Math.ceil((pageMax + 1) / batchSize);
/** Characters of outputs on one page; over it the page ends early and the next one goes on. */
const pageCharsMax = 8_388_608;

/** `GET /v1/calls/{id}`: one of the caller's own calls. */
export async function getCall(
  request: IncomingRequest,
  requestId: string,
  service: Service,
  id: string,
): Promise<Answer> {
  const actor = await authenticate(request, service, requestId);
  requireJsonAccepted(request);
  readQuery(request, {});
  const record = await findRecord(id, actor, service);
  return jsonAnswer(recordMember(record, actor), requestId);
}

/** `GET /v1/calls`: the caller's own calls, newest first. */
export async function getCalls(
  request: IncomingRequest,
  requestId: string,
  service: Service,
): Promise<Answer> {
  const actor = await authenticate(request, service, requestId);
  requireJsonAccepted(request);
  const query = readQuery(request, {
    call_id: 'one',
    run: 'one',
    turn: 'one',
    status: 'one',
    limit: 'one',
    cursor: 'one',
  });
  const limit = readLimit(query('limit'));
  const wanted: Omit<RecordQuery, 'limit'> = {
    actor: actorText(actor),
    callId: readName('call_id', query),
    run: readName('run', query),
    turn: readName('turn', query),
    status: readStatus(query('status')),
    before: readCursor(query('cursor')),
  };
  const { admission } = service;
  if (!admission.takeList(wanted.actor)) {
    throw new Problem(
      'overloaded',
      'a list of yours, or too many of others, is being made; send it again later',
      { headers: { 'retry-after': '1' } },
    );
  }
  try {
    const { calls, next } = await readPage(wanted, limit, actor, service.dispatch.ledger);
    const headers = next === undefined ? {} : { link: `<${nextPage(wanted, limit, next)}>; rel="next"` };
    return jsonAnswer({ calls }, requestId, 200, headers);
  } finally {
    admission.giveList(wanted.actor);
  }
}

interface Page {
  readonly calls: readonly JsonObject[];
  /** Where the next page begins; undefined on the last one. */
  readonly next: string | undefined;
}

/** A page, read a few records at a time, since their outputs may be large. */
async function readPage(
  wanted: Omit<RecordQuery, 'limit'>,
  limit: number,
  actor: Actor,
  ledger: Ledger,
): Promise<Page> {
  const calls: JsonObject[] = [];
  let { before } = wanted;
  let chars = 0;
  for (let batches = 0; batches < batchesMax; batches += 1) {
    // One more than there is room for tells whether there is another page.
    const asked = Math.min(batchSize, limit + 1 - calls.length);
    const batch = await ledger.list({ ...wanted, before, limit: asked });
    for (const record of batch) {
      if (calls.length === limit) return { calls, next: before };
      const member = recordMember(record, actor);
      chars += JSON.stringify(member).length;
      if (calls.length > 0 && chars > pageCharsMax) return { calls, next: before };
      calls.push(member);
      before = record.id;
    }
    if (batch.resumeBefore !== undefined) before = batch.resumeBefore;
    else if (batch.length < asked) return { calls, next: undefined };
  }
  return { calls, next: before };
}

function nextPage(
  { callId, run, turn, status }: Omit<RecordQuery, 'limit'>,
  limit: number,
  cursor: string | undefined,
): string {
  const query = new URLSearchParams();
  const parameters = { call_id: callId, run, turn, status, limit, cursor };
  for (const [name, value] of Object.entries(parameters)) {
    if (value !== undefined) query.set(name, String(value));
  }
  return `/v1/calls?${query}`;
}

/** A call of this actor: as it runs here, else as the ledger has it. @throws Problem `not_found`, LedgerUnavailable */
export async function findRecord(id: string, actor: Actor, service: Service): Promise<CallRecord> {
  const { inFlight, ledger } = service.dispatch;
  const own = actorText(actor);
  const flight = inFlight.get(id);
  if (flight !== undefined && flight.call.actor === own) return flight.snapshot();
  const record = callIdPattern.test(id) ? await ledger.get(own, id) : undefined;
  if (record === undefined) throw new Problem('not_found', 'there is no such call of yours, or no longer');
  return record;
}

/** A record as its owner sees it. */
export function recordMember(record: CallRecord, actor: Actor): JsonObject {
  const { outcome, isExpired } = record;
  const code = isExpired ? 'call_expired' : outcome?.error?.code;
  return {
    id: record.id,
    call_id: record.callId,
    run: record.run ?? null,
    turn: record.turn ?? null,
    name: record.name,
    status: record.status,
    ...(code === undefined ? {} : { code }),
    may_have_executed: mayHaveExecuted(record),
    attempts: record.attempts,
    created_at: timeText(record.createdAtMs),
    updated_at: timeText(record.updatedAtMs),
    ...outputMember(record, actor),
  };
}

function outputMember(record: CallRecord, actor: Actor): JsonObject {
  const { callId, name, outcome, tool, isExpired } = record;
  if (outcome === undefined || isExpired) return {};
  // AZ-3: to whom a tool is hidden, its record looks like that of a tool that is not there.
  const isHidden = outcome.error?.code === 'unknown_tool';
  // AZ-10: an output is shown to whoever could make the call now.
  if (!isHidden && tool !== undefined && !authorise(actor, tool.target).allowed) return {};
  const render = (isHidden ? undefined : tool?.render) ?? nativeFormat.defaultRender;
  return { output: nativeFormat.output({ callId, name, arguments: undefined }, outcome, render) };
}

function readLimit([value]: readonly string[]): number {
  if (value === undefined) return pageDefault;
  const limit = /^\d{1,3}$/.test(value) ? Number(value) : 0;
  if (limit < 1 || limit > pageMax) throw badParameter('limit', `must be a number from 1 to ${pageMax}`);
  return limit;
}

function readName(parameter: 'call_id' | 'run' | 'turn', query: Query<typeof parameter>): string | undefined {
  const [value] = query(parameter);
  if (value !== undefined && (value === '' || value.length > limits.idCharsMax)) {
    throw badParameter(parameter, `must have 1 to ${limits.idCharsMax} characters`);
  }
  return value;
}

function readStatus([value]: readonly string[]): RecordStatus | undefined {
  const status = recordStatuses.find((each) => each === value);
  if (value !== undefined && status === undefined) {
    throw badParameter('status', `must be one of ${recordStatuses.join(', ')}`);
  }
  return status;
}

function readCursor([value]: readonly string[]): string | undefined {
  if (value !== undefined && !callIdPattern.test(value)) {
    throw badParameter('cursor', 'must be the one from the Link header of the page before');
  }
  return value;
}
