import { isJsonObject, type JsonObject, type JsonValue } from '../core/json.ts';
import { limits } from '../core/limits.ts';
import type { BodyFault } from './format.ts';

/** Reads the members that every intent has, and collects what is wrong with them. */
export class FieldReader {
  readonly faults: BodyFault[] = [];
  readonly #object: JsonObject;
  readonly #pointer: string;

  constructor(object: JsonObject, pointer: string) {
    this.#object = object;
    this.#pointer = pointer;
  }

  /** A string that must be there and must not be empty. */
  text(key: string, charsMax: number, hint: string): string {
    const value = this.#object[key];
    if (typeof value === 'string' && value !== '' && value.length <= charsMax) return value;
    const detail =
      value === undefined || value === null || value === ''
        ? `is missing: ${hint}`
        : typeof value === 'string'
          ? `is longer than ${charsMax} characters`
          : `must be a string: ${hint}`;
    this.faults.push({ pointer: `${this.#pointer}/${key}`, detail });
    return '';
  }

  callId(key: string): string {
    return this.text(key, limits.idCharsMax, 'send the id that the model gave this call, unchanged');
  }

  name(): string {
    return this.text('name', limits.nameCharsMax, 'send the name that the model called, unchanged');
  }
}

/** An empty body, a scalar, or an object of another kind: the fault says what this format reads. */
export const notReadable = (expected: string): readonly BodyFault[] => [
  { pointer: '', detail: `expected ${expected}` },
];

/** Faults of a list that are told; a list of a million wrong items is not worth a million words. */
const faultsMax = 20;

/** The objects of a list; everything else in it is a fault. */
export function objectsOf(
  list: readonly JsonValue[],
  pointerOf: (index: number) => string,
): { objects: [number, JsonObject][]; faults: BodyFault[] } {
  const objects: [number, JsonObject][] = [];
  const faults: BodyFault[] = [];
  for (const [index, item] of list.entries()) {
    if (isJsonObject(item)) objects.push([index, item]);
    else if (faults.length < faultsMax)
      faults.push({ pointer: pointerOf(index), detail: 'must be an object' });
  }
  return { objects, faults };
}
