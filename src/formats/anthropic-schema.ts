import type { SchemaRules } from '../tools/projection.ts';

/**
 * What Anthropic takes as `input_schema` of a tool that is not strict. The names of the parameters themselves are
 * checked, those of properties further down are not.
 */
export const anthropicSchema: SchemaRules = {
  needsItems: false,
  booleans: true,
  keys: /^[a-zA-Z0-9_.-]{1,64}$/,
  refs: 'kept',
};
