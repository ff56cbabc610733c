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
  words,
} from '../support/schema.ts';

const textBlock = object({ text: words });
const image = object({
  image: object({ format: only('png', 'jpeg', 'gif', 'webp'), source: object({ bytes: base64 }) }),
});
const document = object({
  document: object({
    format: only('pdf', 'csv', 'doc', 'docx', 'xls', 'xlsx', 'html', 'txt', 'md'),
    name: matching('^[A-Za-z0-9]+([ ()\\[\\]-][A-Za-z0-9()\\[\\]-]+)*$'),
    source: object({ bytes: base64 }),
  }),
});
const toolUseId = matching('^[a-zA-Z0-9_.:-]{1,64}$');
const block = either(
  textBlock,
  image,
  document,
  object({ reasoningContent: object({ reasoningText: object({ text }, { signature: text }) }) }),
  object({ toolUse: object({ toolUseId, name: matching('^[a-zA-Z0-9_-]{1,64}$'), input: anyObject }) }),
  object({
    toolResult: object(
      { toolUseId, content: listOf(either(textBlock, image, document, object({ json: anyObject })), 1) },
      { status: only('success', 'error') },
    ),
  }),
);

/** Converse of Amazon Bedrock. */
export const bedrock: Provider = {
  format: 'bedrock',
  path: /^\/model\/[^/]+\/converse$/,
  key: /^AWS4-HMAC-SHA256 Credential=model-key\//,
  http2: true,
  id: () => `tooluse_${crypto.randomUUID().replaceAll('-', '')}`,
  request: object(
    { messages: listOf(object({ role: only('user', 'assistant'), content: listOf(block, 1) }), 1) },
    {
      toolConfig: object({ tools: listOf(anyObject, 1) }, others('toolChoice')),
      ...others('inferenceConfig', 'system', 'additionalModelRequestFields'),
    },
  ),
  tools: (body) => body.toolConfig?.tools ?? [],
  answered: (body) => body.messages.at(-1).content,
  ask: (calls) =>
    response('tool_use', [
      { reasoningContent: { reasoningText: { text: 'Let me look.', signature: 'c2lnbmF0dXJl' } } },
      { text: 'I look it up.' },
      ...calls.map(({ id, name, input }) => ({ toolUse: { toolUseId: id, name, input } })),
    ]),
  say: (last) => response('end_turn', [{ text: last }]),

  results({ messages, toolConfig }, { output }, calls) {
    demand(toolConfig !== undefined, 'toolConfig is required where messages hold tool blocks');
    const [said, answered] = messages.slice(-2);
    demandSame(output.message, said);
    const results: Body[] = answered.content.map((each: Body) => each.toolResult);
    demand(answered.role === 'user' && !results.includes(undefined as never), 'results stand alone');
    demandPairs(
      calls.map(({ id }) => id),
      results.map((each) => each.toolUseId),
    );
    return results.map(({ content, status }) => {
      demand(status !== 'error' || content.every(({ text }: Body) => text !== undefined), 'an error is text');
      return {
        text: content.map((each: Body) => each.text ?? '').join('\n'),
        isError: status === 'error',
        images: content.flatMap((each: Body) => (each.image ? `image/${each.image.format}` : [])),
      };
    });
  },

  refusal: (message) => ({ message }),
};

const response = (stopReason: string, content: readonly Body[]): Body => ({
  output: { message: { role: 'assistant', content } },
  stopReason,
  usage: { inputTokens: 1, outputTokens: 1, totalTokens: 2 },
  metrics: { latencyMs: 1 },
});
