import { authorise } from '../access/authorise.ts';
import type { FunctionCall } from '../core/call.ts';
import { capResult } from '../core/cap.ts';
import type { JsonObject } from '../core/json.ts';
import { limits } from '../core/limits.ts';
import { onceFor } from '../core/once-for.ts';
import { type Outcome, succeeded } from '../core/outcome.ts';
import { numericCopy } from '../tools/arguments.ts';
import { declaredPath, projectionOf, type Renames, restoreKeys } from '../tools/projection.ts';
import type { Binding } from '../tools/registry.ts';
import { withoutStrictNulls } from '../tools/strict-schema.ts';
import type { CallInFlight } from './calls-in-flight.ts';
import { join, Place, refused, takePlace } from './join.ts';
import {
  afterUnknown,
  attemptFailed,
  cancelledUnsent,
  forbidden,
  invalidArguments,
  ledgerUnavailable,
  recordUnreadable,
  toolError,
  tooManyWait,
  unknownTool,
  unreadableArguments,
  unusableSchema,
} from './outcomes.ts';
import type { Attempt, Caller, DispatchPorts, PendingCall, SettledCall, ToolCall } from './ports.ts';
import { type Receipt, receive } from './receipt.ts';
import {
  type CallEnd,
  type CallRecord,
  type Claim,
  isFinal,
  type RecordedCall,
  type RecordedTool,
} from './record.ts';
import { claim, claimLate, recall, recordEnd, settleClaim, settleLate, start } from './recording.ts';
import { answerKnown, answerStanding, type RepeatAnswer, replay } from './repeat.ts';

/** How a run came to its end, and what it learned on its way there. */
interface Ended {
  readonly outcome: Outcome;
  readonly binding?: Binding;
  readonly attempt?: Attempt;
  /** Whether the outcome was found instead of made, and the record that it was found in. */
  readonly isRepeat?: boolean;
  readonly replayOf?: CallRecord | undefined;
  /** Whether a repeat will be recognised. */
  readonly isRecorded: boolean;
}

/**
 * Takes one function call: known already? answer from the record; else find the binding, authorise, check the
 * arguments, claim in the ledger, call the tool, settle. Every failure is an outcome under the caller's `call_id`.
 */
export function dispatch(call: FunctionCall, caller: Caller, ports: DispatchPorts): PendingCall {
  return dispatchReceived(receive(call, caller), caller, ports);
}

function dispatchReceived(receipt: Receipt, caller: Caller, ports: DispatchPorts): PendingCall {
  const { call, key, fingerprint, actor, name } = receipt;
  const recorded: RecordedCall = {
    id: ports.newId(),
    key,
    fingerprint,
    actor,
    run: caller.run,
    turn: caller.turn,
    callId: call.callId,
    name,
    tool: undefined,
    createdAtMs: ports.clock.nowMs(),
  };
  const running = ports.inFlight.find(key);
  if (running !== undefined && running.waiting >= limits.waitersMax) {
    return refused(tooManyWait(), recorded, call, caller, ports);
  }
  if (running !== undefined) {
    const anew = (): PendingCall => dispatchReceived(receipt, caller, ports);
    return join(running, recorded, receipt, caller, ports, anew);
  }
  const flight = ports.inFlight.open(recorded);
  const leave = takePlace(flight);
  flight.settled = runToEnd(flight, receipt, caller, ports);
  return new Place(call, flight, flight.settled, leave);
}

async function runToEnd(
  flight: CallInFlight,
  receipt: Receipt,
  caller: Caller,
  ports: DispatchPorts,
): Promise<SettledCall> {
  const startedMs = ports.clock.monotonicMs();
  try {
    const ended = await run(flight, receipt, caller, ports);
    const { outcome, binding, attempt, replayOf } = ended;
    if (replayOf !== undefined) flight.replays(replayOf);
    flight.ended({
      outcome,
      attempts: replayOf === undefined ? (attempt?.attempts ?? 0) : 0,
      atMs: replayOf?.updatedAtMs ?? ports.clock.nowMs(),
    });
    const settled: SettledCall = {
      id: flight.call.id,
      call: receipt.call,
      outcome,
      // AZ-3: the way a hidden tool's outputs are written would show that it is there.
      render: outcome.error?.code === 'unknown_tool' ? undefined : flight.call.tool?.render,
      attempts: flight.attempts,
      durationMs: ports.clock.monotonicMs() - startedMs,
      replayed: replayOf !== undefined,
      recordedAtMs: replayOf !== undefined && isFinal(replayOf.status) ? replayOf.updatedAtMs : undefined,
      isRecorded: ended.isRecorded,
    };
    if (ended.isRepeat === true) ports.observer.callReplayed({ settled, caller });
    else {
      ports.observer.callFinished({
        settled,
        caller,
        binding,
        argumentsHash: receipt.argumentsHash,
        mended: receipt.arguments.ok ? receipt.arguments.value.mended : undefined,
        upstreamMs: attempt?.upstreamMs ?? 0,
      });
    }
    return settled;
  } finally {
    ports.inFlight.close(flight);
  }
}

