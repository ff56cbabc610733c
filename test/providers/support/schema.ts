import { Ajv2020 } from 'ajv/dist/2020.js';

/** A JSON Schema, or a part of one. */
export type Schema = Readonly<Record<string, unknown>>;

/** A JSON object of which nothing is known yet. */
// biome-ignore lint/suspicious/noExplicitAny: what is read from it has been checked against a schema
export type Body = Readonly<Record<string, any>>;

/** What the API of a provider answers with 400. */
export class Refusal extends Error {}

/** Refuses a request unless this holds. */
export function demand(holds: boolean, refusal: string): asserts holds {
  if (!holds) throw new Refusal(refusal);
}

export const anything: Schema = {};
export const text: Schema = { type: 'string' };
/** Text that is more than white space. */
export const words: Schema = { type: 'string', pattern: '\\S' };
export const base64: Schema = {
  type: 'string',
  pattern: '^(?:[A-Za-z0-9+/]{4})+(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$|^[A-Za-z0-9+/]{2,3}=?=?$',
};
export const only = (...values: unknown[]): Schema => ({ enum: values });
export const matching = (pattern: string): Schema => ({ type: 'string', pattern });
export const either = (...schemas: Schema[]): Schema => ({ anyOf: schemas });
export const listOf = (items: Schema, minItems = 0): Schema => ({ type: 'array', items, minItems });
export const nullable = (schema: Schema): Schema => either(schema, { type: 'null' });
export const anyObject: Schema = { type: 'object' };
/** Members that have to be there, and others that may; the API refuses every further one. */
export const object = (required: Record<string, Schema>, optional: Record<string, Schema> = {}): Schema => ({
  type: 'object',
  properties: { ...optional, ...required },
  required: Object.keys(required),
  additionalProperties: false,
});
/** Members about which the tests say nothing. */
export const others = (...names: string[]): Record<string, Schema> =>
  Object.fromEntries(names.map((name) => [name, anything]));

const ajv = new Ajv2020({ strict: false, allErrors: true });

/** Refuses what does not fit a schema. */
export function schemaCheck(schema: Schema): (body: unknown) => void {
  const validate = ajv.compile(schema);
  return (body) => {
    demand(validate(body), `the request is invalid: ${ajv.errorsText(validate.errors, { dataVar: '' })}`);
  };
}

/** Refuses anything but exactly one result for each call, in their order. */
export function demandPairs(calls: readonly unknown[], results: readonly unknown[]): void {
  demand(
    JSON.stringify(calls) === JSON.stringify(results),
    `the calls ${JSON.stringify(calls)} are answered by the results ${JSON.stringify(results)}`,
  );
}

/** Refuses a history that does not hold what the model said, as it said it. */
export function demandSame(said: unknown, kept: unknown): void {
  demand(
    canonical(said) === canonical(kept),
    `the model said ${canonical(said)}, and the history has ${canonical(kept)}`,
  );
}

/** JSON with sorted members, without those that are null. */
const canonical = (value: unknown): string =>
  JSON.stringify(value, (_, member: unknown) =>
    typeof member === 'object' && member !== null && !Array.isArray(member)
      ? Object.fromEntries(
          Object.entries(member)
            .filter(([, each]) => each !== null && each !== undefined)
            .sort(([a], [b]) => (a < b ? -1 : 1)),
        )
      : member,
  );
