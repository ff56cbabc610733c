import type { SchemaRules } from '../tools/projection.ts';
import { anthropicSchema } from './anthropic-schema.ts';

/** What Converse takes as `inputSchema.json`: it hands the schema on, and Claude is the model that refuses most. */
export const bedrockSchema: SchemaRules = anthropicSchema;