function run(
  flight: CallInFlight,
  receipt: Receipt,
  caller: Caller,
  ports: DispatchPorts,
): Ended | Promise<Ended> {
  const recalled = recall(flight, ports);
  return recalled === undefined
    ? runUnknown(flight, receipt, caller, ports)
    : runRecalled(recalled, flight, receipt, caller, ports);
}

async function runRecalled(
  recalled: CallRecord | Promise<CallRecord | undefined>,
  flight: CallInFlight,
  receipt: Receipt,
  caller: Caller,
  ports: DispatchPorts,
): Promise<Ended> {
  const known = await recalled;
  if (known !== undefined) {
    const answer = await answerKnown(known, flight, receipt, caller, ports);
    if (answer !== undefined) return repeated(answer);
    // Where it was waited for, the record that it came to has been taken over already.
    if (flight.before === undefined) flight.takeOver(known);
  }
  return runUnknown(flight, receipt, caller, ports);
}

/** Runs a call for which there is no record, or one that leaves it to be run. */
function runUnknown(
  flight: CallInFlight,
  receipt: Receipt,
  caller: Caller,
  ports: DispatchPorts,
): Ended | Promise<Ended> {
  const binding = ports.registry().find(receipt.name);
  if (binding === undefined) return rejected(unknownTool(receipt.call, caller, ports), flight, ports);
  flight.bind(recordedTool(binding));

  const right = authorise(caller.actor, binding.target);
  if (!right.allowed) {
    // AZ-3: with hideForbidden a tool that may not be called looks exactly like one that is not there.
    const outcome = ports.hideForbidden ? unknownTool(receipt.call, caller, ports) : forbidden(right.missing);
    return rejected(outcome, flight, ports, binding);
  }

  if (!receipt.arguments.ok) {
    return rejected(unreadableArguments(receipt.arguments.error, caller), flight, ports, binding);
  }
  const { value: sent, hasExactNumbers } = receipt.arguments.value;
  const renames = renamesOf(binding, caller);
  const value = ownArguments(sent, renames, binding, caller);
  const findings = binding.checkArguments(hasExactNumbers ? numericCopy(value) : value);
  if (!findings.ok) return rejected(unusableSchema(findings.error, binding), flight, ports, binding);
  if (findings.value.length > 0) {
    const told = findings.value.map((finding) => ({ ...finding, path: declaredPath(finding.path, renames) }));
    return rejected(invalidArguments(told, caller), flight, ports, binding);
  }

  if (flight.signal.aborted) return rejected(cancelledUnsent(flight.signal.reason), flight, ports, binding);

  return binding.target.class === 'read'
    ? read(flight, binding, value, caller, ports)
    : write(flight, receipt, binding, value, caller, ports);
}

/** A call that only reads waits for the ledger neither before nor after it. */
function read(
  flight: CallInFlight,
  binding: Binding,
  value: JsonObject,
  caller: Caller,
  ports: DispatchPorts,
): Promise<Ended> {
  flight.admitted('started', () => claimLate(flight, ports));
  return ports.upstream.callTool(toolCall(flight, binding, value, caller)).then((attempt) => {
    const end = endOf(attempt, binding, flight, ports);
    return { outcome: end.outcome, binding, attempt, isRecorded: recordEnd(flight, end, ports) };
  });
}

/** A call that may change something: `started` is durable before it is sent, its end before it is told (RL-1). */
async function write(
  flight: CallInFlight,
  receipt: Receipt,
  binding: Binding,
  value: JsonObject,
  caller: Caller,
  ports: DispatchPorts,
): Promise<Ended> {
  const taking = await takeForThisProcess(flight, receipt, binding, caller, ports);
  if ('isRecorded' in taking) return taking;
  const { taken, status } = taking;
  ports.observer.callAdmitted({ claim: taken, caller, argumentsHash: receipt.argumentsHash });

  const beforeSend = status === 'started' ? undefined : () => start(taken, flight, ports);
  // The requests of the attempt have been counted with its first end.
  const onLateAnswer = (late: Attempt): void =>
    settleLate(taken, { ...endOf(late, binding, flight, ports), attempts: 0 }, ports);
  const attempt = await ports.upstream.callTool(
    toolCall(flight, binding, value, caller, beforeSend, onLateAnswer),
  );
  const end = endOf(attempt, binding, flight, ports);
  // What was not sent has nothing to lose: without its end in the ledger, the next sweep says the same of it.
  const patienceMs = end.outcome.status === 'not_sent' ? 0 : binding.policy.timeoutMs;
  const settling = await settleClaim(taken, end, patienceMs, ports);
  if (settling === 'gone_on') {
    // The call was taken for lost meanwhile. What its record says by now is what every other post of it gets.
    const answer = await answerStanding(flight, receipt, caller, ports);
    if (answer !== undefined) return { ...answer, binding, attempt, isRecorded: true };
  }
  // Another process may have run it since: what is not written down is no word on the call.
  if (settling === 'not_written' && end.outcome.status === 'not_sent') {
    return { outcome: ledgerUnavailable(), binding, attempt, isRecorded: false };
  }
  return { outcome: end.outcome, binding, attempt, isRecorded: settling === 'settled' };
}

