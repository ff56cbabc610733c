/** Bytes of request bodies that may be in work at the same time (RL-13). */
const bodyBytesMax = 134_217_728;
/** Searches of the ledger for pages of calls that may be under way at once. */
const listsMax = 4;

/** Lets requests in until the service drains, knows when the last one has left (RL-8), and bounds what is costly. */
export class Admission {
  #running = 0;
  #bodyBytes = 0;
  readonly #listing = new Set<string>();
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

  /** Takes a place for a search of this actor's records: one each, as long as there are any; to be given back. */
  takeList(actor: string): boolean {
    if (this.#listing.size >= listsMax || this.#listing.has(actor)) return false;
    this.#listing.add(actor);
    return true;
  }

  giveList(actor: string): void {
    this.#listing.delete(actor);
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
