/** The wish that a call should end. An `AbortSignal` is one. */
export interface CancelSignal {
  readonly aborted: boolean;
  readonly reason: unknown;
  addEventListener(type: 'abort', listener: () => void): void;
  removeEventListener(type: 'abort', listener: () => void): void;
}

const nobody: readonly (() => void)[] = [];

/**
 * Controller and signal of one call in one. The platform's pair costs a call on Node 20 more than all of its checks,
 * and nothing of what it can do beyond this is needed.
 */
export class Cancellation implements CancelSignal {
  #aborted = false;
  #reason: string | undefined;
  #listeners: readonly (() => void)[] = nobody;

  get aborted(): boolean {
    return this.#aborted;
  }

  get reason(): string | undefined {
    return this.#reason;
  }

  addEventListener(_type: 'abort', listener: () => void): void {
    this.#listeners = [...this.#listeners, listener];
  }

  removeEventListener(_type: 'abort', listener: () => void): void {
    this.#listeners = this.#listeners.filter((other) => other !== listener);
  }

  /** Tells everybody who listens, once; the first reason stays. */
  abort(reason: string): void {
    if (this.#aborted) return;
    this.#aborted = true;
    this.#reason = reason;
    for (const listener of this.#listeners) listener();
  }
}
