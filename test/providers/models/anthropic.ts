import type { Provider } from '../support/provider.ts';
import {
  anyObject,
  anything,
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

const textBlock = object({ type: only('text'), text: words }, others('cache_control', 'citations'));
const image = object({
  type: only('image'),
  source: object({
    type: only('base64'),
    media_type: only('image/jpeg', 'image/png', 'image/gif', 'image/webp'),
    data: base64,
  }),
});
const document = object(
  {
    type: only('document'),
    source: object({ type: only('base64'), media_type: only('application/pdf'), data: base64 }),
  },
  { title: text },
);
const id = matching('^[a-zA-Z0-9_-]+$');
const result = object(
  { type: only('tool_result'), tool_use_id: id },
  {
    content: either(words, listOf(either(textBlock, image, document), 1)),
    is_error: { type: 'boolean' },
    cache_control: anything,
  },
);
const message = either(
  object({ role: only('user'), content: either(words, listOf(either(result, textBlock, image), 1)) }),
  object({
    role: only('assistant'),
    content: listOf(
      either(
        textBlock,
        object({ type: only('thinking'), thinking: text, signature: text }),
        object({ type: only('tool_use'), id, name: text, input: anyObject }, others('caller')),
      ),
      1,
    ),
  }),
);

/** `POST /v1/messages`. */
export const anthropic: Provider = {
  format: 'anthropic',
  path: /^\/v1\/messages$/,
  key: /^(Bearer )?model-key$/,
  id: (count) => `toolu_${crypto.randomUUID().replaceAll('-', '')}${count}`,
  request: object(
    { model: text, max_tokens: { type: 'integer', minimum: 1 }, messages: listOf(message, 1) },
    { tools: listOf(anyObject), ...others('system', 'thinking', 'tool_choice', 'stream', 'temperature') },
  ),
  tools: (body) => body.tools ?? [],
  answered: (body) => body.messages.at(-1).content,
  ask: (calls) =>
    answer('tool_use', [
      { type: 'thinking', thinking: 'Let me look.', signature: 'c2lnbmF0dXJl' },
      { type: 'text', text: 'I look it up.' },
      ...calls.map((call) => ({ type: 'tool_use', id: call.id, name: call.name, input: call.input })),
    ]),
  say: (last) => answer('end_turn', [{ type: 'text', text: last }]),

  results({ messages }, { content }, calls) {
    const [said, results] = messages.slice(-2);
    demandSame(content, said.content);
    const blocks: Body[] = Array.isArray(results.content) ? results.content : [];
    // Results stand first in the message that follows, all of them.
    const found = blocks.slice(0, blocks.findIndex(({ type }) => type !== 'tool_result') >>> 0);
    demandPairs(
      calls.map((call) => call.id),
      found.map(({ tool_use_id }) => tool_use_id),
    );
    return found.map((each) => {
      const inner: Body[] =
        typeof each.content === 'string' ? [{ type: 'text', text: each.content }] : (each.content ?? []);
      demand(
        each.is_error !== true || inner.every(({ type }) => type === 'text'),
        'a tool_result that is an error takes text alone',
      );
      return {
        text: inner.map((block) => block.text ?? '').join('\n'),
        isError: each.is_error === true,
        images: inner.flatMap((block) => (block.type === 'image' ? block.source.media_type : [])),
      };
    });
  },

  refusal: (message) => ({ type: 'error', error: { type: 'invalid_request_error', message } }),
};

const answer = (stop_reason: string, content: readonly Body[]): Body => ({
  id: `msg_${crypto.randomUUID()}`,
  type: 'message',
  role: 'assistant',
  model: 'claude-sonnet-5',
  content,
  stop_reason,
  stop_sequence: null,
  usage: { input_tokens: 1, output_tokens: 1 },
});
