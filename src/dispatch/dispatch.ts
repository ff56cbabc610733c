import { hash } from 'node:crypto';
import { authorise } from '../access/authorise.ts';
import { type FunctionCall, lookupName } from '../core/call.ts';
import { capResult } from '../core/cap.ts';
import { canonicalJson } from '../core/json.ts';
import { type Outcome, succeeded } from '../core/outcome.ts';
import { numericCopy, type ReadArguments, readArguments } from '../tools/arguments.ts';
import type { Binding } from '../tools/registry.ts';
import {
  attemptFailed,
  forbidden,
  invalidArguments,
  toolError,
  unknownTool,
  unreadableArguments,
  unusableSchema,
} from './outcomes.ts';
import type { Attempt, Caller, DispatchPorts, SettledCall } from './ports.ts';

/** What the pipeline learned on its way, whether or not it came to its end. */
interface Progress {
  readonly outcome: Outcome;
  readonly binding: Binding | undefined;
  readonly arguments: ReadArguments | undefined;
  readonly attempt: Attempt | undefined;
}

/**
 * Takes one function call to its outcome: find the binding, authorise, check the arguments, call the tool, settle.
 * Every failure is an outcome under the caller's `call_id`. @throws never, save for a bug
 */
export async function dispatch(
  call: FunctionCall,
  caller: Caller,
  ports: DispatchPorts,
): Promise<SettledCall> {
  const startedMs = ports.clock.monotonicMs();
  const id = ports.newId();
  const { outcome, binding, arguments: read, attempt } = await run(call, caller, ports);
  const settled: SettledCall = {
    id,
    call,
    outcome,
    // AZ-3: the way a hidden tool's outputs are written would show that it is there.
    render: outcome.error?.code === 'unknown_tool' ? undefined : binding?.policy.render,
    attempts: attempt?.attempts ?? 0,
    durationMs: ports.clock.monotonicMs() - startedMs,
  };
  ports.observer.callFinished({
    settled,
    caller,
    binding,
    // AZ-8: a refused call has its hash too, of what was sent where nothing was read.
    argumentsHash: sha256(canonicalJson(read?.parsed ?? call.arguments ?? null)),
    mended: read?.mended,
    upstreamMs: attempt?.upstreamMs ?? 0,
  });
  return settled;
}

async function run(call: FunctionCall, caller: Caller, ports: DispatchPorts): Promise<Progress> {
  const binding = ports.registry().find(lookupName(call));
  if (binding === undefined) return ended(unknownTool(call, caller, ports));

  const right = authorise(caller.actor, binding.target);
  if (!right.allowed) {
    // AZ-3: with hideForbidden a tool that may not be called looks exactly like one that is not there.
    const outcome = ports.hideForbidden ? unknownTool(call, caller, ports) : forbidden(right.missing);
    return ended(outcome, binding);
  }

  const read = readArguments(call.arguments);
  if (!read.ok) return ended(unreadableArguments(read.error, caller), binding);

  const { value, hasExactNumbers } = read.value;
  const findings = binding.checkArguments(hasExactNumbers ? numericCopy(value) : value);
  if (!findings.ok) return ended(unusableSchema(findings.error, binding), binding, read.value);
  if (findings.value.length > 0) return ended(invalidArguments(findings.value, caller), binding, read.value);

  const { alias, tool, policy } = binding;
  const attempt = await ports.upstream.callTool({
    alias,
    tool,
    arguments: value,
    timeoutMs: policy.timeoutMs,
  });
  return ended(settle(attempt, binding), binding, read.value, attempt);
}

const ended = (outcome: Outcome, binding?: Binding, read?: ReadArguments, attempt?: Attempt): Progress => ({
  outcome,
  binding,
  arguments: read,
  attempt,
});

function settle(attempt: Attempt, binding: Binding): Outcome {
  if (attempt.kind === 'failed') return attemptFailed(attempt, binding.alias);
  const result = capResult(attempt.result, binding.policy.outputCharsMax);
  if (result.isError) return toolError(result);
  // What was too large to be passed on is too large to be held against a schema as well.
  const isCut = attempt.result.structuredContent !== undefined && result.structuredContent === undefined;
  return succeeded(result, isCut ? [] : binding.checkOutput(result));
}

const sha256 = (text: string): string => hash('sha256', text);
