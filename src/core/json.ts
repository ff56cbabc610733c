import { fail, ok, type Result } from './result.ts';
import { foreignText } from './text.ts';

/** A value as JSON carries it, plus `ExactNumber` for what a double cannot hold. */
export type JsonValue = null | boolean | number | string | ExactNumber | readonly JsonValue[] | JsonObject;

export interface JsonObject {
  readonly [key: string]: JsonValue;
}

/** Whether `value` is an object with members, not a list. */
export const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** Whether `value` is a JSON object: no array, no scalar, no `ExactNumber`. */
export const isJsonObject = (value: unknown): value is JsonObject =>
  isObject(value) && !(value instanceof ExactNumber);

/** A text as JSON; most that are written this way are ids and names, in which nothing is to be escaped. */
export const jsonText = (text: string): string => (plain.test(text) ? `"${text}"` : JSON.stringify(text));

const plain = /^[\w.:~-]*$/;

/** One step of a JSON Pointer (RFC 6901) down to a member. */
export const pointerStep = (name: string): string =>
  `/${/[~/]/.test(name) ? name.replaceAll('~', '~0').replaceAll('/', '~1') : name}`;

/** JSON.rawJSON is in V8 since Node 22, but not in the library types that this project compiles with. */
const { rawJSON } = JSON as typeof JSON & { readonly rawJSON?: (text: string) => unknown };

/** Whether this runtime can write an `ExactNumber` with all its digits (Node 22 and later). */
export const canCarryExactNumbers = rawJSON !== undefined;

/** A whole number that a double would round, kept as the text it was written in (SC-13). */
export class ExactNumber {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }

  /** The raw number; the nearest double where the runtime cannot do better, which callers must rule out before. */
  toJSON(): unknown {
    return rawJSON === undefined ? Number(this.text) : rawJSON(this.text);
  }
}

export interface JsonFault {
  readonly kind: 'syntax' | 'duplicate_name' | 'too_deep' | 'too_many_values' | 'not_finite';
  /** Offset into the text, in UTF-16 units. */
  readonly position: number;
  /** One line for whoever wrote the text. */
  readonly message: string;
}

/**
 * Reads a JSON text strictly (RFC 8259). Beyond what `JSON.parse` refuses, it refuses duplicate member names, nesting
 * over `depthMax`, more than 250,000 values and numbers that would become infinite (SC-1); whole numbers that a double would round become
 * `ExactNumber` (SC-13). Every name becomes an own member, `__proto__` too. Lone surrogates pass.
 */
export function parseJson(
  text: string,
  { depthMax }: { readonly depthMax: number },
): Result<JsonValue, JsonFault> {
  try {
    return ok(new Parser(text, depthMax).document());
  } catch (error) {
    if (error instanceof Refusal) return fail(error.fault);
    throw error;
  }
}

/** Leaves the recursion of the parser; never leaves this file. */
class Refusal {
  readonly fault: JsonFault;

  constructor(kind: JsonFault['kind'], position: number, message: string) {
    this.fault = { kind, position, message };
  }
}

/** Values in one text: a body of 16 MB made of nothing but `[],` would keep the process busy for seconds (RL-13). */
const valuesMax = 250_000;
/** Strings of a text longer than this are copied out of it, since a slice would keep the whole text alive. */
const sliceableTextCharsMax = 4096;
const quote = 0x22;
const backslash = 0x5c;

class Parser {
  readonly #text: string;
  readonly #depthMax: number;
  #at = 0;
  #values = 0;

  constructor(text: string, depthMax: number) {
    this.#text = text;
    this.#depthMax = depthMax;
  }

  document(): JsonValue {
    const value = this.#value(this.#depthMax);
    this.#nextCode();
    if (this.#at < this.#text.length) this.#refuse('the end of the text');
    return value;
  }

  #value(depthLeft: number): JsonValue {
    this.#values += 1;
    if (this.#values > valuesMax) {
      throw new Refusal('too_many_values', this.#at, `it holds more than ${valuesMax} values`);
    }
    switch (this.#nextCode()) {
      case quote:
        return this.#string();
      case 0x7b /* { */:
        return this.#object(this.#deeper(depthLeft));
      case 0x5b /* [ */:
        return this.#array(this.#deeper(depthLeft));
      case 0x74 /* t */:
        return this.#word('true', true);
      case 0x66 /* f */:
        return this.#word('false', false);
      case 0x6e /* n */:
        return this.#word('null', null);
      default:
        return this.#number();
    }
  }

  #deeper(depthLeft: number): number {
    if (depthLeft > 0) return depthLeft - 1;
    throw new Refusal(
      'too_deep',
      this.#at,
      `nested deeper than ${this.#depthMax} levels at position ${this.#at}`,
    );
  }

