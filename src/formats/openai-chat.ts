import { chatFormat } from './chat.ts';
import { openaiSchema } from './openai-schema.ts';
import { takesNone } from './parts.ts';

/** OpenAI Chat Completions, and gateways that speak it. Its tool messages carry text alone. */
export const openaiChat = chatFormat({
  name: 'openai-chat',
  toolsMax: 128,
  schemaRules: openaiSchema,
  hasStrict: true,
  hasOptionalIds: false,
  takes: takesNone,
  toolMessage: ({ callId }, { text }) => ({ tool_call_id: callId, content: text }),
});
