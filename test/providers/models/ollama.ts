import type { Provider } from '../support/provider.ts';
import {
  anyObject,
  type Body,
  base64,
  demand,
  demandPairs,
  either,
  listOf,
  object,
  only,
  others,
  text,
} from '../support/schema.ts';

const call = object(
  { function: object({ name: text, arguments: anyObject }, { index: { type: 'integer' } }) },
  { id: text },
);
const message = either(
  object({ role: only('user', 'system'), content: text }, { images: listOf(base64) }),
  object({ role: only('assistant'), content: text }, { thinking: text, tool_calls: listOf(call, 1) }),
  object(
    { role: only('tool'), content: text, tool_name: text },
    { tool_call_id: text, images: listOf(base64, 1) },
  ),
);

/** `POST /api/chat` of Ollama, whose calls have no ids. */
export const ollama: Provider = {
  format: 'ollama',
  path: /^\/api\/chat$/,
  key: /^$/,
  request: object(
    { model: text, messages: listOf(message, 1), stream: only(false) },
    { tools: listOf(anyObject), ...others('options', 'format', 'think', 'keep_alive') },
  ),
  tools: (body) => body.tools ?? [],
  answered: (body) => body.messages,
  ask: (calls) =>
    answer({
      content: '',
      thinking: 'Let me look.',
      tool_calls: calls.map(({ name, input }) => ({ function: { name, arguments: input } })),
    }),
  say: (words) => answer({ content: words }),

  results({ messages }, _, calls) {
    const at = messages.findIndex(({ tool_calls }: Body) => tool_calls !== undefined);
    demand(at >= 0, 'the calls are missing from the messages');
    const results: Body[] = messages.slice(at + 1);
    demandPairs(
      calls.map(({ name }) => name),
      results.map(({ tool_name }) => tool_name),
    );
    return results.map(({ content, images = [] }) => ({
      text: content,
      isError: undefined,
      images: images.map(() => 'image/*'),
    }));
  },

  refusal: (error) => ({ error }),
};

const answer = (said: Body): Body => ({
  model: 'qwen3',
  created_at: '2026-11-30T12:00:00Z',
  message: { role: 'assistant', ...said },
  done: true,
  done_reason: 'stop',
});
