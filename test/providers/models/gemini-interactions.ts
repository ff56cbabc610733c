import type { Provider } from '../support/provider.ts';
import {
  anyObject,
  type Body,
  base64,
  demand,
  demandPairs,
  either,
  listOf,
  matching,
  object,
  only,
  others,
  text,
} from '../support/schema.ts';

const part = either(
  object({ type: only('text'), text }),
  object({ type: only('image'), data: base64, mime_type: matching('^image/') }),
  object({ type: only('audio'), data: base64, mime_type: matching('^audio/') }),
  object({ type: only('document'), data: base64, mime_type: matching('^(application/pdf|text/csv)$') }),
);
const step = either(
  object({ type: only('user_input'), content: listOf(part, 1) }),
  object(
    { type: only('function_result'), call_id: text, result: either(text, listOf(part, 1)) },
    { name: text, is_error: { type: 'boolean' } },
  ),
);

/** `POST /v1/interactions`: the provider keeps the conversation, and gets what is new. */
export const geminiInteractions: Provider = {
  format: 'gemini-interactions',
  path: /^\/v1(beta)?\/interactions$/,
  key: /^model-key$/,
  id: () => crypto.randomUUID().slice(0, 8),
  request: object(
    { model: text, input: either(text, listOf(step, 1)) },
    { tools: listOf(anyObject), previous_interaction_id: text, ...others('generation_config', 'store') },
  ),
  tools: (body) => body.tools ?? [],
  answered: (body) => body.input,
  ask: (calls) =>
    interaction('requires_action', [
      { type: 'thought', signature: 'c2lnbmF0dXJl' },
      ...calls.map(({ id, name, input }) => ({ type: 'function_call', id, name, arguments: input })),
    ]),
  say: (words) =>
    interaction('completed', [{ type: 'model_output', content: [{ type: 'text', text: words }] }]),

  results({ input, previous_interaction_id }, { id }, calls) {
    demand(previous_interaction_id === id, 'the interaction before this one is not named');
    const steps: Body[] = typeof input === 'string' ? [] : input;
    demandPairs(
      calls.map((call) => [call.id, call.name]),
      steps.map(({ call_id, name }) => [call_id, name]),
    );
    return steps.map(({ result, is_error }) => {
      const parts: Body[] = typeof result === 'string' ? [{ type: 'text', text: result }] : result;
      return {
        text: parts.map((each) => each.text ?? '').join('\n'),
        isError: is_error === true,
        images: parts.flatMap(({ type, mime_type }) => (type === 'image' ? mime_type : [])),
      };
    });
  },

  refusal: (message) => ({ error: { code: 400, message, status: 'INVALID_ARGUMENT' } }),
};

const interaction = (status: string, steps: readonly Body[]): Body => ({
  id: `v1_${crypto.randomUUID()}`,
  object: 'interaction',
  model: 'gemini-3-pro',
  status,
  steps,
  created: '2026-11-30T12:00:00Z',
  updated: '2026-11-30T12:00:00Z',
});
