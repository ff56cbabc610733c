import {
  canCarryExactNumbers,
  ExactNumber,
  isJsonObject,
  type JsonObject,
  type JsonValue,
  parseJson,
  pointerStep,
} from '../core/json.ts';
import { limits } from '../core/limits.ts';
import { fail, ok, type Result } from '../core/result.ts';
import { printable, truncate } from '../core/text.ts';
import { describeKind } from './findings.ts';

/** Arguments as an object, and how they became one. */
export interface ReadArguments {
  /** What the server gets. */
  readonly value: JsonObject;
  /** What the model sent, before any mending; the fingerprint of a call is made from it. */
  readonly parsed: JsonValue;
  /** `unwrapped`: the object came as a JSON text inside a JSON string. */
  readonly mended?: 'unwrapped';
  /** Whether `value` must go through `numericCopy` before it is validated. */
  readonly hasExactNumbers: boolean;
}

/** Why arguments cannot be read, in words for the model. */
export interface ArgumentFault {
  /** A JSON Pointer; empty for the arguments as a whole. */
  readonly path: string;
  readonly message: string;
}

/**
 * Reads the arguments of an intent: a JSON text, an object, or nothing. Nothing in any spelling means `{}`; an object
 * that was encoded twice is unwrapped once; everything else that is no object is refused, and nothing is guessed.
 */
export function readArguments(
  raw: JsonValue | undefined,
  { charsMax = limits.argumentsCharsMax }: { readonly charsMax?: number } = {},
): Result<ReadArguments, ArgumentFault> {
  if (typeof raw === 'string' && raw.length > charsMax) return fail(tooLong(raw.length, charsMax));
  const text = typeof raw === 'string' ? parse(isBlank(raw) ? '{}' : raw) : ok(raw ?? null);
  if (!text.ok) return text;
  const parsed = text.value ?? {};
  const inner = typeof parsed === 'string' && typeof raw === 'string' ? parse(parsed) : undefined;
  const isUnwrapped = inner?.ok === true && isJsonObject(inner.value);
  const value = isUnwrapped ? inner.value : parsed;
  if (!isJsonObject(value)) {
    return fail({ path: '', message: `the arguments must be a JSON object, not ${describeKind(value)}` });
  }
  const exact = findExactNumber(value, '');
  if (exact !== undefined && !canCarryExactNumbers) {
    const path = truncate(printable(exact), 64);
    const message = `the number at ${path} has more digits than can be passed on exactly; send a string if the tool takes one`;
    return fail({ path, message });
  }
  const read = { value, parsed, hasExactNumbers: exact !== undefined };
  return ok(isUnwrapped ? { ...read, mended: 'unwrapped' } : read);
}

/** A copy with doubles in place of exact numbers, for the validator; never for the server. */
export function numericCopy(value: JsonValue): JsonValue {
  if (value instanceof ExactNumber) return Number(value.text);
  if (Array.isArray(value)) return value.map(numericCopy);
  if (!isJsonObject(value)) return value;
  // `fromEntries` defines members, so that `__proto__` stays one.
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, numericCopy(member)]));
}

const isBlank = (text: string): boolean => /^[ \t\r\n]*$/.test(text);

function parse(text: string): Result<JsonValue, ArgumentFault> {
  const parsed = parseJson(text, { depthMax: limits.jsonDepthMax });
  return parsed.ok
    ? parsed
    : fail({ path: '', message: `the arguments cannot be read: ${parsed.error.message}` });
}

const tooLong = (chars: number, charsMax: number): ArgumentFault => ({
  path: '',
  message: `the arguments are ${chars} characters long; at most ${charsMax} are accepted`,
});

/** The JSON Pointer of the first exact number. */
function findExactNumber(value: JsonValue, pointer: string): string | undefined {
  if (value instanceof ExactNumber) return pointer;
  if (typeof value !== 'object' || value === null) return undefined;
  for (const [name, member] of Object.entries(value as Readonly<Record<string, JsonValue>>)) {
    if (typeof member !== 'object') continue;
    const found = findExactNumber(member, pointer + pointerStep(name));
    if (found !== undefined) return found;
  }
  return undefined;
}
