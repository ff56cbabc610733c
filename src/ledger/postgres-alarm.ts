/** A pause that somebody can end early. */
export class Alarm {
  #isRung = false;
  #end: (() => void) | undefined;

  /** Pauses, not at all where `ring` was called since the last pause. */
  async sleep(ms: number): Promise<void> {
    if (!this.#isRung) {
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, ms);
        this.#end = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
    this.#isRung = false;
    this.#end = undefined;
  }

  ring(): void {
    this.#isRung = true;
    this.#end?.();
  }
}