/** The claim to a call that may change something; or its end, where it has one without being sent. */
async function takeForThisProcess(
  flight: CallInFlight,
  receipt: Receipt,
  binding: Binding,
  caller: Caller,
  ports: DispatchPorts,
): Promise<{ readonly taken: Claim; readonly status: 'received' | 'started' } | Ended> {
  for (;;) {
    // What has to wait for its turn is claimed as received, so that a crash meanwhile leaves it as not sent; but never
    // after an attempt that may have had an effect.
    const canBeNotSent = !ports.upstream.canSendNow(binding.alias, caller) && !flight.mayHaveRun;
    const status = canBeNotSent ? 'received' : 'started';
    const claiming = await claim(flight, status, ports);
    if (claiming.kind === 'refused') {
      const outcome = flight.isUnread ? recordUnreadable() : claiming.outcome;
      return { outcome, binding, isRecorded: false };
    }
    if (claiming.kind === 'claimed') {
      flight.claimed(claiming.claim, status);
      return { taken: claiming.claim, status };
    }
    const { record } = claiming;
    const answer = await answerKnown(record, flight, receipt, caller, ports);
    if (answer !== undefined) return repeated(answer);
    // It has been unknown since its tool was declared harmless, and the ledger goes by what it was then.
    if (isFinal(record.status)) return repeated(replay(record));
    // Another process was quicker and has come to an end that leaves the call to whoever comes next.
  }
}

const toolCall = (
  { call, signal, tell }: CallInFlight,
  { alias, tool, policy, inputSchema }: Binding,
  value: JsonObject,
  caller: Caller,
  beforeSend?: ToolCall['beforeSend'],
  onLateAnswer: ToolCall['onLateAnswer'] = ignore,
): ToolCall => ({
  alias,
  tool,
  arguments: value,
  inputSchema,
  caller,
  id: call.id,
  timeoutMs: policy.timeoutMs,
  timeoutTotalMs: policy.timeoutTotalMs,
  mayRepeat: policy.retry === 'safe' && call.tool?.isRepeatable === true,
  signal,
  beforeSend,
  onProgress: tell,
  onLateAnswer,
});

/** The arguments under the server's own keys, without what only the declaration has put into them. */
function ownArguments(
  value: JsonObject,
  renames: Renames,
  { inputSchema }: Binding,
  { format }: Caller,
): JsonObject {
  const restored = restoreKeys(value, renames);
  return format.options.has('strict') ? withoutStrictNulls(restored, inputSchema) : restored;
}

/** What the format of the caller calls otherwise than the server does. */
function renamesOf(binding: Binding, { format }: Caller): Renames {
  const projection = format.schemaRules === undefined ? undefined : projectionOf(binding, format.schemaRules);
  return projection?.ok === true ? projection.value.renames : noRenames;
}

const noRenames: Renames = new Map();
const ignore = (): void => {};

const recordedTool = onceFor(
  ({ tool, target, policy }: Binding): RecordedTool => ({
    name: tool,
    target,
    isRepeatable: target.class === 'read' || policy.idempotent,
    render: policy.render,
  }),
);

function endOf(
  attempt: Attempt,
  binding: Binding,
  { mayHaveRun }: CallInFlight,
  { clock }: DispatchPorts,
): CallEnd {
  const outcome = outcomeOf(attempt, binding);
  return {
    outcome: mayHaveRun ? afterUnknown(outcome) : outcome,
    attempts: attempt.attempts,
    atMs: clock.nowMs(),
  };
}

function outcomeOf(attempt: Attempt, binding: Binding): Outcome {
  if (attempt.kind === 'failed') return attemptFailed(attempt, binding.alias);
  const result = capResult(attempt.result, binding.policy.outputCharsMax);
  if (result.isError) return toolError(result);
  // What was too large to be passed on is too large to be held against a schema as well.
  const isCut = attempt.result.structuredContent !== undefined && result.structuredContent === undefined;
  return succeeded(result, isCut ? [] : binding.checkOutput(result));
}

/**
 * A call that was turned away before it could have an effect. Its record holds no claim to its key, and takes no place
 * of one that says that there may have been an effect before.
 */
function rejected(outcome: Outcome, flight: CallInFlight, ports: DispatchPorts, binding?: Binding): Ended {
  const found = binding === undefined ? {} : { binding };
  // A record that cannot be read may say otherwise, whatever has become of the tool since.
  if (flight.isUnread && binding?.target.class !== 'read') {
    return { outcome: recordUnreadable(), ...found, isRecorded: false };
  }
  const end = { outcome, attempts: 0, atMs: ports.clock.nowMs() };
  return { outcome, ...found, isRecorded: flight.mayHaveRun || recordEnd(flight, end, ports) };
}

const repeated = ({ outcome, replayOf }: RepeatAnswer): Ended => ({
  outcome,
  isRepeat: true,
  replayOf,
  isRecorded: true,
});
