import { isJsonObject, type JsonValue } from '../core/json.ts';

/**
 * What `JSON.stringify` writes of a value, in pieces: one for each item of a list, and of lists in the members of these
 * items. A long list would keep the process busy as a whole. No member may be undefined.
 */
export function* jsonPieces(value: JsonValue): Generator<string> {
  const isList = Array.isArray(value);
  if (!isList && !(isJsonObject(value) && Object.values(value).some(Array.isArray))) {
    yield JSON.stringify(value);
    return;
  }
  let before = isList ? '[' : '{';
  for (const [name, member] of Object.entries(value as Readonly<Record<string, JsonValue>>)) {
    yield isList ? before : `${before}${JSON.stringify(name)}:`;
    yield* jsonPieces(member);
    before = ',';
  }
  yield `${before === ',' ? '' : before}${isList ? ']' : '}'}`;
}
