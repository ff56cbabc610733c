import type { Actor } from '../access/actor.ts';
import { cancelAsked } from '../dispatch/calls-in-flight.ts';
import { actorText } from '../dispatch/receipt.ts';
import { type CallRecord, isFinal } from '../dispatch/record.ts';
import { authenticate } from './authenticate.ts';
import type { Service } from './context.ts';
import { type Answer, type IncomingRequest, jsonAnswer } from './exchange.ts';
import { Problem } from './problem.ts';
import { findRecord, recordMember } from './records.ts';
import { readQuery, requireJsonAccepted } from './request.ts';
import { within } from './waiting.ts';

/** How long a cancelled call may take to end before its caller is told to look later. */
const endMsMax = 1_000;
/** How often the ledger is asked meanwhile about a call that runs in another process. */
const lookAgainMs = 100;

/** `POST /v1/calls/{id}/cancel`: ends one of the caller's own calls, wherever it runs. */
export async function postCancel(
  request: IncomingRequest,
  requestId: string,
  service: Service,
  id: string,
): Promise<Answer> {
  const actor = await authenticate(request, service, requestId);
  requireJsonAccepted(request);
  readQuery(request, {});
  const known = await findRecord(id, actor, service);
  if (isFinal(known.status)) {
    throw new Problem('conflict', `the call has already come to its end: ${known.status}`);
  }
  const record = (await cancelHere(known, service)) ?? (await cancelElsewhere(id, actor, service));
  const body = recordMember(record, actor);
  return isFinal(record.status)
    ? jsonAnswer(body, requestId)
    : jsonAnswer(body, requestId, 202, { 'retry-after': '1', location: `/v1/calls/${id}` });
}

/** The record of a call that this process runs; undefined where it does not. */
async function cancelHere({ id }: CallRecord, { dispatch }: Service): Promise<CallRecord | undefined> {
  const flight = dispatch.inFlight.get(id);
  if (flight === undefined) return undefined;
  flight.cancel(cancelAsked);
  await within(flight.settled, endMsMax);
  return flight.snapshot();
}

async function cancelElsewhere(id: string, actor: Actor, service: Service): Promise<CallRecord> {
  const { ledger, clock, pause } = service.dispatch;
  let record = await findRecord(id, actor, service);
  if (isFinal(record.status)) return record;
  await ledger.requestCancel(record);
  const sinceMs = clock.monotonicMs();
  while (!isFinal(record.status) && clock.monotonicMs() - sinceMs < endMsMax) {
    await pause(lookAgainMs);
    record = (await ledger.get(actorText(actor), id)) ?? record;
  }
  return record;
}
