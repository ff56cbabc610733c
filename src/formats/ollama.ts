import { chatFormat } from './chat.ts';
import { ollamaSchema } from './ollama-schema.ts';
import type { MediaPart } from './parts.ts';

const imageTypes: ReadonlySet<string> = new Set(['image/png', 'image/jpeg']);

/** Ollama's own chat API. Outputs belong to calls by their order and name; only newer servers give ids as well. */
export const ollama = chatFormat({
  name: 'ollama',
  schemaRules: ollamaSchema,
  hasStrict: false,
  hasOptionalIds: true,
  takes: (part: MediaPart) => part.kind === 'image' && part.data !== '' && imageTypes.has(part.mediaType),
  toolMessage: ({ callId, hasMadeId, name }, { text, media }) => ({
    tool_name: name,
    ...(hasMadeId === true ? {} : { tool_call_id: callId }),
    content: text,
    ...(media.length === 0 ? {} : { images: media.map(({ data }) => data) }),
  }),
});
