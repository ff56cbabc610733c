import type { Provider } from '../support/provider.ts';
import {
  anyObject,
  type Body,
  demand,
  demandPairs,
  demandSame,
  either,
  listOf,
  nullable,
  object,
  only,
  others,
  text,
} from '../support/schema.ts';

const parts = listOf(object({ type: only('text'), text }), 1);
const call = object({
  id: text,
  type: only('function'),
  function: object({ name: text, arguments: text }),
});
const message = either(
  object({ role: only('user', 'system', 'developer'), content: either(text, parts) }),
  object(
    { role: only('assistant') },
    {
      content: nullable(either(text, parts)),
      tool_calls: listOf(call, 1),
      ...others('refusal', 'annotations'),
    },
  ),
  // Text alone: the API has no images in tool messages.
  object({ role: only('tool'), tool_call_id: text, content: either(text, parts) }),
);

/** `POST /v1/chat/completions` of OpenAI. */
export const openaiChat: Provider = {
  format: 'openai-chat',
  path: /^\/v1\/chat\/completions$/,
  key: /^Bearer model-key$/,
  id: (count) => `call_${crypto.randomUUID().slice(0, 20)}${count}`,
  request: object(
    { model: text, messages: listOf(message, 1) },
    { tools: listOf(anyObject), ...others('stream', 'tool_choice', 'temperature', 'parallel_tool_calls') },
  ),
  tools: (body) => body.tools ?? [],
  answered: (body) => body.messages,
  ask: (calls) =>
    completion('tool_calls', {
      content: null,
      tool_calls: calls.map(({ id, name, input }) => ({
        id,
        type: 'function',
        function: { name, arguments: JSON.stringify(input) },
      })),
    }),
  say: (words) => completion('stop', { content: words }),

  results({ messages }, { choices: [choice] }, calls) {
    const at = messages.findIndex(({ tool_calls }: Body) => tool_calls !== undefined);
    demand(at >= 0, 'the calls are missing from the messages');
    demandSame(choice.message.tool_calls, messages[at].tool_calls);
    const results: Body[] = messages.slice(at + 1);
    demand(
      results.every(({ role }) => role === 'tool'),
      'an assistant message with tool_calls must be followed by tool messages',
    );
    demandPairs(
      calls.map(({ id }) => id),
      results.map(({ tool_call_id }) => tool_call_id),
    );
    return results.map(({ content }) => ({
      text: typeof content === 'string' ? content : content.map((part: Body) => part.text).join('\n'),
      isError: undefined,
      images: [],
    }));
  },

  refusal: (message) => ({ error: { message, type: 'invalid_request_error', param: null, code: null } }),
};

const completion = (reason: string, said: Body): Body => ({
  id: `chatcmpl-${crypto.randomUUID()}`,
  object: 'chat.completion',
  created: 1_760_000_000,
  model: 'gpt-5',
  choices: [
    {
      index: 0,
      finish_reason: reason,
      logprobs: null,
      message: { role: 'assistant', refusal: null, annotations: [], ...said },
    },
  ],
  usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
});
