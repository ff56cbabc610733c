import { isJsonObject, type JsonObject, type JsonValue } from '../core/json.ts';
import { foreignText } from '../core/text.ts';
import { schemaLimits } from '../tools/schema-gate.ts';
import { sizeWithin } from '../tools/value-size.ts';

/** A parameter whose value is repeated in a header (MCP 2026-07-28, `x-mcp-header`). */
interface Mirror {
  /** Names of properties, from the arguments down to the value. */
  readonly path: readonly string[];
  readonly header: string;
}

/** What the annotations of a tool come to: its mirrors, or why the tool must not be offered. */
type Mirrors =
  | { readonly ok: true; readonly mirrors: readonly Mirror[] }
  | { readonly ok: false; readonly reason: string };

const annotation = 'x-mcp-header';
/** Far more than a server has use for. */
const mirrorsMax = 32;
const nameCharsMax = 80;
const sizeMax = { values: schemaLimits.charsMax, chars: schemaLimits.charsMax };
const token = /^[\w!#$%&'*+\-.^`|~]+$/;
const mirrorTypes: ReadonlySet<unknown> = new Set(['string', 'integer', 'boolean']);

/** Schemas are read once: those of a tool list live as long as the list. */
const known = new WeakMap<object, Mirrors>();

/** Why a tool with this input schema must not be offered over HTTP; undefined where nothing speaks against it (MT-16). */
export function mirrorFault(inputSchema: unknown): string | undefined {
  const mirrors = mirrorsOf(inputSchema);
  return mirrors.ok ? undefined : mirrors.reason;
}

/** The headers that repeat arguments of a call; undefined where there are none. */
export function mirroredHeaders(
  inputSchema: unknown,
  args: JsonObject,
): Readonly<Record<string, string>> | undefined {
  const mirrors = mirrorsOf(inputSchema);
  if (!mirrors.ok || mirrors.mirrors.length === 0) return undefined;
  const headers: Record<string, string> = {};
  for (const { path, header } of mirrors.mirrors) {
    const value = plainValue(valueAt(args, path));
    if (value !== undefined) headers[`Mcp-Param-${header}`] = headerValue(value);
  }
  return headers;
}

function mirrorsOf(inputSchema: unknown): Mirrors {
  if (typeof inputSchema !== 'object' || inputSchema === null) return { ok: true, mirrors: [] };
  const before = known.get(inputSchema);
  if (before !== undefined) return before;
  // A schema that is too large to be used at all is not worth the look.
  const isUsable = sizeWithin(inputSchema as JsonValue, sizeMax) !== undefined;
  const mirrors: Mirrors = isUsable ? readMirrors(inputSchema) : { ok: true, mirrors: [] };
  known.set(inputSchema, mirrors);
  return mirrors;
}

function readMirrors(inputSchema: object): Mirrors {
  const mirrors: Mirror[] = [];
  const names = new Set<string>();
  // Whatever is no chain of `properties` makes an annotation below it invalid; plain values hold none.
  const read = (schema: unknown, path: readonly string[], isReachable: boolean): string | undefined => {
    if (Array.isArray(schema)) return firstFault(schema, (part) => read(part, path, false));
    if (typeof schema !== 'object' || schema === null) return undefined;
    const { [annotation]: header, properties, ...others } = schema as Readonly<Record<string, unknown>>;
    if (header !== undefined) {
      const fault =
        isReachable && path.length > 0
          ? annotationFault(header, others.type)
          : 'stands where no value can be';
      if (fault !== undefined) return `${annotation} at ${shownPath(path)} ${fault}`;
      const name = String(header);
      if (names.has(name.toLowerCase()))
        return `${annotation} "${foreignText(name, nameCharsMax)}" is used twice`;
      if (mirrors.length === mirrorsMax)
        return `it has more than ${mirrorsMax} parameters with ${annotation}`;
      names.add(name.toLowerCase());
      mirrors.push({ path, header: name });
    }
    return (
      firstFault(Object.entries(isJsonObject(properties) ? properties : {}), ([name, part]) =>
        read(part, [...path, name], isReachable),
      ) ??
      firstFault(Object.entries(others), ([keyword, part]) =>
        valueKeywords.has(keyword) ? undefined : read(part, path, false),
      )
    );
  };
  const fault = read(inputSchema, [], true);
  return fault === undefined ? { ok: true, mirrors } : { ok: false, reason: fault };
}

/** Keywords that hold values, in which an object with such a member is no annotation. */
const valueKeywords: ReadonlySet<string> = new Set([
  'const',
  'enum',
  'default',
  'example',
  'examples',
  'required',
]);

function annotationFault(header: unknown, type: unknown): string | undefined {
  if (typeof header !== 'string' || header === '') return 'is not a name';
  if (!token.test(header)) return 'is not the name of a header';
  if (header.length > nameCharsMax) return `is longer than ${nameCharsMax} characters`;
  return mirrorTypes.has(type) ? undefined : 'belongs to a parameter that is no string, integer or boolean';
}

function firstFault<Item>(
  items: readonly Item[],
  faultOf: (item: Item) => string | undefined,
): string | undefined {
  for (const item of items) {
    const fault = faultOf(item);
    if (fault !== undefined) return fault;
  }
  return undefined;
}

const shownPath = (path: readonly string[]): string =>
  path.length === 0 ? 'the root' : `"${foreignText(path.join('.'), nameCharsMax)}"`;

function valueAt(args: JsonObject, path: readonly string[]): JsonValue | undefined {
  let value: JsonValue | undefined = args;
  for (const name of path) {
    if (!isJsonObject(value) || !Object.hasOwn(value, name)) return undefined;
    value = value[name];
  }
  return value;
}

/** A value as text; undefined for what has no header: no value, or one that the tool's own check is to refuse. */
function plainValue(value: JsonValue | undefined): string | undefined {
  switch (typeof value) {
    case 'string':
      return value;
    case 'boolean':
      return String(value);
    case 'number':
      return Number.isInteger(value) && !Number.isSafeInteger(value) ? undefined : String(value);
    default:
      return undefined;
  }
}

/** Text as the value of a header: what does not survive as it is goes in base64, with the marks around it. */
export const headerValue = (value: string): string =>
  isPlain(value) ? value : `=?base64?${Buffer.from(value, 'utf8').toString('base64')}?=`;

const isPlain = (value: string): boolean =>
  /^[\t\x20-\x7e]+$/.test(value) && value === value.trim() && !/^=\?base64\?.*\?=$/.test(value);
