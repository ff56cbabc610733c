/** Any JSON value. */
export type Json = null | boolean | number | string | Json[] | { [member: string]: Json };

/** A JSON object of which no more is known here. */
export type JsonObject = { [member: string]: Json };

/** A JSON Schema for the arguments of a tool. */
export type ToolSchema = { type: 'object'; properties: JsonObject; required?: string[] } & JsonObject;

/** A tool in the shape of Chat Completions. */
export interface ChatTool {
  type: 'function';
  function: { name: string; description?: string; parameters: ToolSchema };
}

/** A function of the Responses API. `strict` is always said. */
export interface ResponsesFunction {
  type: 'function';
  name: string;
  description?: string;
  parameters: ToolSchema;
  strict: boolean;
  defer_loading?: boolean;
}

/** What stands in `tools` of a request to the Responses API; all but functions only where they were asked for. */
export type ResponsesTool =
  | ResponsesFunction
  | { type: 'namespace'; name: string; description: string; tools: ResponsesFunction[] }
  | { type: 'tool_search' };

/** Parts of an output of the Responses API that is more than text. */
export type ResponsesPart =
  | { type: 'input_text'; text: string }
  | { type: 'input_image'; image_url: string; detail: 'auto' }
  | { type: 'input_file'; filename: string; file_data: string };

/** The item that answers a `function_call` or `custom_tool_call` of the Responses API. */
export interface FunctionCallOutput {
  type: 'function_call_output' | 'custom_tool_call_output';
  call_id: string;
  output: string | ResponsesPart[];
}

/** An image as Anthropic takes it. */
export interface AnthropicImage {
  type: 'image';
  source: {
    type: 'base64';
    media_type: 'image/png' | 'image/jpeg' | 'image/gif' | 'image/webp';
    data: string;
  };
}

/** A document as Anthropic takes it. */
export interface AnthropicDocument {
  type: 'document';
  source: { type: 'base64'; media_type: 'application/pdf'; data: string };
  title?: string;
}

/** The block that answers a `tool_use` block. */
export interface AnthropicResult {
  type: 'tool_result';
  tool_use_id: string;
  content?: string | ({ type: 'text'; text: string } | AnthropicImage | AnthropicDocument)[];
  is_error?: boolean;
}

/** The part that answers a `functionCall` part of Gemini. */
export interface GeminiResult {
  functionResponse: {
    id?: string;
    name: string;
    response: { output: string } | { error: string };
    parts?: { inlineData: { mimeType: string; data: string } }[];
  };
}

/** Parts of a result of Gemini's Interactions that is more than text. */
export type InteractionsPart =
  | { type: 'text'; text: string }
  | { type: 'image' | 'audio' | 'document'; data: string; mime_type: string };

/** The block that answers a `toolUse` block of Bedrock. `bytes` are raw, as the SDK for JavaScript takes them. */
export interface BedrockResult {
  toolResult: {
    toolUseId: string;
    content: (
      | { text: string }
      | { image: { format: 'png' | 'jpeg' | 'gif' | 'webp'; source: { bytes: Uint8Array } } }
      | {
          document: {
            format: 'pdf' | 'csv' | 'html' | 'md' | 'txt' | 'doc' | 'docx' | 'xls' | 'xlsx';
            name: string;
            source: { bytes: Uint8Array };
          };
        }
    )[];
    status?: 'error';
  };
}

/** A block of a `CallToolResult` as its server sent it. */
export type McpBlock =
  | ({ type: 'text'; text: string } & JsonObject)
  | ({ type: 'image' | 'audio'; data: string; mimeType: string } & JsonObject)
  | ({ type: 'resource_link'; uri: string; name: string } & JsonObject)
  | ({
      type: 'resource';
      resource: { uri: string; mimeType?: string; text?: string; blob?: string };
    } & JsonObject);

/** A result as MCP defines it, with callgate's own words about it in `_meta`. */
export interface McpResult {
  content: McpBlock[];
  structuredContent?: Json;
  isError: boolean;
  _meta?: { 'callgate/error'?: CallError; 'callgate/warnings'?: string[] };
}

