// Whole answers of models that say something and call tools, as the SDK of each provider returns them, and what has to
// be appended to the conversation when each tool gives back its text. A call is `{ id, name, text }`.

const words = 'I look these entries up, one call for each of them, and tell you what I find.';

const chatCalls = (calls) =>
  calls.map(({ id, name, text }) => ({
    id,
    type: 'function',
    function: { name, arguments: JSON.stringify({ text }) },
  }));

const envelope = (text) => JSON.stringify({ ok: true, content: [{ type: 'text', text }] });

const nativeCall = ({ id, name, text }) => ({
  type: 'function_call',
  call_id: id,
  name,
  arguments: JSON.stringify({ text }),
});
const nativeOutput = ({ id, text }) => ({
  type: 'function_call_output',
  call_id: id,
  output: envelope(text),
});

/** The Responses API gives back the tools it was given. */
const echoed = {
  type: 'function',
  name: 'echo__echo',
  description: 'Gives back its text',
  parameters: {
    type: 'object',
    properties: { text: { type: 'string', maxLength: 10_000 } },
    required: ['text'],
    additionalProperties: false,
  },
  strict: false,
};

/** Intents of the native format and nothing else. */
export const nativeIntents = {
  answer: (calls) => calls.map(nativeCall),
  append: (calls) => calls.map(nativeOutput),
};

