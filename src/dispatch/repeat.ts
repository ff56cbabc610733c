import { authorise } from '../access/authorise.ts';
import { limits } from '../core/limits.ts';
import type { Outcome } from '../core/outcome.ts';
import { type CallInFlight, cancelAsked } from './calls-in-flight.ts';
import { callExpired, callIdReused, forbidden, stillRunning, unknownTool } from './outcomes.ts';
import type { Caller, DispatchPorts } from './ports.ts';
import type { Receipt } from './receipt.ts';
import { type CallRecord, isFinal } from './record.ts';
import { forwardCancel, recall } from './recording.ts';

/** The answer to a repeat. */
export interface RepeatAnswer {
  readonly outcome: Outcome;
  /** The record that it was taken from; undefined where it only says why the record is not told. */
  readonly replayOf: CallRecord | undefined;
}

/**
 * What a repeat is answered, or undefined where the call is to be run (security 6.4). The record decides, whatever has
 * become of its tool since. A call that runs in another process is waited for: that one alone may settle it.
 */
export async function answerKnown(
  known: CallRecord,
  flight: CallInFlight,
  receipt: Receipt,
  caller: Caller,
  ports: DispatchPorts,
): Promise<RepeatAnswer | undefined> {
  if (known.status === 'rejected') return undefined;
  if (known.fingerprint !== receipt.fingerprint) {
    return { outcome: callIdReused(receipt.call.callId), replayOf: undefined };
  }
  if (mayRunAgain(known)) return undefined;
  const hidden = withheldFrom(caller, known, receipt, ports);
  if (hidden !== undefined) return { outcome: hidden, replayOf: undefined };
  if (!isFinal(known.status)) {
    const later = await waitElsewhere(known, flight, ports);
    return isFinal(later.status)
      ? answerKnown(later, flight, receipt, caller, ports)
      : { outcome: stillRunning(known), replayOf: later };
  }
  return replay(known);
}

/** The recorded outcome, or what is left of it. */
export const replay = (record: CallRecord): RepeatAnswer => ({
  outcome: record.isExpired || record.outcome === undefined ? callExpired(record) : record.outcome,
  replayOf: record,
});

// Either nothing was sent, or nobody knows how it ended and a second time does no harm.
const mayRunAgain = ({ status, tool, attempt, isExpired }: CallRecord): boolean =>
  status === 'not_sent' ||
  (status === 'unknown' && tool?.isRepeatable === true && !isExpired && attempt < limits.claimsMax);

/** How often the ledger is asked about a call that another process runs. */
const lookAgainMs = 100;

/** The record once it is final, or as it is when nobody waits for it here any more. */
async function waitElsewhere(
  known: CallRecord,
  flight: CallInFlight,
  ports: DispatchPorts,
): Promise<CallRecord> {
  flight.waitsFor(known);
  let record = known;
  let isForwarded = false;
  while (!isFinal(record.status) && (!flight.signal.aborted || isAsked(flight))) {
    // The wish came before it was known that the call runs elsewhere.
    if (isAsked(flight) && !isForwarded) isForwarded = await forwardCancel(record, ports);
    await ports.pause(lookAgainMs);
    // While the ledger cannot be read, the last look counts.
    record = (await recall(flight, ports)) ?? record;
  }
  flight.waited(record);
  return record;
}

const isAsked = ({ signal }: CallInFlight): boolean => signal.reason === cancelAsked;

/** What the record of a call says by now, where it has gone on without us; undefined where it cannot be read. */
export async function answerStanding(
  flight: CallInFlight,
  receipt: Receipt,
  caller: Caller,
  ports: DispatchPorts,
): Promise<RepeatAnswer | undefined> {
  for (;;) {
    const record = await recall(flight, ports);
    if (record === undefined) return undefined;
    const answer = await answerKnown(record, flight, receipt, caller, ports);
    if (answer !== undefined) return answer;
    // It may be run again, but not by a post that has been sent already.
    if (isFinal(record.status)) return replay(record);
  }
}

/** AZ-10: an outcome is shown to whoever could make the call now. */
export function withheldFrom(
  caller: Caller,
  { tool, status }: Pick<CallRecord, 'tool' | 'status'>,
  { call }: Receipt,
  ports: DispatchPorts,
): Outcome | undefined {
  if (tool === undefined) return undefined;
  const right = authorise(caller.actor, tool.target);
  if (right.allowed) return undefined;
  if (ports.hideForbidden) return unknownTool(call, caller, ports);
  return forbidden(right.missing, status !== 'received' && status !== 'not_sent' && status !== 'rejected');
}
