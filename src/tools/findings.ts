import type { ErrorObject } from 'ajv';
import { isJsonObject, type JsonValue, pointerStep } from '../core/json.ts';
import { limits } from '../core/limits.ts';
import { foreignText, truncate } from '../core/text.ts';

/** One thing that is wrong with a value, without the value itself (SC-14). */
export interface SchemaFinding {
  /** Where, as a JSON Pointer; empty for the whole value. */
  readonly path: string;
  readonly expected: string;
  /** JSON type and length of what stands there. */
  readonly received: string;
  /** The values that are allowed there, as many as fit. */
  readonly allowed?: readonly JsonValue[];
}

const findingsBytesMax = 2048;
const pathCharsMax = 200;
const allowedCharsMax = 200;
/** Of a name, a pattern or an allowed value. */
const wordCharsMax = 64;

/** A finding as one line for the model. */
export const describeFinding = ({ path, expected, received, allowed }: SchemaFinding): string =>
  `${path === '' ? 'the value' : path}: expected ${expected}${allowed === undefined ? '' : ` ${JSON.stringify(allowed)}`}, got ${received}`;

/** JSON type and length of a value, never the value. */
export function describeKind(value: JsonValue | undefined): string {
  if (value === undefined) return 'nothing';
  if (value === null) return 'null';
  if (typeof value === 'string') return `a string of ${counted(value.length, 'character')}`;
  if (typeof value === 'number') return Number.isInteger(value) ? 'an integer' : 'a number';
  if (typeof value === 'boolean') return 'a boolean';
  if (Array.isArray(value)) return `an array of ${counted(value.length, 'item')}`;
  return isJsonObject(value)
    ? `an object with ${counted(Object.keys(value).length, 'member')}`
    : 'an integer';
}

/** Puts the errors of ajv into words, the most telling ones only. There is always one, for no finding means valid. */
export function findingsOf(errors: readonly ErrorObject[], value: JsonValue): readonly SchemaFinding[] {
  const findings: SchemaFinding[] = [];
  for (const error of tellingErrors(errors)) {
    const finding = findingOf(error, value);
    if (findings.some(({ path, expected }) => path === finding.path && expected === finding.expected))
      continue;
    findings.push(finding);
    if (Buffer.byteLength(JSON.stringify(findings)) > findingsBytesMax) {
      findings.pop();
      break;
    }
    if (findings.length === limits.findingsMax) break;
  }
  return findings.length > 0
    ? findings
    : [{ path: '', expected: 'a value that fits the schema', received: describeKind(value) }];
}

/** Leaves out errors that only say that another one happened. */
function tellingErrors(errors: readonly ErrorObject[]): readonly ErrorObject[] {
  const kept: ErrorObject[] = [];
  for (const error of errors) {
    if (error.keyword === 'anyOf' || error.keyword === 'oneOf')
      kept.push(...tellingAlternative(error, takeInner(kept, error)));
    else if (error.keyword === 'contains') {
      takeInner(kept, error);
      kept.push(error);
    }
    // A wrong member name is told by `propertyNames`, a wrong branch by what is wrong in it.
    else if (error.propertyName === undefined && (error.keyword !== 'if' || kept.length === 0))
      kept.push(error);
  }
  return kept;
}

/** Takes the errors of the alternatives off the end of the list; ajv puts them before the one of `anyOf` or `oneOf`. */
function takeInner(kept: ErrorObject[], outer: ErrorObject): readonly ErrorObject[] {
  const around = outer.schemaPath.slice(0, outer.schemaPath.lastIndexOf('/') + 1);
  const isInner = ({ instancePath, schemaPath }: ErrorObject): boolean =>
    instancePath.startsWith(outer.instancePath) &&
    (schemaPath.startsWith(`${outer.schemaPath}/`) ||
      !schemaPath.startsWith(around) ||
      isReferenced(schemaPath.slice(around.length)));
  let start = kept.length;
  while (start > 0 && isInner(kept[start - 1] as ErrorObject)) start -= 1;
  return kept.splice(start);
}

const isReferenced = (schemaPath: string): boolean => /^(?:\$defs|definitions)\//.test(schemaPath);

/** If all alternatives but one want another type, what is wrong in that one; if all do, the types; else no more than that. */
function tellingAlternative(outer: ErrorObject, inner: readonly ErrorObject[]): readonly ErrorObject[] {
  const isTypeOfWhole = (error: ErrorObject): boolean =>
    error.keyword === 'type' && error.instancePath === outer.instancePath;
  const types = inner.filter(isTypeOfWhole);
  const others = inner.filter((error) => !isTypeOfWhole(error));
  if (others.length === 0 && types.length > 0) {
    return [
      {
        ...outer,
        keyword: 'type',
        params: { type: types.flatMap((error) => error.params.type as string | string[]) },
      },
    ];
  }
  const alternatives = new Set(
    others.map(({ schemaPath }) =>
      schemaPath.startsWith(`${outer.schemaPath}/`)
        ? schemaPath.slice(outer.schemaPath.length + 1).split('/', 1)[0]
        : schemaPath.split('/', 3).join('/'),
    ),
  );
  return alternatives.size === 1 ? others : [outer];
}

