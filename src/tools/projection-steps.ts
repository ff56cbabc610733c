import type { Adjustment, AdjustmentStep } from './registry.ts';

/** Places that are told of one step; a hostile schema has tens of thousands. */
const placesMax = 20;
/** Characters of a place that is told; below a name of a hundred thousand, every place is longer than that. */
const pathCharsMax = 1_000;
/** Characters of what is told of a place besides its path. */
const stepChars = 64;

/**
 * Collects in what a projected schema differs. Further places of a step, and those that take too long to tell, share one
 * entry, whose path is the whole schema.
 */
export class Steps {
  readonly #told: Adjustment[] = [];
  readonly #places = new Set<string>();
  readonly #counts = new Map<AdjustmentStep, number>();
  readonly #further = new Map<AdjustmentStep, boolean>();
  #chars = 0;

  /** About how many characters it takes to tell of them. */
  get chars(): number {
    return this.#chars;
  }

  add(step: AdjustmentStep, path: string, loss: boolean): void {
    if (path.length > pathCharsMax) {
      this.#addFurther(step, loss);
      return;
    }
    // The root is rewritten twice where a reference leads to it.
    const place = `${step} ${path}`;
    if (this.#places.has(place)) return;
    this.#places.add(place);
    const count = (this.#counts.get(step) ?? 0) + 1;
    this.#counts.set(step, count);
    if (count <= placesMax) {
      this.#told.push({ member: 'inputSchema', step, path, loss });
      this.#chars += path.length + stepChars;
    } else this.#addFurther(step, loss);
  }

  #addFurther(step: AdjustmentStep, loss: boolean): void {
    this.#further.set(step, loss || this.#further.get(step) === true);
  }

  list(): readonly Adjustment[] {
    const further = [...this.#further].map(
      ([step, loss]): Adjustment => ({ member: 'inputSchema', step, path: '', loss }),
    );
    return [...this.#told, ...further];
  }
}

/** Leaves the recursion of a projection with the reason why a provider cannot be told of a tool. */
export class Unprojectable {
  readonly reason: string;

  constructor(reason: string) {
    this.reason = reason;
  }
}
