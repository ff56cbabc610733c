import { camelCase, chatFormat } from './chat.ts';
import { openaiSchema } from './openai-schema.ts';
import { isWebImage } from './parts.ts';

/**
 * Mistral's chat API. It publishes no rules for schemas, so the strictest of its relatives holds. A call that came
 * without an id is answered under one that was made; the caller puts that into the message it keeps as well. Documents
 * are only marked, as the models that look at images do not read those.
 */
export const mistral = chatFormat({
  name: 'mistral',
  schemaRules: openaiSchema,
  hasStrict: false,
  hasOptionalIds: true,
  takes: isWebImage,
  toolMessage: ({ callId, name, kind }, { text, media }) => {
    const isCamel = kind === camelCase;
    const images = media.map(({ mediaType, data }) => ({
      type: 'image_url',
      [isCamel ? 'imageUrl' : 'image_url']: `data:${mediaType};base64,${data}`,
    }));
    return {
      [isCamel ? 'toolCallId' : 'tool_call_id']: callId,
      name,
      content: images.length === 0 ? text : [{ type: 'text', text }, ...images],
    };
  },
});
