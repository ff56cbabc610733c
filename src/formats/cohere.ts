import { camelCase, chatFormat } from './chat.ts';
import { openaiSchema } from './openai-schema.ts';
import { takesNone } from './parts.ts';

/** Cohere's chat API, version 2. It publishes no rules for schemas, so the strictest of its relatives holds. */
export const cohere = chatFormat({
  name: 'cohere',
  schemaRules: openaiSchema,
  hasStrict: false,
  hasOptionalIds: false,
  takes: takesNone,
  toolMessage: ({ callId, kind }, { text }) => ({
    [kind === camelCase ? 'toolCallId' : 'tool_call_id']: callId,
    content: text,
  }),
});
