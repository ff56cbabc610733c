import { createHash } from 'node:crypto';
import { authorise } from '../access/authorise.ts';
import { type FunctionCall, lookupName } from '../core/call.ts';
import { capResult } from '../core/cap.ts';
import { canonicalJson } from '../core/json.ts';
import { limits } from '../core/limits.ts';
import { failed, type Outcome, succeeded } from '../core/outcome.ts';
import { numericCopy, readArguments } from '../tools/arguments.ts';
import type { Binding } from '../tools/registry.ts';
import { attemptFailed, forbidden, invalidArguments, toolError, unknownTool, unreadableArguments } from './outcomes.ts';
import type { Attempt, Caller, DispatchPorts, SettledCall } from './ports.ts';

/** What the pipeline learned on its way, whether or not it came to its end. */
interface Progress {
  outcome: Outcome;
  binding?: Binding;
  argumentsHash?: string;
  mended?: string;
  attempt?: Attempt;
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
  const progress = await run(call, caller, ports);
  const settled: SettledCall = {
    id,
    call,
    outcome: progress.outcome,
    // AZ-3: the way a hidden tool's outputs are written would show that it is there.
    render: progress.outcome.error?.code === 'unknown_tool' ? undefined : progress.binding?.policy.render,
    attempts: progress.attempt === undefined ? 0 : 1,
    durationMs: ports.clock.monotonicMs() - startedMs,
  };
  ports.observer.callFinished({
    ...settled,
    caller,
    binding: progress.binding,
    argumentsHash: progress.argumentsHash,
    mended: progress.mended,
    upstreamMs: progress.attempt?.upstreamMs ?? 0,
  });
  return settled;
}

async function run(call: FunctionCall, caller: Caller, ports: DispatchPorts): Promise<Progress> {
  const binding = ports.registry().find(lookupName(call));
  if (binding === undefined) return { outcome: unknownTool(call, caller, ports) };

  const right = authorise(caller.actor, binding.target);
  if (!right.allowed) {
    // AZ-3: with hideForbidden a tool that may not be called looks exactly like one that is not there.
    const outcome = ports.hideForbidden ? unknownTool(call, caller, ports) : forbidden(right.missing);
    return { outcome, binding };
  }

  const read = readArguments(call.arguments, { charsMax: limits.argumentsCharsMax });
  if (!read.ok) return { outcome: unreadableArguments(read.error, caller), binding };
  const { value, parsed, mended, hasExactNumbers } = read.value;
  const known = {
    binding,
    argumentsHash: sha256(canonicalJson(parsed)),
    ...(mended === undefined ? {} : { mended }),
  };

  const findings = binding.checkArguments(hasExactNumbers ? numericCopy(value) : value);
  if (!findings.ok)
    return { ...known, outcome: failed('server_unavailable', findings.error, { retryable: false }) };
  if (findings.value.length > 0) return { ...known, outcome: invalidArguments(findings.value, caller) };

  const { timeoutMs } = binding.policy;
  const attempt = await ports.upstream.callTool({
    alias: binding.alias,
    tool: binding.tool,
    arguments: value,
    timeoutMs,
  });
  return { ...known, attempt, outcome: settle(attempt, binding) };
}

function settle(attempt: Attempt, binding: Binding): Outcome {
  if (attempt.kind === 'failed') return attemptFailed(attempt, binding.alias);
  const warnings = binding.checkOutput(attempt.result);
  const result = capResult(attempt.result, binding.policy.outputCharsMax);
  return result.isError ? toolError(result) : succeeded(result, warnings);
}

const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex');
