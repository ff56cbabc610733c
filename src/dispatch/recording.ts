import type { Outcome } from '../core/outcome.ts';
import type { CallInFlight } from './calls-in-flight.ts';
import { ledgerUnavailable, quotaExceeded } from './outcomes.ts';
import {
  type ClaimResult,
  type DispatchPorts,
  type LedgerStep,
  LedgerUnavailable,
  type Refusal,
} from './ports.ts';
import type { CallEnd, CallRecord, Claim } from './record.ts';

/** Between two tries to settle what a server has already answered. */
const settleGapMs = 250;

type Recorder = Pick<DispatchPorts, 'ledger' | 'observer' | 'clock' | 'pause'>;

/** What became of a claim: the right to run, the record of somebody who was there before, or an outcome without a run. */
export type Claiming =
  | { readonly kind: 'claimed'; readonly claim: Claim }
  | { readonly kind: 'known'; readonly record: CallRecord }
  | { readonly kind: 'refused'; readonly outcome: Outcome };

/** The record of a call, if there is one; undefined too where the ledger cannot be read, and then the flight says so. */
export function recall(
  flight: CallInFlight,
  ports: Recorder,
): CallRecord | undefined | Promise<CallRecord | undefined> {
  const found = ports.ledger.find(flight.call.key);
  if (!(found instanceof Promise)) return found;
  return found.catch((error: unknown) => {
    missed(error, 'find', ports);
    flight.isUnread = true;
    return undefined;
  });
}

/** Claims a call that may change something, durably. */
export const claim = (
  flight: CallInFlight,
  status: 'received' | 'started',
  ports: Recorder,
): Promise<Claiming> =>
  ports.ledger.claim(flight.call, status).then(orQuota, (error: unknown) => {
    missed(error, 'claim', ports);
    return { kind: 'refused', outcome: ledgerUnavailable() };
  });

const orQuota = (claimed: ClaimResult): Claiming =>
  claimed.kind === 'quota_exceeded'
    ? { kind: 'refused', outcome: quotaExceeded(claimed.retryAfterMs) }
    : claimed;

/**
 * Puts a call that only reads into the ledger while it runs, for a caller that will look for it there. Gives back the
 * record of somebody who was there before.
 */
export async function claimLate(flight: CallInFlight, ports: Recorder): Promise<CallRecord | undefined> {
  try {
    const claimed = await ports.ledger.claim(flight.call, 'started');
    if (claimed.kind === 'known') return claimed.record;
    if (claimed.kind === 'claimed') flight.claimed(claimed.claim, 'started');
    else flight.isUnrecorded = true;
  } catch (error) {
    missed(error, 'claim', ports);
    flight.isUnrecorded = true;
  }
  return undefined;
}

/** Marks a claimed call as started, durably; what it gives back keeps it from being sent. */
export async function start(
  claim: Claim,
  flight: CallInFlight,
  ports: Recorder,
): Promise<Refusal | undefined> {
  try {
    if (await ports.ledger.start(claim)) {
      flight.started();
      return undefined;
    }
    return {
      code: 'interrupted',
      message: 'another process has taken this call over; the call was not sent',
    };
  } catch (error) {
    missed(error, 'start', ports);
    return ledgerUnavailable().error;
  }
}

/**
 * Writes the end of a claimed call, again and again for at most `patienceMs`: the server has answered, and a repeat
 * must find that. `gone_on` where the record no longer waits for it, `not_written` where the ledger took nothing.
 */
export async function settleClaim(
  claim: Claim,
  end: CallEnd,
  patienceMs: number,
  ports: Recorder,
): Promise<'settled' | 'gone_on' | 'not_written'> {
  const sinceMs = ports.clock.monotonicMs();
  for (;;) {
    try {
      return (await ports.ledger.settle(claim, end)) ? 'settled' : 'gone_on';
    } catch (error) {
      missed(error, 'settle', ports);
      if (ports.clock.monotonicMs() - sinceMs >= patienceMs) return 'not_written';
      await ports.pause(settleGapMs);
    }
  }
}

/** Writes the end of a call that has no claim, which nobody waits for. False when that is known to fail. */
export function recordEnd({ call }: CallInFlight, end: CallEnd, ports: Recorder): boolean {
  const isUsable = ports.ledger.fault() === undefined;
  ports.ledger.record(call, end).catch((error: unknown) => void missed(error, 'record', ports));
  return isUsable;
}

/** Passes the wish to cancel a call on to the process that runs it; false where it could not be. */
export async function forwardCancel(record: CallRecord, ports: Recorder): Promise<boolean> {
  try {
    await ports.ledger.requestCancel(record);
    return true;
  } catch (error) {
    missed(error, 'cancel', ports);
    return false;
  }
}

/** Writes an answer that came after its attempt was given up. */
export function settleLate(claim: Claim, end: CallEnd, ports: Recorder): void {
  ports.ledger.settle(claim, end).then(
    (isTaken) => {
      if (isTaken) ports.observer.callSettledLate({ claim, outcome: end.outcome });
    },
    (error: unknown) => void missed(error, 'settle', ports),
  );
}

function missed(error: unknown, during: LedgerStep, { observer }: Recorder): undefined {
  if (!(error instanceof LedgerUnavailable)) throw error;
  observer.ledgerFailed({ during, reason: error.message });
}
