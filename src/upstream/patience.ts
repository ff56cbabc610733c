import type { CancelSignal } from '../core/cancellation.ts';

/** Resolves with the work, after `waitMaxMs`, or when the signal ends the wait; no timer and no listener stays. */
export function withPatience(
  work: Promise<unknown> | undefined,
  waitMaxMs: number,
  signal: CancelSignal,
): Promise<void> {
  if (signal.aborted) return Promise.resolve();
  return new Promise((resolve) => {
    const end = (): void => {
      clearTimeout(timer);
      signal.removeEventListener('abort', end);
      resolve();
    };
    const timer = setTimeout(end, waitMaxMs);
    signal.addEventListener('abort', end);
    work?.then(end, end);
  });
}

/** Waits so long, or until the signal ends the wait. */
export const pause = (ms: number, signal: CancelSignal): Promise<void> => withPatience(undefined, ms, signal);