function findingOf(error: ErrorObject, value: JsonValue): SchemaFinding {
  const params = error.params as Readonly<Record<string, JsonValue>>;
  // Keywords about a member name the member, which is absent or should be.
  const member =
    params.missingProperty ?? params.additionalProperty ?? params.unevaluatedProperty ?? params.propertyName;
  const place = error.instancePath.split('/').slice(1).map(memberName);
  const names = typeof member === 'string' ? [...place, member] : place;
  const path = truncate(names.map(word).map(pointerStep).join(''), pathCharsMax);
  const found = {
    path,
    expected: expectation(error.keyword, params),
    received: describeKind(valueAt(value, names)),
  };
  const values =
    params.allowedValues ??
    (Object.hasOwn(params, 'allowedValue') ? [params.allowedValue ?? null] : undefined);
  return Array.isArray(values) ? { ...found, allowed: shownValues(values as readonly JsonValue[]) } : found;
}

function expectation(keyword: string, params: Readonly<Record<string, JsonValue>>): string {
  const limit = String(params.limit);
  switch (keyword) {
    case 'type':
      return [...new Set([params.type].flat())].join(' or ');
    case 'required':
      return 'this required member';
    case 'dependentRequired':
    case 'dependencies':
      return `this member, which ${word(String(params.property))} requires`;
    case 'additionalProperties':
    case 'unevaluatedProperties':
      return 'no member of this name';
    case 'propertyNames':
      return 'a member name that the schema allows';
    case 'enum':
      return `one of ${counted((params.allowedValues as readonly JsonValue[]).length, 'allowed value')}`;
    case 'const':
      return 'exactly the allowed value';
    case 'format':
      return `a string in the format ${word(String(params.format))}`;
    case 'pattern':
      return `a string that matches ${word(String(params.pattern))}`;
    case 'minimum':
    case 'maximum':
    case 'exclusiveMinimum':
    case 'exclusiveMaximum':
      return `a number ${String(params.comparison)} ${limit}`;
    case 'multipleOf':
      return `a multiple of ${String(params.multipleOf)}`;
    case 'minLength':
      return `at least ${counted(params.limit as number, 'character')}`;
    case 'maxLength':
      return `at most ${counted(params.limit as number, 'character')}`;
    case 'minItems':
      return `at least ${counted(params.limit as number, 'item')}`;
    case 'maxItems':
    case 'items':
    case 'additionalItems':
    case 'unevaluatedItems':
      return `at most ${counted((params.limit ?? params.len) as number, 'item')}`;
    case 'minProperties':
      return `at least ${counted(params.limit as number, 'member')}`;
    case 'maxProperties':
      return `at most ${counted(params.limit as number, 'member')}`;
    case 'uniqueItems':
      return 'items that all differ';
    case 'anyOf':
      return 'a value that fits one of the alternatives of the schema (anyOf)';
    case 'oneOf':
      return 'a value that fits exactly one of the alternatives of the schema (oneOf)';
    case 'false schema':
      return 'nothing here';
    default:
      return `a value that fits the keyword ${word(keyword)} of the schema`;
  }
}

/** As many of the values as fit, strings cut; of objects and arrays only small ones. */
function shownValues(values: readonly JsonValue[]): readonly JsonValue[] {
  const shown: JsonValue[] = [];
  let charsLeft = allowedCharsMax;
  for (const value of values) {
    const item = typeof value === 'string' ? word(value) : value;
    charsLeft -= JSON.stringify(item).length;
    if (charsLeft < 0) break;
    shown.push(item);
  }
  return shown;
}

const word = (text: string): string => (text === '' ? '' : foreignText(text, wordCharsMax));
const counted = (count: number, noun: string): string => `${count} ${noun}${count === 1 ? '' : 's'}`;
const memberName = (token: string): string => token.replaceAll('~1', '/').replaceAll('~0', '~');

function valueAt(value: JsonValue, names: readonly string[]): JsonValue | undefined {
  let found: JsonValue | undefined = value;
  for (const name of names) {
    if (typeof found !== 'object' || found === null || !Object.hasOwn(found, name)) return undefined;
    found = (found as Readonly<Record<string, JsonValue>>)[name];
  }
  return found;
}
