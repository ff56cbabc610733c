import { createContext, Script } from 'node:vm';
import { _, Ajv, type ErrorObject, type KeywordDefinition, type Options, type ValidateFunction } from 'ajv';
import { Ajv2019 } from 'ajv/dist/2019.js';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { fullFormats } from 'ajv-formats/dist/formats.js';
import { canonicalJson, type JsonValue } from '../core/json.ts';
import { fail, ok, type Result } from '../core/result.ts';
import { foreignText } from '../core/text.ts';
import { describeKind, findingsOf, type SchemaFinding } from './findings.ts';
import type { GatedSchema } from './schema-gate.ts';
import type { Dialect } from './schema-keywords.ts';
import { sizeWithin } from './value-size.ts';

/** Says what is wrong with a value; nothing when it is valid. It must hold no `ExactNumber` (see `numericCopy`). */
export type Validator = (value: JsonValue) => readonly SchemaFinding[];

const validationLimits = {
  /** SC-9: what one validation may take. */
  timeMaxMs: 50,
  /** Subschemas times values, up to which a validation needs no clock: at 50 ns each, 5 ms. */
  unguardedChecksMax: 100_000,
  /** Steps times characters, likewise: at 13 ns each, 7 ms. */
  unguardedPatternStepsMax: 500_000,
  /** Cost of a schema that is compiled a second time to find all that is wrong. */
  thoroughCostMax: 100,
  /** Subschemas times values of such a second look, for ajv keeps every error it finds. */
  thoroughChecksMax: 5_000,
  /** Errors that are sorted out; where there are more, the outermost one tells enough. */
  errorsMax: 1_000,
} as const;

/** `url` is no format of JSON Schema, and its pattern takes quadratic time. */
const { url: _url, ...formats } = fullFormats;

/**
 * The options of every ajv (SC-7). None of them lets ajv change a value, fetch anything or read a reference in data;
 * the schema needs no meta-schema, for the gate has checked the shape of every keyword.
 */
export const ajvOptions = (allErrors: boolean, patterns: GatedSchema['patterns']): Options => ({
  strict: false,
  allErrors,
  ownProperties: true,
  meta: false,
  validateSchema: false,
  // Copies of referenced schemas would make the code as large as the cost of the schema instead of its size.
  inlineRefs: false,
  validateFormats: true,
  formats,
  messages: false,
  logger: false,
  // Optimising doubles the time to compile and gains less than a tool call can notice.
  code: { regExp: re2Of(patterns), optimize: false },
  // Longer lists are run as a loop: code for each member takes 50 us to compile.
  loopRequired: 4,
  loopEnum: 4,
});

/** Hands ajv the patterns that the gate has compiled. */
const re2Of = (patterns: GatedSchema['patterns']) =>
  Object.assign(
    (source: string) => {
      const pattern = patterns.get(source);
      if (pattern === undefined) throw new Error('the schema has a pattern that the gate has not seen');
      return pattern;
    },
    { code: 'callgate.re2' },
  );

const ajvOf: Readonly<Record<Dialect, (options: Options) => Ajv | Ajv2019 | Ajv2020>> = {
  'draft-07': (options) => new Ajv(options),
  '2019-09': (options) => new Ajv2019(options),
  '2020-12': (options) => new Ajv2020(options),
};

/** Keywords of which ajv has a version that is too slow or too exact. */
const ownKeywords: readonly KeywordDefinition[] = [
  {
    keyword: 'uniqueItems',
    type: 'array',
    schemaType: 'boolean',
    errors: false,
    // ajv compares every pair of items (SC-9).
    validate: (isWanted: boolean, items: readonly JsonValue[]) =>
      !isWanted || new Set(items.map(canonicalJson)).size === items.length,
  },
  {
    keyword: 'multipleOf',
    type: 'number',
    schemaType: 'number',
    errors: false,
    error: { message: '', params: ({ schemaCode }) => _`{ multipleOf: ${schemaCode} }` },
    validate: (step: number, value: number) => {
      if (Number.isInteger(step) && Number.isInteger(value)) return value % step === 0;
      // 19.99 is a multiple of 0.01, though their doubles are not (SC-13).
      const times = value / step;
      return Math.abs(times - Math.round(times)) <= Math.max(1e-9, Math.abs(times) * Number.EPSILON);
    },
  },
];