/** What the formats declare, and what they append, as the official clients for JavaScript take both. */
export interface Shapes {
  'openai-responses': { tool: ResponsesTool; appended: FunctionCallOutput };
  'openai-chat': {
    tool: ChatTool & { function: { strict: boolean } };
    appended: { role: 'tool'; tool_call_id: string; content: string };
  };
  anthropic: {
    tool:
      | { name: string; description?: string; input_schema: ToolSchema; defer_loading?: boolean }
      | { type: 'tool_search_tool_regex_20251119'; name: 'tool_search_tool_regex' };
    appended: { role: 'user'; content: AnthropicResult[] };
  };
  gemini: {
    tool: {
      functionDeclarations: { name: string; description?: string; parametersJsonSchema: ToolSchema }[];
    };
    appended: { role: 'user'; parts: GeminiResult[] };
  };
  'gemini-interactions': {
    tool: { type: 'function'; name: string; description?: string; parameters: ToolSchema };
    appended: {
      type: 'function_result';
      call_id: string;
      name: string;
      is_error?: boolean;
      result: string | InteractionsPart[];
    };
  };
  bedrock: {
    tool: { toolSpec: { name: string; description?: string; inputSchema: { json: ToolSchema } } };
    appended: { role: 'user'; content: BedrockResult[] };
  };
  mistral: {
    tool: ChatTool;
    /** Members are spelled as in the answer that was sent: in snake case where it came without the SDK. */
    appended: {
      role: 'tool';
      toolCallId: string;
      name: string;
      content: string | ({ type: 'text'; text: string } | { type: 'image_url'; imageUrl: string })[];
    };
  };
  cohere: {
    tool: ChatTool;
    /** Members are spelled as in the answer that was sent: in snake case where it came without the SDK. */
    appended: { role: 'tool'; toolCallId: string; content: string };
  };
  ollama: {
    tool: {
      type: 'function';
      function: {
        name: string;
        description?: string;
        parameters: {
          type: 'object';
          properties: Record<
            string,
            { type?: string | string[]; items?: Json; description?: string; enum?: Json[] }
          >;
          required?: string[];
        };
      };
    };
    appended: {
      role: 'tool';
      tool_name: string;
      tool_call_id?: string;
      content: string;
      images?: string[];
    };
  };
  mcp: {
    tool: {
      name: string;
      title?: string;
      description?: string;
      inputSchema: ToolSchema;
      outputSchema?: JsonObject;
      annotations?: JsonObject;
    };
    appended: { id: string; name: string; result: McpResult };
  };
}

/** A provider's wire shape, by the name that callgate has for it. */
export type FormatName = keyof Shapes;

/** Why a request was not taken. */
export type ProblemCode =
  | 'invalid_request'
  | 'unauthenticated'
  | 'invalid_token'
  | 'insufficient_scope'
  | 'not_found'
  | 'method_not_allowed'
  | 'not_acceptable'
  | 'conflict'
  | 'payload_too_large'
  | 'unsupported_media_type'
  | 'headers_too_large'
  | 'internal'
  | 'overloaded'
  | 'draining'
  | 'ledger_unavailable'
  | 'keys_unavailable';

/** Why a call has no successful result. Later versions may have more of them. */
export type OutcomeCode =
  | 'unknown_tool'
  | 'forbidden'
  | 'invalid_arguments'
  | 'call_id_reused'
  | 'rate_limited'
  | 'server_busy'
  | 'ledger_unavailable'
  | 'server_unavailable'
  | 'tool_error'
  | 'server_error'
  | 'protocol_error'
  | 'output_too_large'
  | 'input_required'
  | 'timeout'
  | 'connection_lost'
  | 'cancelled'
  | 'interrupted'
  | 'call_expired';

/** How a call ended. `unknown`: it was sent, and its effect may or may not be there. */
export type CallStatus = 'succeeded' | 'failed' | 'rejected' | 'not_sent' | 'unknown';

/** Where a call stands: at its end, or on its way. */
export type RecordStatus = 'received' | 'started' | CallStatus;

/** The error of a call. */
export interface CallError {
  code: OutcomeCode;
  message: string;
  may_have_executed: boolean;
  retryable: boolean;
  [fact: string]: unknown;
}

/** The tools that the caller may use, ready for a model request. */
export interface Declarations<Tool> {
  format: FormatName;
  /** Names the set of all tools that the caller may see in this format. */
  revision: string;
  /** Goes unchanged into a model request. */
  tools: Tool[];
  /** Tools that are declared otherwise than their server listed them. */
  adjusted: { name: string; steps: { step: string; path: string; loss: boolean }[] }[];
  /** Tools that the caller may use and that are not declared. */
  omitted: { server: string; tool: string; reason: string }[];
  /** Servers that have not listed their tools yet. */
  pending: string[];
  warnings: { code: string; count: number; max: number }[];
}

/** What became of one call of a turn. */
export interface SettledCall {
  id: string;
  call_id: string;
  name: string;
  status: CallStatus;
  code?: OutcomeCode;
  may_have_executed: boolean;
  replayed: boolean;
  replay_protected: boolean;
  attempts: number;
  duration_ms: number;
}

/** A call of a turn that has not ended; without `id` while it has not begun. */
export interface UnfinishedCall {
  id?: string;
  call_id: string;
  name: string;
  status: RecordStatus;
  may_have_executed: boolean;
  replay_protected: boolean;
  attempts: number;
}

/** A call that is not callgate's. */
export interface LeftCall {
  /** Where it stands in the list of items. */
  index: number;
  call_id: string;
  name: string;
}

/** What a turn came to. */
export interface TurnResult<Appended> {
  /** Follows the model's own answer in the next request; empty where the model asked for nothing. */
  append: Appended[];
  calls: SettledCall[];
  left: LeftCall[];
}

/** The ledger's entry of one call. */
export interface CallRecord {
  id: string;
  call_id: string;
  run: string | null;
  turn: string | null;
  name: string;
  status: RecordStatus;
  code?: OutcomeCode;
  may_have_executed: boolean;
  attempts: number;
  created_at: string;
  updated_at: string;
  output?: FunctionCallOutput;
}
