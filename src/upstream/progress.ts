import { limits } from '../core/limits.ts';
import type { Redact } from '../core/redact.ts';
import type { Progress } from '../dispatch/ports.ts';
import { shown } from './shown.ts';

/** Far more than anybody reads; the rest of a flood only keeps its call alive. */
const toldPerSecondMax = 20;

/** A progress notification, with the text as the server wrote it. */
export interface ProgressNotice extends Progress {
  readonly token: number;
}

/** Reads the parameters of a progress notification; undefined for what is none, or for none of our tokens. */
export function readProgress(
  params: Readonly<Record<string, unknown>> | undefined,
): ProgressNotice | undefined {
  const { progressToken: token, progress, total, message } = params ?? {};
  if (typeof token !== 'number' || !isNumber(progress)) return undefined;
  return {
    token,
    progress,
    ...(isNumber(total) ? { total } : {}),
    ...(typeof message === 'string' ? { message } : {}),
  };
}

const isNumber = (value: unknown): value is number => Number.isFinite(value);

/** Tells the progress of one call on, at most so many messages in each second. */
export class ProgressTeller {
  readonly #redact: Redact;
  readonly #tell: (progress: Progress) => void;
  #sinceMs = Number.NEGATIVE_INFINITY;
  #told = 0;

  constructor(redact: Redact, tell: (progress: Progress) => void) {
    this.#redact = redact;
    this.#tell = tell;
  }

  take({ token: _, message, ...numbers }: ProgressNotice, nowMs: number): void {
    if (nowMs - this.#sinceMs >= 1_000) {
      this.#sinceMs = nowMs;
      this.#told = 0;
    }
    if (this.#told >= toldPerSecondMax) return;
    this.#told += 1;
    const text = message === undefined ? '' : shown(message, this.#redact, limits.foreignMessageCharsMax);
    this.#tell(text === '' ? numbers : { ...numbers, message: text });
  }
}
