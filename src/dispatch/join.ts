import type { FunctionCall } from '../core/call.ts';
import type { Outcome } from '../core/outcome.ts';
import { CallInFlight, callerLeft } from './calls-in-flight.ts';
import { callIdReused } from './outcomes.ts';
import type { Caller, DispatchPorts, PendingCall, Progress, SettledCall } from './ports.ts';
import type { Receipt } from './receipt.ts';
import type { CallRecord, RecordedCall } from './record.ts';
import { withheldFrom } from './repeat.ts';

/** One more who waits for a call; gives back how to leave. */
export function takePlace(flight: CallInFlight): () => void {
  flight.join();
  let isHere = true;
  return () => {
    if (isHere) flight.leave();
    isHere = false;
  };
}

/** The handle of somebody who waits for a run of a call. */
export class Place implements PendingCall {
  readonly call: FunctionCall;
  readonly settled: Promise<SettledCall>;
  readonly leave: () => void;
  readonly #flight: CallInFlight;

  constructor(call: FunctionCall, flight: CallInFlight, settled: Promise<SettledCall>, leave: () => void) {
    this.call = call;
    this.settled = settled;
    this.leave = leave;
    this.#flight = flight;
  }

  snapshot(): CallRecord {
    return this.#flight.snapshot();
  }

  isRecorded(): boolean {
    return !this.#flight.isUnrecorded;
  }

  async keep(): Promise<CallRecord> {
    const record = await this.#flight.keep();
    // Whoever looks into the ledger later needs nobody here who does so meanwhile.
    if (this.#flight.isElsewhere) this.leave();
    return record;
  }

  onProgress(listener: (progress: Progress) => void): () => void {
    return this.#flight.onProgress(listener);
  }
}

/**
 * The same call once more while it runs: one run, as many answers as there are posts. What this post may be told is
 * clear when the call is on its way; a call that was turned away instead is looked at `anew`, for this post may differ
 * in just what it was turned away for.
 */
export function join(
  flight: CallInFlight,
  own: RecordedCall,
  receipt: Receipt,
  caller: Caller,
  ports: DispatchPorts,
  anew: () => PendingCall,
): PendingCall {
  const { call } = receipt;
  const leave = takePlace(flight);
  let handle: PendingCall | undefined;
  let hasLeft = false;
  // It ends because nobody waited for it, which is not true any more.
  const wasGivenUp = flight.signal.reason === callerLeft;

  const share = (settled: SettledCall): SettledCall | Promise<SettledCall> => {
    if (wasGivenUp || settled.outcome.status === 'rejected') return anew().settled;
    const answer = { ...settled, call, replayed: true };
    ports.observer.callReplayed({ settled: answer, caller });
    return answer;
  };
  const decide = (): PendingCall => {
    const { status } = flight.snapshot();
    if (status === 'rejected') {
      const next = anew();
      if (hasLeft) next.leave();
      return next;
    }
    const isSame = flight.call.fingerprint === receipt.fingerprint;
    const refusal = isSame
      ? withheldFrom(caller, flight.snapshot(), receipt, ports)
      : callIdReused(call.callId);
    if (refusal === undefined) return new Place(call, flight, flight.settled.then(share), leave);
    leave();
    return refused(refusal, own, call, caller, ports);
  };
  const decided = flight.whenAdmitted().then(() => {
    handle = decide();
    return handle;
  });

  return {
    call,
    settled: decided.then(({ settled }) => settled),
    snapshot: () => (handle ?? flight).snapshot(),
    isRecorded: () => handle?.isRecorded() ?? true,
    keep: async () => (await decided).keep(),
    onProgress: (listener) => {
      let stop: (() => void) | undefined;
      let isStopped = false;
      void decided.then((known) => {
        if (!isStopped) stop = known.onProgress(listener);
      });
      return () => {
        isStopped = true;
        stop?.();
      };
    },
    leave: () => {
      hasLeft = true;
      leave();
      handle?.leave();
    },
  };
}

/** A post that gets an answer of its own, and learns nothing of the call that runs. */
export function refused(
  outcome: Outcome,
  own: RecordedCall,
  call: FunctionCall,
  caller: Caller,
  ports: DispatchPorts,
): PendingCall {
  const flight = new CallInFlight(own);
  flight.ended({ outcome, attempts: 0, atMs: own.createdAtMs });
  const settled: SettledCall = {
    id: own.id,
    call,
    outcome,
    render: undefined,
    attempts: 0,
    durationMs: 0,
    replayed: false,
    recordedAtMs: undefined,
    isRecorded: true,
  };
  ports.observer.callReplayed({ settled, caller });
  flight.settled = Promise.resolve(settled);
  return new Place(call, flight, flight.settled, () => {});
}
