import type { SchemaRules } from '../tools/projection.ts';

/**
 * What Gemini takes as `parametersJsonSchema`, and the Interactions API as `parameters`: the keywords that the
 * documentation lists for JSON Schema, and those that its own `Schema` has too. It takes a `$ref` only alone, and none
 * that leads back to itself.
 */
export const geminiSchema: SchemaRules = {
  needsItems: false,
  booleans: false,
  keys: /^[A-Za-z_][A-Za-z0-9_]{0,63}$/,
  refs: 'alone',
  keywords: new Set([
    '$defs',
    '$ref',
    'additionalProperties',
    'anyOf',
    'default',
    'description',
    'enum',
    'format',
    'items',
    'maxItems',
    'maxLength',
    'maxProperties',
    'maximum',
    'minItems',
    'minLength',
    'minProperties',
    'minimum',
    'pattern',
    'prefixItems',
    'properties',
    'required',
    'title',
    'type',
    'uniqueItems',
  ]),
  enumValues: new Set(['string', 'number']),
};
