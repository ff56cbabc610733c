import type { Provider } from '../support/provider.ts';
import {
  anyObject,
  type Body,
  demand,
  demandPairs,
  demandSame,
  either,
  listOf,
  object,
  only,
  others,
  text,
} from '../support/schema.ts';

const call = object({ id: text, type: only('function'), function: object({ name: text, arguments: text }) });
const message = either(
  object({ role: only('user', 'system'), content: text }),
  object(
    { role: only('assistant') },
    { tool_calls: listOf(call, 1), tool_plan: text, ...others('content', 'citations') },
  ),
  object({
    role: only('tool'),
    tool_call_id: text,
    content: either(
      text,
      listOf(
        either(
          object({ type: only('text'), text }),
          object({
            type: only('document'),
            document: object({ data: either(text, anyObject) }, { id: text }),
          }),
        ),
        1,
      ),
    ),
  }),
);

/** `POST /v2/chat` of Cohere. */
export const cohere: Provider = {
  format: 'cohere',
  path: /^\/v2\/chat$/,
  key: /^Bearer model-key$/,
  id: (count) => `call_${crypto.randomUUID()}_${count}`,
  request: object(
    { model: text, messages: listOf(message, 1) },
    { tools: listOf(anyObject), ...others('stream', 'tool_choice', 'temperature', 'strict_tools') },
  ),
  tools: (body) => body.tools ?? [],
  answered: (body) => body.messages,
  ask: (calls) =>
    answer('TOOL_CALL', {
      tool_plan: 'I look it up.',
      tool_calls: calls.map(({ id, name, input }) => ({
        id,
        type: 'function',
        function: { name, arguments: JSON.stringify(input) },
      })),
    }),
  say: (words) => answer('COMPLETE', { content: [{ type: 'text', text: words }] }),

  results({ messages }, answered, calls) {
    const at = messages.findIndex(({ tool_calls }: Body) => tool_calls !== undefined);
    demand(at >= 0, 'the calls are missing from the messages');
    demandSame(answered.message, messages[at]);
    const results: Body[] = messages.slice(at + 1);
    demandPairs(
      calls.map(({ id }) => id),
      results.map(({ tool_call_id }) => tool_call_id),
    );
    return results.map(({ content }) => ({
      text: typeof content === 'string' ? content : JSON.stringify(content),
      isError: undefined,
      images: [],
    }));
  },

  refusal: (message) => ({ message }),
};

const answer = (finish_reason: string, said: Body): Body => ({
  id: crypto.randomUUID(),
  finish_reason,
  message: { role: 'assistant', ...said },
  usage: { tokens: { input_tokens: 1, output_tokens: 1 } },
});
