import { Ajv2020 } from 'ajv/dist/2020.js';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { ExactNumber, isJsonObject, type JsonObject, type JsonValue } from '../../../src/core/json.ts';
import { anthropicSchema } from '../../../src/formats/anthropic-schema.ts';
import { geminiSchema } from '../../../src/formats/gemini-schema.ts';
import { ollamaSchema } from '../../../src/formats/ollama-schema.ts';
import { openaiSchema } from '../../../src/formats/openai-schema.ts';
import { projectSchema, restoreKeys } from '../../../src/tools/projection.ts';
import { gateSchema } from '../../../src/tools/schema-gate.ts';
import { strictSchema, withoutStrictNulls } from '../../../src/tools/strict-schema.ts';

const allRules = { openaiSchema, anthropicSchema, geminiSchema, ollamaSchema };
const key = fc.constantFrom('a', 'b', '$c', 'd e', 'f[0]', 'a_0123abcd');

const atom = fc.constantFrom<JsonObject>(
  { type: 'string' },
  { type: 'string', minLength: 2 },
  { type: 'integer', minimum: 1 },
  { type: 'number', maximum: 3 },
  { type: 'boolean' },
  { type: 'null' },
  { type: ['string', 'null'], enum: ['x', null] },
  { enum: ['x', 2] },
  { const: 'x' },
  { $ref: '#/$defs/A' },
  { $ref: '#/definitions/B' },
  { $ref: '#/$defs/A', title: 't' },
  { $ref: '#/$defs/Tree' },
  {},
);
const { schema } = fc.letrec<{ schema: JsonObject; object: JsonObject }>((tie) => ({
  schema: fc.oneof(
    { maxDepth: 3 },
    atom,
    tie('object'),
    {
      arbitrary: fc
        .tuple(
          fc.constantFrom('anyOf', 'oneOf', 'allOf'),
          fc.array(tie('schema'), { minLength: 1, maxLength: 2 }),
        )
        .map(([keyword, list]): JsonObject => ({ [keyword]: list })),
      weight: 1,
    },
    {
      arbitrary: tie('schema').map((items): JsonObject => ({ type: 'array', items })),
      weight: 1,
    },
  ),
  object: fc
    .record({
      of: fc.uniqueArray(fc.tuple(key, tie('schema')), { selector: ([name]) => name, maxLength: 4 }),
      required: fc.uniqueArray(key, { maxLength: 2 }),
      isClosed: fc.boolean(),
    })
    .map(
      ({ of, required, isClosed }): JsonObject => ({
        type: 'object',
        properties: Object.fromEntries(of),
        ...(required.length > 0 ? { required } : {}),
        ...(isClosed ? { additionalProperties: false } : {}),
      }),
    ),
}));
const root = fc
  .tuple(
    schema.filter(({ properties }) => properties !== undefined),
    fc.option(
      fc.tuple(fc.constantFrom('anyOf', 'oneOf', 'allOf'), fc.array(schema, { minLength: 1, maxLength: 2 })),
      {
        freq: 4,
        nil: undefined,
      },
    ),
  )
  .map(
    ([own, combined]): JsonObject => ({
      ...own,
      ...(combined === undefined ? {} : { [combined[0]]: combined[1] }),
      $defs: {
        A: { type: 'object', properties: { b: { type: 'string' } }, required: ['b'] },
        Tree: { type: 'object', properties: { a: { $ref: '#/$defs/Tree' } } },
        Unused: { type: 'string' },
      },
      definitions: { B: { type: ['string', 'integer'] } },
    }),
  );
const { value } = fc.letrec<{ value: JsonValue }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 3 },
    fc.constantFrom<JsonValue>('x', 'yy', 0, 1, 2, 5, true, null),
    fc.array(tie('value'), { maxLength: 2 }),
    fc.dictionary(key, tie('value'), { maxKeys: 3, noNullPrototype: true }),
  ),
}));
const argumentObject = fc.dictionary(key, value, { maxKeys: 4, noNullPrototype: true });

const fits = (compiled: JsonObject): ((data: JsonValue) => boolean) => {
  const validate = new Ajv2020({ strict: false, logger: false, validateSchema: false }).compile(compiled);
  return (data) => validate(data) as boolean;
};

/** A schema whose arguments the gate lets callgate check. */
const usable = root.filter((own) => gateSchema(own).ok);

