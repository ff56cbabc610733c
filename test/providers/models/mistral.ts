import type { Provider } from '../support/provider.ts';
import {
  anyObject,
  type Body,
  demand,
  demandPairs,
  either,
  listOf,
  matching,
  nullable,
  object,
  only,
  others,
  text,
} from '../support/schema.ts';

const chunks = listOf(
  either(
    object({ type: only('text'), text }),
    object({ type: only('image_url'), image_url: matching('^data:image/(png|jpeg|gif|webp);base64,.+') }),
  ),
  1,
);
const id = matching('^[a-zA-Z0-9]{9}$');
const call = object(
  { id, function: object({ name: text, arguments: either(text, anyObject) }) },
  { type: only('function'), index: { type: 'integer' } },
);
const message = either(
  object({ role: only('user', 'system'), content: either(text, chunks) }),
  object(
    { role: only('assistant') },
    { content: nullable(either(text, chunks)), tool_calls: listOf(call), prefix: only(false) },
  ),
  object({ role: only('tool'), tool_call_id: id, name: text, content: either(text, chunks) }),
);

/** `POST /v1/chat/completions` of Mistral. */
export const mistral: Provider = {
  format: 'mistral',
  path: /^\/v1\/chat\/completions$/,
  key: /^Bearer model-key$/,
  id: (count) => `${crypto.randomUUID().slice(0, 8)}${count}`,
  request: object(
    { model: text, messages: listOf(message, 1) },
    { tools: listOf(anyObject), ...others('stream', 'tool_choice', 'temperature', 'parallel_tool_calls') },
  ),
  tools: (body) => body.tools ?? [],
  answered: (body) => body.messages,
  ask: (calls) =>
    completion('tool_calls', {
      content: '',
      tool_calls: calls.map((each, index) => ({
        id: each.id,
        type: 'function',
        function: { name: each.name, arguments: JSON.stringify(each.input) },
        index,
      })),
    }),
  say: (words) => completion('stop', { content: words, tool_calls: null }),

  results({ messages }, _, calls) {
    const at = messages.findIndex(({ tool_calls }: Body) => tool_calls?.length > 0);
    demand(at >= 0, 'the calls are missing from the messages');
    const asked: Body[] = messages[at].tool_calls;
    const results: Body[] = messages.slice(at + 1);
    const wanted = calls.map((each) => [each.id, each.name]);
    demandPairs(
      wanted,
      asked.map((each) => [each.id, each.function.name]),
    );
    demandPairs(
      wanted,
      results.map((each) => [each.tool_call_id, each.name]),
    );
    return results.map(({ content }) => {
      const parts: Body[] = typeof content === 'string' ? [{ type: 'text', text: content }] : content;
      return {
        text: parts.map((part) => part.text ?? '').join('\n'),
        isError: undefined,
        images: parts.flatMap(({ image_url }) => /^data:(.+?);/.exec(image_url ?? '')?.[1] ?? []),
      };
    });
  },

  refusal: (message) => ({ object: 'error', message, type: 'invalid_request_message_order', code: '3230' }),
};

const completion = (reason: string, said: Body): Body => ({
  id: crypto.randomUUID().replaceAll('-', ''),
  object: 'chat.completion',
  created: 1_760_000_000,
  model: 'mistral-large-latest',
  choices: [{ index: 0, finish_reason: reason, message: { role: 'assistant', prefix: false, ...said } }],
  usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
});
