import type { JsonValue } from '../core/json.ts';

/** Values, and characters of strings and names, in a value. */
export interface ValueSize {
  readonly values: number;
  readonly chars: number;
}

/** The size of a value; undefined where it is over the bound, which is found out without looking further. */
export function sizeWithin(value: JsonValue, max: ValueSize): ValueSize | undefined {
  const size = { values: 0, chars: 0 };
  const isOver = (): boolean => size.values > max.values || size.chars > max.chars;
  const add = (part: JsonValue | undefined): void => {
    size.values += 1;
    if (typeof part === 'string') size.chars += part.length;
    if (typeof part !== 'object' || part === null) return;
    if (Array.isArray(part)) {
      for (let index = 0; index < part.length && !isOver(); index += 1) add(part[index]);
      return;
    }
    const members = part as Readonly<Record<string, JsonValue>>;
    // A list of all members would take as long as the value is large.
    for (const name in members) {
      if (isOver()) return;
      if (!Object.hasOwn(members, name)) continue;
      size.chars += name.length;
      add(members[name]);
    }
  };
  add(value);
  return isOver() ? undefined : size;
}
