import type { SchemaRules } from '../tools/projection.ts';

/**
 * What OpenAI takes as `parameters` of a function that is not strict, in both of its APIs. A schema that it refuses
 * costs the whole request.
 */
export const openaiSchema: SchemaRules = {
  needsItems: true,
  booleans: true,
  refs: 'kept',
};
