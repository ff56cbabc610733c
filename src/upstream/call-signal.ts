/**
 * As much of an `AbortSignal` as the SDK looks at, for one call. A real one costs a fifth of what sending a call
 * costs, and the SDK would leave its listener on it.
 */
export class CallSignal {
  aborted = false;
  reason: unknown;
  #onAbort: (() => void) | undefined;

  /** This signal where the SDK wants a real one. */
  get asAbortSignal(): AbortSignal {
    return this as unknown as AbortSignal;
  }

  throwIfAborted(): void {}

  addEventListener(_type: 'abort', onAbort: () => void): void {
    this.#onAbort = onAbort;
  }

  /** Cancels the call: the SDK tells the server, and rejects. */
  abort(reason: string): void {
    this.aborted = true;
    this.reason = reason;
    this.#onAbort?.();
  }
}
