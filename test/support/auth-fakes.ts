import type { AuthPorts, AuthResult } from '../../src/auth/bearer.ts';
import type { EventFields, EventLog } from '../../src/core/events.ts';

interface Timer {
  readonly dueMs: number;
  readonly run: () => void;
}

/** A clock that a test moves by hand; its timers run when it passes them. */
export function createFakeTime(startMs = 1_800_000_000_000) {
  let nowMs = startMs;
  const timers = new Set<Timer>();
  return {
    nowMs: () => nowMs,
    monotonicMs: () => nowMs,
    schedule: (run: () => void, delayMs: number) => {
      const timer = { dueMs: nowMs + delayMs, run };
      timers.add(timer);
      return () => timers.delete(timer);
    },
    /** Milliseconds until each timer. */
    waits: () => [...timers].map(({ dueMs }) => dueMs - nowMs),
    advance(ms: number) {
      nowMs += ms;
      for (const timer of timers) {
        if (timer.dueMs > nowMs) continue;
        timers.delete(timer);
        timer.run();
      }
    },
    /** Moves the clock as a suspended machine does: no timer runs. */
    jump(ms: number) {
      nowMs += ms;
    },
  } satisfies Omit<AuthPorts, 'log'> & Record<string, unknown>;
}

/** A log that keeps its events. */
export function createEventRecorder(): EventLog & {
  readonly events: { event: string; fields: EventFields }[];
} {
  const events: { event: string; fields: EventFields }[] = [];
  const record = (event: string, fields: EventFields): void => void events.push({ event, fields });
  return { events, info: record, warn: record, error: record };
}

/** What a test compares: `accepted`, or the code of the refusal. */
export async function verdict(result: AuthResult | Promise<AuthResult>): Promise<string> {
  const settled = await result;
  return settled.ok ? 'accepted' : settled.error.code;
}
