import { type FunctionCall, lookupName } from '../core/call.ts';
import { dispatch } from './dispatch.ts';
import type { Caller, DispatchPorts, PendingCall, SettledCall } from './ports.ts';

/** Whether the calls of a turn run side by side or one after another. */
export type Order = 'parallel' | 'sequential';

/** How long the start of one call may take before everybody else gets the event loop. */
const startMsMax = 5;

/** The calls of one turn on their way. */
export interface PendingTurn {
  /** One for each call that has begun; in sequence, later ones come when their turn does. */
  readonly begun: readonly PendingCall[];
  /** In the order of the calls. @throws never, save for a bug */
  readonly settled: Promise<readonly SettledCall[]>;
  /** The caller is gone: what has not begun does not begin any more. */
  leave(): void;
}

/**
 * Runs the calls of one turn. Outputs stand in the order of the calls, and no call's failure touches another (RL-7).
 * @param onBegun is told each call as it begins, before its end
 */
export function dispatchTurn(
  calls: readonly FunctionCall[],
  order: Order,
  caller: Caller,
  ports: DispatchPorts,
  onBegun: (pending: PendingCall, index: number) => void = () => {},
): PendingTurn {
  const begun: PendingCall[] = [];
  let hasLeft = false;
  const run = async (): Promise<readonly SettledCall[]> => {
    for (const [index, call] of calls.entries()) {
      if (hasLeft) break;
      const sinceMs = ports.clock.monotonicMs();
      const pending = dispatch(call, caller, ports);
      begun.push(pending);
      onBegun(pending, index);
      // SC-9 bounds one validation: without a turn of the event loop between slow ones, those of a turn would add up.
      if (ports.clock.monotonicMs() - sinceMs > startMsMax) await ports.nextLoopTurn();
      if (order === 'sequential') await pending.settled;
    }
    return Promise.all(begun.map(({ settled }) => settled));
  };
  return {
    begun,
    settled: run(),
    leave: () => {
      hasLeft = true;
      for (const pending of begun) pending.leave();
    },
  };
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
