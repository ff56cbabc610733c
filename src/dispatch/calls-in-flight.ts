import { Cancellation, type CancelSignal } from '../core/cancellation.ts';
import { TransientMap } from '../core/transient-map.ts';
import type { Progress, SettledCall } from './ports.ts';
import type { CallEnd, CallRecord, Claim, RecordedCall, RecordedTool, RecordStatus } from './record.ts';

/** The reason of a cancellation that somebody asked for. */
export const cancelAsked = 'its caller asked for that';

/** The reason of a cancellation for want of anybody who waits. */
export const callerLeft = 'its caller has left';

/** Why a call is cancelled, in words for the model. */
export type CancelReason =
  | typeof cancelAsked
  | typeof callerLeft
  | 'callgate was shut down'
  | 'its run was ended';

/**
 * One call of this process between its receipt and its outcome. Everybody who posts the call meanwhile waits for this
 * one run of it.
 */
export class CallInFlight {
  #call: RecordedCall;
  #status: RecordStatus = 'received';
  #attempt = 0;
  #end: CallEnd | undefined;
  #waiting = 0;
  #isKept = false;
  #isElsewhere = false;
  #mayHaveRun = false;
  #isAdmitted = false;
  #before: CallRecord | undefined;
  #claim: (() => Promise<CallRecord | undefined>) | undefined;
  #claiming: Promise<CallRecord | undefined> | undefined;
  #admission: Promise<void> | undefined;
  #admit: (() => void) | undefined;
  readonly #cancellation = new Cancellation();
  readonly #onRenamed: (flight: CallInFlight, id: string) => void;
  #listeners: Set<(progress: Progress) => void> | undefined;
  /** Set by whoever opened the flight, before anybody else can see it. */
  settled!: Promise<SettledCall>;

  /**
   * Whether the ledger could not be read when the call came. Then nobody knows whether it is a repeat, and no word about
   * the tool of today may stand for one about the call.
   */
  isUnread = false;
  /** Whether the ledger did not take a call that somebody wants to find there. */
  isUnrecorded = false;

  /** @param onRenamed told the id that the call had before */
  constructor(call: RecordedCall, onRenamed: (flight: CallInFlight, id: string) => void = () => {}) {
    this.#call = call;
    this.#onRenamed = onRenamed;
  }

  get call(): RecordedCall {
    return this.#call;
  }

  /** How many wait for it. */
  get waiting(): number {
    return this.#waiting;
  }

  get signal(): CancelSignal {
    return this.#cancellation;
  }

  /** The record that stood under the key when this run of the call began. */
  get before(): CallRecord | undefined {
    return this.#before;
  }

  /** Whether an earlier attempt may have had an effect of which nobody knows. */
  get mayHaveRun(): boolean {
    return this.#mayHaveRun || this.#before?.status === 'unknown';
  }

  /** Whether another process runs the call, and this one waits for what it writes. */
  get isElsewhere(): boolean {
    return this.#isElsewhere;
  }

  /** Goes on under an older record of the same key: one key has one id. */
  takeOver(before: CallRecord): void {
    const { id, createdAtMs, attempt } = before;
    this.#become({ ...this.#call, id, createdAtMs });
    this.#attempt = attempt;
    this.#before = before;
  }

  /** The call is answered from its record. */
  replays(record: CallRecord): void {
    this.takeOver(record);
    this.#call = { ...this.#call, tool: record.tool };
  }

  /** Another process runs the call, as its record says. */
  waitsFor(record: CallRecord): void {
    this.takeOver(record);
    this.#isElsewhere = true;
    this.bind(record.tool);
    this.admitted(record.status === 'received' ? 'received' : 'started');
  }

  /** The other process has come to an end with it, or nobody waits for that any more. */
  waited(record: CallRecord): void {
    this.takeOver(record);
    this.#isElsewhere = false;
  }

  /** The tool that the call turned out to be for. */
  bind(tool: RecordedTool | undefined): void {
    this.#call = { ...this.#call, tool };
    this.#cancelIfUnwanted();
  }

