import type { Provider } from '../support/provider.ts';
import {
  anyObject,
  type Body,
  demand,
  demandPairs,
  demandSame,
  either,
  listOf,
  matching,
  nullable,
  object,
  only,
  others,
  text,
} from '../support/schema.ts';

const part = either(
  object({ type: only('input_text'), text }),
  object(
    { type: only('input_image'), image_url: matching('^data:image/(png|jpeg|gif|webp);base64,.+') },
    { detail: only('auto', 'low', 'high') },
  ),
  object({
    type: only('input_file'),
    filename: text,
    file_data: matching('^data:application/pdf;base64,.+'),
  }),
);
const callId = { type: 'string', minLength: 1, maxLength: 64 };
const item = either(
  object(
    { role: only('user', 'system', 'developer', 'assistant'), content: either(text, listOf(part, 1)) },
    { type: only('message') },
  ),
  object(
    { type: only('message'), role: only('assistant'), content: listOf(anyObject, 1) },
    others('id', 'status', 'phase'),
  ),
  object(
    { type: only('reasoning'), id: text, summary: listOf(anyObject) },
    { encrypted_content: nullable(text), ...others('content', 'status') },
  ),
  object(
    { type: only('function_call'), call_id: callId, name: text, arguments: text },
    { id: matching('^fc_'), ...others('status', 'namespace', 'caller') },
  ),
  object(
    { type: only('function_call_output'), call_id: callId, output: either(text, listOf(part, 1)) },
    others('id', 'status', 'caller', 'name', 'namespace'),
  ),
  object({ id: text }, { type: only('item_reference') }),
);

/** `POST /v1/responses`. */
export const openaiResponses: Provider = {
  format: 'openai-responses',
  path: /^\/v1\/responses$/,
  key: /^Bearer model-key$/,
  id: (count) => `call_${crypto.randomUUID()}_${count}`,
  request: object(
    { model: text, input: listOf(item, 1) },
    {
      tools: listOf(anyObject),
      ...others('include', 'instructions', 'parallel_tool_calls', 'reasoning', 'store', 'stream', 'text'),
      ...others('temperature', 'tool_choice', 'top_p', 'truncation', 'max_output_tokens', 'metadata', 'user'),
      ...others('prompt_cache_key', 'safety_identifier', 'service_tier', 'top_logprobs', 'max_tool_calls'),
    },
  ),
  tools: (body) => body.tools ?? [],
  answered: (body) => body.input,
  ask: (calls) =>
    response([
      { type: 'reasoning', id: 'rs_1', summary: [] },
      ...calls.map(({ id, name, namespace, input }, index) => ({
        type: 'function_call',
        id: `fc_${index}`,
        call_id: id,
        name,
        ...(namespace === undefined ? {} : { namespace }),
        arguments: JSON.stringify(input),
        status: 'completed',
      })),
    ]),
  say: (words) =>
    response([
      {
        type: 'message',
        id: 'msg_1',
        role: 'assistant',
        status: 'completed',
        content: [{ type: 'output_text', text: words, annotations: [] }],
      },
    ]),

  results({ input }, { output }, calls) {
    // What the API stored may be sent as a reference to it.
    const items: Body[] = input.map((each: Body) =>
      each.type === 'item_reference' ? output.find(({ id }: Body) => id === each.id) : each,
    );
    const results = items.filter(({ type }) => type === 'function_call_output');
    const start = items.findIndex((each) => each?.type === 'reasoning');
    demand(start >= 0, 'a function_call was provided without its required reasoning item');
    for (const [index, said] of output.entries()) {
      const kept = items[start + index] ?? {};
      const members = Object.keys(said).filter(
        (key) => key !== 'status' && (key !== 'id' || kept.id !== undefined),
      );
      demandSame(pick(said, members), pick(kept, members));
    }
    demandPairs(
      calls.map(({ id }) => id),
      results.map(({ call_id }) => call_id),
    );
    demand(items.indexOf(results[0] ?? {}) === start + output.length, 'outputs stand before their calls');
    return results.map((result) => {
      const parts: Body[] =
        typeof result.output === 'string' ? [{ type: 'input_text', text: result.output }] : result.output;
      return {
        text: parts.map((each) => each.text ?? '').join('\n'),
        isError: undefined,
        images: parts.flatMap(({ image_url }) => /^data:(.+?);/.exec(image_url ?? '')?.[1] ?? []),
      };
    });
  },

  refusal: (message) => ({ error: { message, type: 'invalid_request_error', param: null, code: null } }),
};

const pick = (item: Body, members: readonly string[]): Body =>
  Object.fromEntries(members.map((member) => [member, item[member]]));

const response = (output: readonly Body[]): Body => ({
  id: `resp_${crypto.randomUUID()}`,
  object: 'response',
  created_at: 1_760_000_000,
  status: 'completed',
  model: 'gpt-5',
  output,
  parallel_tool_calls: true,
  error: null,
  incomplete_details: null,
  instructions: null,
  metadata: {},
  tool_choice: 'auto',
  tools: [],
  usage: {
    input_tokens: 1,
    input_tokens_details: { cached_tokens: 0 },
    output_tokens: 1,
    output_tokens_details: { reasoning_tokens: 0 },
    total_tokens: 2,
  },
});