/** By the name of the format. */
export const modelAnswers = {
  'openai-responses': {
    answer: (calls) => ({
      id: 'resp_0a1b2c3d4e5f60718293a4b5c6d7e8f9',
      object: 'response',
      created_at: 1_790_000_000,
      status: 'completed',
      background: false,
      error: null,
      incomplete_details: null,
      instructions: null,
      max_output_tokens: null,
      metadata: {},
      model: 'gpt-5',
      output: [
        { type: 'reasoning', id: 'rs_0a1b2c3d4e5f6071', summary: [] },
        {
          type: 'message',
          id: 'msg_0a1b2c3d4e5f6071',
          role: 'assistant',
          status: 'completed',
          content: [{ type: 'output_text', annotations: [], logprobs: [], text: words }],
        },
        ...calls.map((call) => ({ ...nativeCall(call), id: `fc_${call.id}`, status: 'completed' })),
      ],
      output_text: words,
      parallel_tool_calls: true,
      previous_response_id: null,
      reasoning: { effort: 'medium', summary: null },
      store: true,
      temperature: 1,
      text: { format: { type: 'text' }, verbosity: 'medium' },
      tool_choice: 'auto',
      tools: [echoed],
      top_p: 1,
      truncation: 'disabled',
      usage: {
        input_tokens: 800,
        input_tokens_details: { cached_tokens: 0 },
        output_tokens: 200,
        output_tokens_details: { reasoning_tokens: 0 },
        total_tokens: 1_000,
      },
    }),
    append: nativeIntents.append,
  },

  'openai-chat': {
    answer: (calls) => ({
      id: 'chatcmpl-0a1b2c3d4e5f60718293a4b5',
      object: 'chat.completion',
      created: 1_790_000_000,
      model: 'gpt-5',
      choices: [
        {
          index: 0,
          message: {
            role: 'assistant',
            content: words,
            refusal: null,
            annotations: [],
            tool_calls: chatCalls(calls),
          },
          logprobs: null,
          finish_reason: 'tool_calls',
        },
      ],
      usage: { prompt_tokens: 800, completion_tokens: 200, total_tokens: 1_000 },
      service_tier: 'default',
      system_fingerprint: null,
    }),
    append: (calls) =>
      calls.map(({ id, text }) => ({ role: 'tool', tool_call_id: id, content: envelope(text) })),
  },

  anthropic: {
    answer: (calls) => ({
      id: 'msg_01a2b3c4d5e6f7081920a1b2',
      type: 'message',
      role: 'assistant',
      model: 'claude-sonnet-5',
      content: [
        { type: 'text', text: words },
        ...calls.map(({ id, name, text }) => ({
          type: 'tool_use',
          id,
          name,
          input: { text },
          caller: { type: 'direct' },
        })),
      ],
      stop_reason: 'tool_use',
      stop_sequence: null,
      usage: {
        input_tokens: 800,
        cache_creation_input_tokens: 0,
        cache_read_input_tokens: 0,
        output_tokens: 200,
        service_tier: 'standard',
      },
    }),
    append: (calls) => [
      {
        role: 'user',
        content: calls.map(({ id, text }) => ({ type: 'tool_result', tool_use_id: id, content: text })),
      },
    ],
  },

  gemini: {
    answer: (calls) => ({
      sdkHttpResponse: { headers: { 'content-type': 'application/json; charset=UTF-8' } },
      candidates: [
        {
          content: {
            parts: [
              { text: words },
              ...calls.map(({ id, name, text }, index) => ({
                functionCall: { id, name, args: { text } },
                ...(index === 0 ? { thoughtSignature: 'c2lnbmF0dXJl'.repeat(20) } : {}),
              })),
            ],
            role: 'model',
          },
          finishReason: 'STOP',
          index: 0,
        },
      ],
      modelVersion: 'gemini-3-pro',
      responseId: '0a1b2c3d4e5f60718293a4b5',
      usageMetadata: { promptTokenCount: 800, candidatesTokenCount: 200, totalTokenCount: 1_000 },
    }),
    append: (calls) => [
      {
        role: 'user',
        parts: calls.map(({ id, name, text }) => ({
          functionResponse: { id, name, response: { output: text } },
        })),
      },
    ],
  },

  'gemini-interactions': {
    answer: (calls) => ({
      id: 'v1_0a1b2c3d4e5f60718293a4b5',
      object: 'interaction',
      model: 'gemini-3-pro',
      status: 'requires_action',
      created: '2026-11-30T12:00:00Z',
      updated: '2026-11-30T12:00:02Z',
      steps: [
        { type: 'thought', signature: 'c2lnbmF0dXJl'.repeat(20) },
        { type: 'model_output', content: [{ type: 'text', text: words }] },
        ...calls.map(({ id, name, text }) => ({ type: 'function_call', id, name, arguments: { text } })),
      ],
      usage: { total_input_tokens: 800, total_output_tokens: 200, total_tokens: 1_000 },
    }),
    append: (calls) =>
      calls.map(({ id, name, text }) => ({ type: 'function_result', call_id: id, name, result: text })),
  },

  bedrock: {
    answer: (calls) => ({
      $metadata: {
        httpStatusCode: 200,
        requestId: '0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9',
        attempts: 1,
        totalRetryDelay: 0,
      },
      metrics: { latencyMs: 2_000 },
      output: {
        message: {
          content: [
            { text: words },
            ...calls.map(({ id, name, text }) => ({ toolUse: { input: { text }, name, toolUseId: id } })),
          ],
          role: 'assistant',
        },
      },
      stopReason: 'tool_use',
      usage: { inputTokens: 800, outputTokens: 200, totalTokens: 1_000 },
    }),
    append: (calls) => [
      {
        role: 'user',
        content: calls.map(({ id, text }) => ({ toolResult: { toolUseId: id, content: [{ text }] } })),
      },
    ],
  },

  mistral: {
    answer: (calls) => ({
      id: '0a1b2c3d4e5f60718293a4b5c6d7e8f9',
      object: 'chat.completion',
      model: 'mistral-large-latest',
      usage: { promptTokens: 800, completionTokens: 200, totalTokens: 1_000 },
      created: 1_790_000_000,
      choices: [
        {
          index: 0,
          message: {
            role: 'assistant',
            content: words,
            toolCalls: chatCalls(calls).map((call, index) => ({ ...call, index })),
            prefix: false,
          },
          finishReason: 'tool_calls',
        },
      ],
    }),
    append: (calls) =>
      calls.map(({ id, name, text }) => ({ role: 'tool', toolCallId: id, name, content: envelope(text) })),
  },

  cohere: {
    answer: (calls) => ({
      id: '0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9',
      finishReason: 'TOOL_CALL',
      message: { role: 'assistant', toolPlan: words, toolCalls: chatCalls(calls) },
      usage: {
        billedUnits: { inputTokens: 800, outputTokens: 200 },
        tokens: { inputTokens: 800, outputTokens: 200 },
      },
    }),
    append: (calls) =>
      calls.map(({ id, text }) => ({ role: 'tool', toolCallId: id, content: envelope(text) })),
  },

  // Older servers give no ids, so callgate has to make them.
  ollama: {
    answer: (calls) => ({
      model: 'qwen3',
      created_at: '2026-11-30T12:00:00Z',
      message: {
        role: 'assistant',
        content: words,
        tool_calls: calls.map(({ name, text }) => ({ function: { name, arguments: { text } } })),
      },
      done: true,
      done_reason: 'stop',
      total_duration: 2_000_000_000,
      load_duration: 20_000_000,
      prompt_eval_count: 800,
      prompt_eval_duration: 200_000_000,
      eval_count: 200,
      eval_duration: 1_700_000_000,
    }),
    append: (calls) =>
      calls.map(({ name, text }) => ({ role: 'tool', tool_name: name, content: envelope(text) })),
  },

  mcp: {
    answer: (calls) => calls.map(({ id, name, text }) => ({ id, name, arguments: { text } })),
    append: (calls) =>
      calls.map(({ id, name, text }) => ({
        id,
        name,
        result: { content: [{ type: 'text', text }], isError: false },
      })),
  },
};