  /**
   * The call is on its way; `claim` puts it into the ledger for somebody who will look for it there, and gives back
   * the record that stands there instead, if one does.
   */
  admitted(status: 'received' | 'started', claim?: () => Promise<CallRecord | undefined>): void {
    if (this.#end === undefined) this.#status = status;
    this.#claim = claim;
    this.#isAdmitted = true;
    this.#admit?.();
  }

  /** The call stands in the ledger, and is ours to run. */
  claimed({ call, attempt }: Claim, status: 'received' | 'started'): void {
    // Somebody had an attempt between our look and our claim; over what it left only these may be claimed.
    const wasOvertaken = attempt > (this.#before?.attempt ?? 0) + 1;
    if (wasOvertaken && call.tool?.isRepeatable === true) this.#mayHaveRun = true;
    this.#become(call);
    this.#attempt = attempt;
    this.admitted(status);
  }

  /** Resolves when the call is on its way, or has come to its end without that. */
  async whenAdmitted(): Promise<void> {
    if (this.#isAdmitted || this.#end !== undefined) return;
    this.#admission ??= new Promise((resolve) => {
      this.#admit = resolve;
    });
    await this.#admission;
  }

  started(): void {
    this.#status = 'started';
  }

  ended(end: CallEnd): void {
    this.#end = end;
    this.#status = end.outcome.status;
    this.#admit?.();
  }

  /** Nothing more will come of this run. */
  closed(): void {
    this.#admit?.();
  }

  /** How often a `tools/call` was sent for it, over all attempts that are known here. */
  get attempts(): number {
    return (this.#before?.attempts ?? 0) + (this.#end?.attempts ?? 0);
  }

  /** What stands in the ledger about the call, or will. */
  snapshot(): CallRecord {
    return {
      ...this.#call,
      status: this.#status,
      attempt: this.#attempt,
      attempts: this.attempts,
      updatedAtMs: this.#end?.atMs ?? this.#call.createdAtMs,
      outcome: this.#end?.outcome,
      isExpired: false,
    };
  }

  /** Makes sure that the call can be found in the ledger, and that nobody's leaving ends it. */
  async keep(): Promise<CallRecord> {
    this.#isKept = true;
    await this.whenAdmitted();
    if (this.#end === undefined) this.#claiming ??= this.#claim?.();
    return (await this.#claiming) ?? this.snapshot();
  }

  join(): void {
    this.#waiting += 1;
  }

  leave(): void {
    this.#waiting -= 1;
    this.#cancelIfUnwanted();
  }

  cancel(reason: CancelReason): void {
    this.#cancellation.abort(reason);
  }

  readonly tell = (progress: Progress): void => {
    for (const listener of this.#listeners ?? []) listener(progress);
  };

  onProgress(listener: (progress: Progress) => void): () => void {
    this.#listeners ??= new Set();
    const listeners = this.#listeners;
    listeners.add(listener);
    return () => void listeners.delete(listener);
  }

  #become(call: RecordedCall): void {
    const { id } = this.#call;
    this.#call = call;
    if (id !== call.id) this.#onRenamed(this, id);
  }

  // O26: a write runs on, and its result is kept for the retry. A mere wait is of no use to anybody who comes later.
  #cancelIfUnwanted(): void {
    if (this.#waiting > 0 || this.#end !== undefined) return;
    const mayEnd = this.#isElsewhere || (this.#call.tool?.target.class === 'read' && !this.#isKept);
    if (mayEnd) this.cancel(callerLeft);
  }
}

/** The calls that this process has taken and not yet settled, by their key and by their id. */
export class CallsInFlight {
  readonly #byKey = new TransientMap<string, CallInFlight>();
  readonly #byId = new TransientMap<string, CallInFlight>();
  #cancelled: CancelReason | undefined;
  #onIdle: (() => void) | undefined;

  get size(): number {
    return this.#byKey.size;
  }

  find(key: string): CallInFlight | undefined {
    return this.#byKey.get(key);
  }

  /** The call with this id, if this process runs it. */
  get(id: string): CallInFlight | undefined {
    const flight = this.#byId.get(id);
    return flight?.isElsewhere === false ? flight : undefined;
  }

  open(call: RecordedCall): CallInFlight {
    const flight = new CallInFlight(call, this.#rename);
    this.#byKey.set(call.key, flight);
    this.#byId.set(call.id, flight);
    if (this.#cancelled !== undefined) flight.cancel(this.#cancelled);
    return flight;
  }

  close(flight: CallInFlight): void {
    flight.closed();
    this.#byKey.delete(flight.call.key);
    this.#byId.delete(flight.call.id);
    if (this.#byKey.size === 0) this.#onIdle?.();
  }

  /** Cancels all calls, and those that still come: the next of a turn in sequence begins when the one before ends. */
  cancelAll(reason: CancelReason): void {
    this.#cancelled = reason;
    for (const flight of this.#byKey.values()) flight.cancel(reason);
  }

  /** Resolves when no call is in flight, and none follows at once, or after `graceMs`. */
  async idle(graceMs: number): Promise<void> {
    let isOver = false;
    const timer = setTimeout(() => {
      isOver = true;
      this.#onIdle?.();
    }, graceMs);
    while (this.#byKey.size > 0 && !isOver) {
      await new Promise<void>((resolve) => {
        this.#onIdle = resolve;
      });
      // Between two calls of a turn in sequence nothing is in flight.
      await new Promise((resolve) => setImmediate(resolve));
    }
    clearTimeout(timer);
  }

  readonly #rename = (flight: CallInFlight, id: string): void => {
    this.#byId.delete(id);
    this.#byId.set(flight.call.id, flight);
  };
}
