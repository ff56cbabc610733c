import type { SchemaRules } from '../tools/projection.ts';

/**
 * What Ollama reads of a function's `parameters`. It reads them into types of its own and leaves out everything else,
 * so what it would lose is written in the words that it keeps.
 */
export const ollamaSchema: SchemaRules = {
  needsItems: false,
  booleans: false,
  refs: 'inlined',
  keywords: new Set(['anyOf', 'description', 'enum', 'items', 'properties', 'required', 'type']),
};
