import { setImmediate } from 'node:timers/promises';

/** How long work may keep the event loop before everybody else gets a turn (SC-9). */
const sliceMs = 10;

/**
 * Runs the steps of long work, with a turn of the event loop after each slice of time; undefined when after one of
 * them the result is no longer wanted.
 */
export async function inSlices<T>(
  steps: Generator<void, T>,
  isWanted: () => boolean,
): Promise<T | undefined> {
  for (let endMs = performance.now() + sliceMs; ; ) {
    const step = steps.next();
    if (step.done === true) return step.value;
    if (performance.now() < endMs) continue;
    await setImmediate();
    if (!isWanted()) return undefined;
    endMs = performance.now() + sliceMs;
  }
}
