import { isJsonObject, type JsonObject, type JsonValue } from '../core/json.ts';
import { limits } from '../core/limits.ts';
import { fail, ok, type Result } from '../core/result.ts';
import type { BodyFault, Intent, ReadCall } from './format.ts';

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

  /** An id where the format lets a model leave it out; undefined then. */
  optionalCallId(key: string): string | undefined {
    const value = this.#object[key];
    return value === undefined || value === null || value === '' ? undefined : this.callId(key);
  }

  name(): string {
    return this.text('name', limits.nameCharsMax, 'send the name that the model called, unchanged');
  }

  /** The arguments, as they are. A call whose arguments stand elsewhere must not run without any. */
  arguments(key: string): JsonValue | undefined {
    const value = this.#object[key];
    const elsewhere =
      value === undefined ? argumentKeys.find((each) => isThere(this.#object[each])) : undefined;
    if (elsewhere !== undefined) {
      const detail = `is a member of another format; this one has the arguments in ${JSON.stringify(key)}`;
      this.faults.push({ pointer: `${this.#pointer}/${elsewhere}`, detail });
    }
    return value;
  }
}

const argumentKeys = ['arguments', 'args', 'input', 'parameters'] as const;

const isThere = (value: JsonValue | undefined): boolean => value !== undefined && value !== null;

/** An empty body, a scalar, or an object of another kind: the fault says what this format reads. */
export const notReadable = (expected: string): readonly BodyFault[] => [
  { pointer: '', detail: `expected ${expected}` },
];

/** Faults of a list that are told; a list of a million wrong items is not worth a million words. */
const faultsMax = 20;

/** What a format makes of one item: a call, what is wrong with it, or undefined where it is none of ours to answer. */
export type ReadItem = (
  item: JsonObject,
  pointer: string,
) => Result<ReadCall, readonly BodyFault[]> | undefined;

/** The intents of a body, or what is wrong with it. */
export type ReadTurn = Result<readonly Intent[], readonly BodyFault[]>;

/** What shows a call, in the format of each API. */
const marks: readonly (readonly [format: string, isCall: (item: JsonObject) => boolean])[] = [
  ['anthropic', ({ type }) => type === 'tool_use'],
  ['bedrock', ({ toolUse }) => isJsonObject(toolUse ?? null)],
  ['gemini', (item) => isJsonObject(memberOf(item, 'functionCall', 'function_call') ?? null)],
  ['gemini-interactions', ({ type, call_id }) => type === 'function_call' && !isThere(call_id)],
  ['openai-chat', ({ function: asked }) => isJsonObject(asked ?? null)],
  ['openai-responses', ({ type, call_id }) => type === 'function_call' && isThere(call_id)],
];

/** An item that is none of ours to answer; a fault where it is a call of another format, which would go unanswered. */
export function leftAlone(
  item: JsonObject,
  pointer: string,
  format: string,
): Result<never, readonly BodyFault[]> | undefined {
  const other = marks.find(([, isCall]) => isCall(item))?.[0];
  return other === undefined || other === format
    ? undefined
    : fail([{ pointer, detail: `is a call of the format ${other}: name that format, not ${format}` }]);
}

/** Reads the calls of a list, which holds objects and nothing else. */
export function readList(
  list: readonly JsonValue[],
  pointerOf: (index: number) => string,
  readItem: ReadItem,
): ReadTurn {
  const intents: Intent[] = [];
  const faults: BodyFault[] = [];
  for (const [index, item] of list.entries()) {
    if (faults.length >= faultsMax) break;
    const pointer = pointerOf(index);
    const read = isJsonObject(item)
      ? readItem(item, pointer)
      : fail([{ pointer, detail: 'must be an object' }]);
    if (read === undefined) continue;
    if (read.ok) intents.push({ index, pointer, call: read.value });
    else faults.push(...read.error);
  }
  return faults.length > 0 ? fail(faults) : ok(intents);
}

/** Reads one call that stands alone. */
export const readAlone = (item: JsonObject, readItem: ReadItem): ReadTurn =>
  readList([item], () => '', readItem);

/** Reads the choices or candidates of an answer: versions of it, of which only one can be gone on with. */
export function readVersions(
  versions: readonly JsonValue[],
  member: string,
  readVersion: (version: JsonObject, pointer: string) => ReadTurn,
): ReadTurn {
  const calling: BodyFault[] = [];
  let found: ReadTurn = ok([]);
  for (const [index, version] of versions.entries()) {
    const pointer = `/${member}/${index}`;
    if (!isJsonObject(version)) return fail([{ pointer, detail: 'must be an object' }]);
    const read = readVersion(version, pointer);
    if (!read.ok) return read;
    if (read.value.length === 0) continue;
    found = read;
    calling.push({
      pointer,
      detail: `has calls, as others of ${member} have: send only the one that the conversation goes on with`,
    });
  }
  return calling.length > 1 ? fail(calling.slice(0, faultsMax)) : found;
}

/**
 * The items that are whole. Where the answer was cut off by a limit, what stands last in it may be half a call, and
 * what is there of its arguments may still be readable.
 */
export const wholeItems = (items: readonly JsonValue[], isCut: boolean): readonly JsonValue[] =>
  isCut ? items.slice(0, -1) : items;

/** The value of the first of these members that is there; SDKs differ in how they spell them. */
export function memberOf(object: JsonObject, ...spellings: readonly string[]): JsonValue | undefined {
  for (const key of spellings) {
    const value = Object.hasOwn(object, key) ? object[key] : undefined;
    if (value !== undefined && value !== null) return value;
  }
  return undefined;
}