describe('a projection', () => {
  test.each(Object.entries(allRules))(
    '(%s) judges as the original does, and with loss takes no less',
    (_, rules) => {
      let compared = 0;
      fc.assert(
        fc.property(usable, fc.array(argumentObject, { minLength: 5, maxLength: 10 }), (source, values) => {
          const before = JSON.stringify(source);
          const projection = projectSchema(source, rules);
          expect(JSON.stringify(source)).toBe(before);
          if (!projection.ok) {
            expect(projection.error).toMatch(/refers to itself/);
            return;
          }
          const { schema: projected, steps, renames } = projection.value;
          // What is merged at the root may say that an argument looks as most variants have it.
          if (steps.some(({ step, loss }) => loss && step === 'merge_root')) return;
          const isLossless = !steps.some(({ loss }) => loss);
          const declared = new Map([...renames].map(([name, own]) => [own, name]));
          const original = fits(source);
          const written = fits(projected);
          for (const own of values) {
            const sent = Object.fromEntries(
              Object.entries(own).map(([name, part]) => [declared.get(name) ?? name, part]),
            );
            if (isLossless) expect([own, written(sent)]).toEqual([own, original(own)]);
            else if (original(own)) expect([own, written(sent)]).toEqual([own, true]);
            compared += 1;
          }
        }),
        { numRuns: 80 },
      );
      expect(compared).toBeGreaterThan(10);
    },
  );

  test.each(Object.entries(allRules))('depends on the schema alone (%s)', (_, rules) => {
    fc.assert(
      fc.property(usable, (source) => {
        const one = JSON.stringify(projectSchema(source, rules));
        expect(JSON.stringify(projectSchema(structuredClone(source), rules))).toBe(one);
      }),
      { numRuns: 50 },
    );
  });

  test('gives back every name as the server has it, and touches nothing else', () => {
    const names = fc.uniqueArray(fc.string({ unit: 'binary', maxLength: 80 }), { maxLength: 8 });
    const leaf = fc.oneof(
      value,
      fc.bigInt().map((big) => new ExactNumber(String(big))),
    );
    fc.assert(
      fc.property(names, fc.array(leaf, { minLength: 8, maxLength: 8 }), (keys, leaves) => {
        const own = Object.fromEntries(
          keys.filter((name) => name !== '__proto__').map((name, index) => [name, leaves[index] ?? null]),
        );
        const source = {
          type: 'object',
          properties: Object.fromEntries(Object.keys(own).map((name) => [name, {}])),
        };
        for (const rules of [anthropicSchema, geminiSchema]) {
          const projection = projectSchema(source, rules);
          if (!projection.ok) throw new Error(projection.error);
          const { renames, schema: projected } = projection.value;
          const properties = projected.properties as JsonObject;
          for (const name of Object.keys(properties)) expect(name).toMatch(rules.keys as RegExp);
          const declared = new Map([...renames].map(([name, original]) => [original, name]));
          const sent = Object.fromEntries(
            Object.entries(own).map(([name, part]) => [declared.get(name) ?? name, part]),
          );
          const restored = restoreKeys(sent, renames);
          expect(Object.entries(restored)).toEqual(Object.entries(own));
          for (const [name, part] of Object.entries(own)) expect(restored[name]).toBe(part);
        }
      }),
      { numRuns: 200 },
    );
  });
});

describe('a strict form', () => {
  const nulled = (data: JsonValue, strict: JsonValue, $defs: JsonObject): JsonValue => {
    if (!isJsonObject(strict)) return data;
    if (typeof strict.$ref === 'string') return nulled(data, $defs[strict.$ref.slice(8)] ?? {}, $defs);
    if (Array.isArray(data)) return data.map((item) => nulled(item as JsonValue, strict.items ?? {}, $defs));
    const [only, second] = (Array.isArray(strict.anyOf) ? strict.anyOf : []) as JsonValue[];
    if (only !== undefined && isJsonObject(second ?? null) && (second as JsonObject).type === 'null')
      return nulled(data, only, $defs);
    if (!isJsonObject(data) || !isJsonObject(strict.properties ?? null)) return data;
    const names = Object.keys(strict.properties as JsonObject);
    return Object.fromEntries(
      names.map((name) => [
        name,
        Object.hasOwn(data, name)
          ? nulled(data[name] as JsonValue, (strict.properties as JsonObject)[name] ?? {}, $defs)
          : null,
      ]),
    );
  };

  test('takes what the original takes, with null for what is left out, and gives it back', () => {
    let compared = 0;
    fc.assert(
      fc.property(usable, fc.array(argumentObject, { minLength: 10, maxLength: 20 }), (source, values) => {
        const projection = projectSchema(source, openaiSchema);
        if (!projection.ok || projection.value.steps.some(({ loss }) => loss)) return;
        const strict = strictSchema(projection.value.schema);
        if (strict === undefined) return;
        const original = fits(source);
        const guaranteed = fits(strict);
        for (const own of values) {
          const sent = nulled(own, strict, (strict.$defs ?? {}) as JsonObject) as JsonObject;
          if (!guaranteed(sent)) continue;
          compared += 1;
          expect([sent, original(withoutStrictNulls(sent, source))]).toEqual([sent, true]);
        }
      }),
      { numRuns: 300 },
    );
    expect(compared).toBeGreaterThan(0);
  });
});
