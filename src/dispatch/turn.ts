import { type FunctionCall, lookupName } from '../core/call.ts';
import { dispatch } from './dispatch.ts';
import type { Caller, DispatchPorts, SettledCall } from './ports.ts';

/** Whether the calls of a turn run side by side or one after another. */
export type Order = 'parallel' | 'sequential';

/** How long the start of one call may take before everybody else gets the event loop. */
const startMsMax = 5;

/** Runs the calls of one turn. Outputs stand in the order of the calls, and no call's failure touches another (RL-7). */
export async function dispatchTurn(
  calls: readonly FunctionCall[],
  order: Order,
  caller: Caller,
  ports: DispatchPorts,
): Promise<readonly SettledCall[]> {
  const running: Promise<SettledCall>[] = [];
  for (const call of calls) {
    const sinceMs = ports.clock.monotonicMs();
    const settled = dispatch(call, caller, ports);
    running.push(settled);
    // SC-9 bounds one validation: without a turn of the event loop between slow ones, those of a turn would add up.
    if (ports.clock.monotonicMs() - sinceMs > startMsMax) await ports.nextLoopTurn();
    if (order === 'sequential') await settled;
  }
  return Promise.all(running);
}

/** Whether a call could be for a tool of callgate: its name starts with a configured alias and the separator. */
export const isOurs = (call: FunctionCall, aliases: readonly string[]): boolean => {
  const name = lookupName(call);
  return aliases.some((alias) => name.startsWith(`${alias}__`));
};

/** The first id that stands on two calls of one turn, whose outputs could then not be told apart. */
export function repeatedCallId(calls: readonly FunctionCall[]): string | undefined {
  const seen = new Set<string>();
  for (const { callId } of calls) {
    if (seen.has(callId)) return callId;
    seen.add(callId);
  }
  return undefined;
}
