import { createContext, Script } from 'node:vm';
import { _, Ajv, type KeywordDefinition, type Options, type ValidateFunction } from 'ajv';
import { Ajv2019 } from 'ajv/dist/2019.js';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { fullFormats } from 'ajv-formats/dist/formats.js';
import { canonicalJson, type JsonValue } from '../core/json.ts';
import { fail, ok, type Result } from '../core/result.ts';
import { foreignText } from '../core/text.ts';
import { describeKind, findingsOf, type SchemaFinding } from './findings.ts';
import { compilePattern } from './pattern.ts';
import type { GatedSchema } from './schema-gate.ts';
import type { Dialect } from './schema-keywords.ts';

/** Says what is wrong with a value; nothing when it is valid. It must hold no `ExactNumber` (see `numericCopy`). */
export type Validator = (value: JsonValue) => readonly SchemaFinding[];

const validationLimits = {
  /** SC-9: what one validation may take. */
  timeMaxMs: 100,
  /** Subschemas times values, up to which a validation needs no clock: at 50 ns each, 5 ms. */
  unguardedChecksMax: 100_000,
  /** Pattern instructions times characters, likewise: at 13 ns each, 7 ms. */
  unguardedPatternStepsMax: 500_000,
  /** Cost of a schema that is compiled a second time to find all that is wrong; that takes 40 us per subschema. */
  thoroughCostMax: 500,
} as const;

/** `url` is no format of JSON Schema, and its pattern takes quadratic time. */
const { url: _url, ...formats } = fullFormats;

/**
 * The options of every ajv (SC-7). None of them lets ajv change a value, fetch anything or read a reference in data;
 * the schema needs no meta-schema, for the gate has checked the shape of every keyword.
 */
export const ajvOptions = (allErrors: boolean): Options => ({
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
  code: { regExp: re2, optimize: false },
});

const re2 = Object.assign(
  (source: string) => {
    const pattern = compilePattern(source);
    if (!pattern.ok) throw new Error(pattern.error);
    return pattern.value;
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
function compile({ dialect, schema }: GatedSchema, allErrors: boolean): ValidateFunction {
  const ajv = ajvOf[dialect](ajvOptions(allErrors));
  for (const keyword of ownKeywords) ajv.removeKeyword(keyword.keyword as string).addKeyword(keyword);
  return ajv.compile(schema);
}

/** Makes the validator of a gated schema. The error blames the schema, in one line. */
export function compileValidator(gated: GatedSchema): Result<Validator, string> {
  let first: ValidateFunction | undefined;
  let thorough: ValidateFunction | undefined;
  try {
    first = compile(gated, false);
  } catch (error) {
    return fail(
      `the schema cannot be compiled: ${foreignText(error instanceof Error ? error.message : '', 200)}`,
    );
  }

  /** The first error is found fast; all of them are worth a second look only where that is cheap. */
  const check = (judge: ValidateFunction, value: JsonValue, isShort: boolean): readonly SchemaFinding[] => {
    if (judge(value)) return [];
    const errors = judge.errors ?? [];
    if (!isShort || gated.cost > validationLimits.thoroughCostMax) return findingsOf(errors, value);
    thorough ??= compile(gated, true);
    return findingsOf(thorough(value) ? errors : (thorough.errors ?? []), value);
  };

  return ok((value) => {
    first ??= compile(gated, false);
    const judge = first;
    try {
      return isCheap(gated, value) ? check(judge, value, true) : withinTime(() => check(judge, value, false));
    } catch (error) {
      // An interrupted pattern may be left in the middle of a step; the next call gets a new one.
      first = undefined;
      return [
        {
          path: '',
          expected: isTimeout(error) ? fasterChecks : runnableSchema,
          received: describeKind(value),
        },
      ];
    }
  });
}

const fasterChecks = `a value that can be checked in ${validationLimits.timeMaxMs} ms; try a smaller one`;
const runnableSchema =
  'nothing else: the schema of the tool itself fails while it runs, so the value cannot be checked';

/** Whether a validation is short whatever the value is. Recursive schemas can double their work on every level. */
function isCheap({ cost, patternSteps, isRecursive }: GatedSchema, value: JsonValue): boolean {
  const { values, chars } = sizeOf(value);
  return (
    !isRecursive &&
    values * cost <= validationLimits.unguardedChecksMax &&
    chars * patternSteps <= validationLimits.unguardedPatternStepsMax
  );
}

/** Values, and characters of strings and names, in a value. */
function sizeOf(value: JsonValue): { readonly values: number; readonly chars: number } {
  if (typeof value === 'string') return { values: 1, chars: value.length };
  if (typeof value !== 'object' || value === null) return { values: 1, chars: 0 };
  let values = 1;
  let chars = 0;
  for (const [name, member] of Object.entries(value as Readonly<Record<string, JsonValue>>)) {
    const size = sizeOf(member);
    values += size.values;
    chars += size.chars + name.length;
  }
  return { values, chars };
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