  #object(depthLeft: number): JsonObject {
    const members: Record<string, JsonValue> = {};
    this.#at += 1;
    if (this.#nextCode() === 0x7d /* } */) {
      this.#at += 1;
      return members;
    }
    for (;;) {
      if (this.#nextCode() !== quote) this.#refuse('a member name in double quotes');
      const nameAt = this.#at;
      const name = this.#string();
      if (this.#nextCode() !== 0x3a /* : */) this.#refuse('a colon');
      this.#at += 1;
      if (Object.hasOwn(members, name)) {
        const shown = foreignText(name, 64);
        throw new Refusal(
          'duplicate_name',
          nameAt,
          `the member name "${shown}" appears twice, again at position ${nameAt}`,
        );
      }
      const value = this.#value(depthLeft);
      if (name === '__proto__') {
        // An assignment would set the prototype.
        Object.defineProperty(members, name, { value, writable: true, enumerable: true, configurable: true });
      } else {
        members[name] = value;
      }
      const code = this.#nextCode();
      if (code !== 0x2c /* , */ && code !== 0x7d) this.#refuse('a comma or }');
      this.#at += 1;
      if (code === 0x7d) return members;
    }
  }

  #array(depthLeft: number): JsonValue[] {
    const items: JsonValue[] = [];
    this.#at += 1;
    if (this.#nextCode() === 0x5d /* ] */) {
      this.#at += 1;
      return items;
    }
    for (;;) {
      items.push(this.#value(depthLeft));
      const code = this.#nextCode();
      if (code !== 0x2c && code !== 0x5d) this.#refuse('a comma or ]');
      this.#at += 1;
      if (code === 0x5d) return items;
    }
  }

  #string(): string {
    const text = this.#text;
    const start = this.#at;
    let hasEscapes = false;
    let at = start + 1;
    for (;;) {
      const code = text.charCodeAt(at);
      if (code === quote) break;
      if (code === backslash) {
        hasEscapes = true;
        at += 1;
      } else if (!(code >= 0x20)) {
        // NaN, the end of the text, takes this branch too.
        this.#at = at;
        this.#refuse(
          at < text.length ? 'an escape instead of the raw control character' : 'a closing double quote',
        );
      }
      at += 1;
    }
    this.#at = at + 1;
    if (!hasEscapes && (text.length <= sliceableTextCharsMax || at - start < 13))
      return text.slice(start + 1, at);
    try {
      return JSON.parse(text.slice(start, at + 1)) as string;
    } catch {
      this.#at = start;
      return this.#refuse('a string with valid escapes');
    }
  }

  #number(): number | ExactNumber {
    const start = this.#at;
    numberToken.lastIndex = start;
    if (!numberToken.test(this.#text)) return this.#refuse('a value');
    this.#at = numberToken.lastIndex;
    const token = this.#text.slice(start, this.#at);
    const value = Number(token);
    if (Number.isFinite(value)) return isCarriedBy(value, token) ? value : new ExactNumber(token);
    throw new Refusal(
      'not_finite',
      start,
      `the number at position ${start} is too large; only finite numbers are accepted`,
    );
  }

  #word<T extends JsonValue>(word: string, value: T): T {
    if (!this.#text.startsWith(word, this.#at)) this.#refuse('a value');
    this.#at += word.length;
    return value;
  }

  /** The code of the next character that is no white space, NaN at the end. */
  #nextCode(): number {
    let code = this.#text.charCodeAt(this.#at);
    while (code === 0x20 || code === 0x0a || code === 0x0d || code === 0x09) {
      this.#at += 1;
      code = this.#text.charCodeAt(this.#at);
    }
    return code;
  }

  #refuse(expected: string): never {
    const found = this.#at < this.#text.length ? '' : ', but the text ends there';
    throw new Refusal(
      'syntax',
      this.#at,
      `broken JSON at position ${this.#at}: expected ${expected}${found}`,
    );
  }
}

const numberToken = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;

/** Whether writing `value` gives the number in `token` again. Only whole numbers count: fractions are approximate by nature. */
function isCarriedBy(value: number, token: string): boolean {
  if (value >= -Number.MAX_SAFE_INTEGER && value <= Number.MAX_SAFE_INTEGER) return true;
  const written = wholeDigits(token);
  return written === undefined || written === wholeDigits(String(value));
}

/** The plain digits of a number token, undefined when the number is not whole. Finite doubles have 309 digits at most. */
function wholeDigits(token: string): string | undefined {
  const [mantissa = '', exponent = '0'] = token.toLowerCase().split('e');
  const [whole = '', fraction = ''] = mantissa.split('.');
  const digits = whole + fraction;
  // A loop: the pattern /0+$/ is quadratic on long runs of zeros.
  let end = digits.length;
  while (digits[end - 1] === '0') end -= 1;
  const zeros = Number(exponent) - fraction.length + digits.length - end;
  return zeros < 0 ? undefined : digits.slice(0, end).replace(/^(-?)0+/, '$1') + '0'.repeat(zeros);
}

interface OpenContainer {
  readonly value: JsonObject | readonly JsonValue[];
  /** The sorted names of an object, undefined for an array. */
  readonly names: readonly string[] | undefined;
  at: number;
}

/**
 * The RFC 8785 form of a value: sorted names, no spaces, one spelling per number; an `ExactNumber` is its digits.
 * It keeps its own stack, so no nesting overflows the one of the runtime.
 */
export function canonicalJson(value: JsonValue): string {
  const open: OpenContainer[] = [];
  let text = '';
  const write = (item: JsonValue): void => {
    if (item instanceof ExactNumber) text += wholeDigits(item.text) ?? item.text;
    else if (Array.isArray(item)) {
      text += '[';
      open.push({ value: item as readonly JsonValue[], names: undefined, at: 0 });
    } else if (isJsonObject(item)) {
      text += '{';
      open.push({ value: item, names: Object.keys(item).sort(), at: 0 });
    } else text += JSON.stringify(item);
  };
  write(value);
  for (let container = open.at(-1); container !== undefined; container = open.at(-1)) {
    const { value: inside, names, at } = container;
    const length = names?.length ?? (inside as readonly JsonValue[]).length;
    if (at === length) {
      text += names === undefined ? ']' : '}';
      open.pop();
      continue;
    }
    container.at += 1;
    if (at > 0) text += ',';
    if (names === undefined) write((inside as readonly JsonValue[])[at] as JsonValue);
    else {
      const name = names[at] as string;
      text += `${JSON.stringify(name)}:`;
      write((inside as JsonObject)[name] as JsonValue);
    }
  }
  return text;
}
