import { setImmediate } from 'node:timers/promises';

/** How long work may keep the event loop before everybody else gets a turn (SC-9). */
const sliceMs = 10;

/** Runs the steps of long work, with a turn of the event loop after each slice of time. */
export function inSlices<T>(steps: Generator<void, T>): Promise<T>;
/** As above; undefined when after one of the slices the result is no longer wanted. */
export function inSlices<T>(steps: Generator<void, T>, isWanted: () => boolean): Promise<T | undefined>;
export async function inSlices<T>(
  steps: Generator<void, T>,
  isWanted: () => boolean = () => true,
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