/** Compiles a schema in an ajv of its own, so that no schema can reach or disturb another one (SC-6). */
function compile({ dialect, schema, patterns }: GatedSchema, allErrors: boolean): ValidateFunction {
  const ajv = ajvOf[dialect](ajvOptions(allErrors, patterns));
  for (const keyword of ownKeywords) ajv.removeKeyword(keyword.keyword as string).addKeyword(keyword);
  return ajv.compile(schema);
}

/** Makes the validator of a gated schema. The error blames the schema, in one line. */
export function compileValidator(gated: GatedSchema): Result<Validator, string> {
  let first: ValidateFunction;
  let thorough: ValidateFunction | undefined;
  try {
    first = compile(gated, false);
    // V8 translates the code at its first run, which may take longer than a validation may.
    errorsOf(first, {});
  } catch (error) {
    return fail(
      `the schema cannot be compiled: ${foreignText(error instanceof Error ? error.message : '', 200)}`,
    );
  }
  const renewPatterns = (): void => {
    for (const pattern of gated.patterns.values()) pattern.renew();
  };

  /** The first error is found fast; all of them are worth a second look only where that is cheap. */
  const allErrors = (value: JsonValue, firstErrors: readonly ErrorObject[]): readonly ErrorObject[] => {
    try {
      thorough ??= compile(gated, true);
      const judge = thorough;
      const errors = withinTime(() => errorsOf(judge, value));
      return errors === undefined || errors.length > validationLimits.errorsMax ? firstErrors : errors;
    } catch {
      renewPatterns();
      return firstErrors;
    }
  };

  const check = (value: JsonValue): readonly SchemaFinding[] => {
    const checks = checksOf(gated, value);
    const errors = checks === undefined ? withinTime(() => errorsOf(first, value)) : errorsOf(first, value);
    if (errors === undefined) return [];
    // ajv puts the error of an alternative behind those of its parts.
    if (errors.length > validationLimits.errorsMax) return findingsOf(errors.slice(-1), value);
    const isWorthAll =
      checks !== undefined &&
      checks <= validationLimits.thoroughChecksMax &&
      gated.cost <= validationLimits.thoroughCostMax;
    return findingsOf(isWorthAll ? allErrors(value, errors) : errors, value);
  };

  return ok((value) => {
    try {
      return check(value);
    } catch (error) {
      renewPatterns();
      const expected = isTimeout(error) ? fasterChecks : runnableSchema;
      return [{ path: '', expected, received: describeKind(value) }];
    }
  });
}

/** What is wrong with a value; undefined when it is valid. ajv would keep the errors until the tool is called again. */
function errorsOf(judge: ValidateFunction, value: JsonValue): readonly ErrorObject[] | undefined {
  if (judge(value)) return undefined;
  const errors = judge.errors ?? [];
  judge.errors = null;
  return errors;
}

const fasterChecks = `a value that can be checked in ${validationLimits.timeMaxMs} ms; try a smaller one`;
const runnableSchema =
  'nothing else: the schema of the tool itself fails while it runs, so the value cannot be checked';

/**
 * Subschemas times values, where that and the steps in texts are few whatever the value is; undefined where not.
 * Recursive schemas can double their work on every level.
 */
function checksOf({ cost, patternSteps, isRecursive }: GatedSchema, value: JsonValue): number | undefined {
  if (isRecursive) return undefined;
  const size = sizeWithin(value, {
    values: validationLimits.unguardedChecksMax / cost,
    chars: validationLimits.unguardedPatternStepsMax / patternSteps,
  });
  return size === undefined ? undefined : size.values * cost;
}

const guarded: { run: () => unknown } = { run: () => undefined };
let guard: { readonly script: Script; readonly context: object } | undefined;

/** Runs a function and stops it, inside a pattern too, when it takes too long; this costs 0.1 ms. @throws on a timeout. */
function withinTime<T>(run: () => T): T {
  guard ??= { script: new Script('run()'), context: createContext(guarded) };
  guarded.run = run;
  try {
    return guard.script.runInContext(guard.context, { timeout: validationLimits.timeMaxMs }) as T;
  } finally {
    guarded.run = () => undefined;
  }
}

/** The error of a timeout belongs to the other context, so `instanceof Error` does not know it. */
const isTimeout = (error: unknown): boolean =>
  typeof error === 'object' &&
  error !== null &&
  'code' in error &&
  error.code === 'ERR_SCRIPT_EXECUTION_TIMEOUT';
