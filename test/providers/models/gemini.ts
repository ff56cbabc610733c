import type { Provider } from '../support/provider.ts';
import {
  anyObject,
  type Body,
  base64,
  demand,
  demandPairs,
  demandSame,
  either,
  listOf,
  matching,
  object,
  only,
  others,
  text,
} from '../support/schema.ts';

const signature = { thoughtSignature: base64 };
const media = object({
  inlineData: object({
    mimeType: matching('^(image/(png|jpeg|webp)|application/pdf|text/plain)$'),
    data: base64,
  }),
});
const content = object({
  role: only('user', 'model'),
  parts: listOf(
    either(
      object({ text }, { ...signature, thought: { type: 'boolean' } }),
      object({ functionCall: object({ name: text }, { args: anyObject, id: text }) }, signature),
      object({
        functionResponse: object(
          { name: text, response: object({}, { output: text, error: text }) },
          { id: text, parts: listOf(media, 1) },
        ),
      }),
    ),
    1,
  ),
});

/** `generateContent` of a model that gives ids and signatures and looks at media, or of an older one that does none of it. */
export const gemini = (model: string, isOld: boolean): Provider => ({
  format: 'gemini',
  path: new RegExp(`^/v1(beta)?/models/${model}:generateContent$`),
  key: /^model-key$/,
  ...(isOld ? {} : { id: () => crypto.randomUUID().slice(0, 8) }),
  request: object(
    { contents: listOf(content, 1) },
    { tools: listOf(anyObject), ...others('generationConfig', 'toolConfig', 'systemInstruction') },
  ),
  tools: (body) => body.tools ?? [],
  answered: (body) => body.contents.at(-1).parts,
  ask: (calls) =>
    response(
      model,
      calls.map(({ id, name, input }, index) => ({
        functionCall: { name, args: input, ...(isOld ? {} : { id }) },
        ...(isOld || index > 0 ? {} : { thoughtSignature: 'c2lnbmF0dXJl' }),
      })),
    ),
  say: (words) => response(model, [{ text: words }]),

  results({ contents }, { candidates: [candidate] }, calls) {
    const [said, answered] = contents.slice(-2);
    demandSame(candidate.content, said);
    demand(answered.role === 'user', 'function responses come from the user');
    const results: Body[] = answered.parts.map((part: Body) => part.functionResponse);
    demand(!results.includes(undefined as never), 'only function responses may follow function calls');
    demandPairs(
      calls.map(({ id, name }) => [name, isOld ? null : id]),
      results.map(({ id, name }) => [name, id ?? null]),
    );
    return results.map(({ response: { output, error }, parts = [] }) => {
      demand(!isOld || parts.length === 0, `${model} takes no media in a function response`);
      return {
        text: output ?? error,
        isError: error !== undefined,
        images: parts.map((part: Body) => part.inlineData.mimeType),
      };
    });
  },

  refusal: (message) => ({ error: { code: 400, message, status: 'INVALID_ARGUMENT' } }),
});

const response = (modelVersion: string, parts: readonly Body[]): Body => ({
  candidates: [{ content: { role: 'model', parts }, finishReason: 'STOP', index: 0 }],
  usageMetadata: { promptTokenCount: 1, candidatesTokenCount: 1, totalTokenCount: 2 },
  modelVersion,
  responseId: crypto.randomUUID(),
});
