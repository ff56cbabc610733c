/** Bytes of request bodies that may be in work at the same time (RL-13). */
const bodyBytesMax = 134_217_728;

/** Lets requests in until the service drains, and knows when the last one has left (RL-8). */
export class Admission {
  #running = 0;
  #bodyBytes = 0;
  #isClosed = false;
  #onIdle: (() => void) | undefined;

  get running(): number {
    return this.#running;
  }

  get isClosed(): boolean {
    return this.#isClosed;
  }

  /** Lets one request in, unless the service drains; who entered must `leave`. */
  enter(): boolean {
    if (this.#isClosed) return false;
    this.#running += 1;
    return true;
  }

  leave(): void {
    this.#running -= 1;
    if (this.#running === 0) this.#onIdle?.();
  }

  /** Takes a share of the room for bodies, if there is that much; it has to be given back. */
  takeBytes(bytes: number): boolean {
    if (this.#bodyBytes + bytes > bodyBytesMax) return false;
    this.#bodyBytes += bytes;
    return true;
  }

  giveBytes(bytes: number): void {
    this.#bodyBytes -= bytes;
  }

  /** Lets nothing more in; resolves when all work has left, or after `graceMs`. */
  async close(graceMs: number): Promise<void> {
    this.#isClosed = true;
    if (this.#running === 0) return;
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, graceMs);
      this.#onIdle = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
}
