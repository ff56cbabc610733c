import { isJsonObject, type JsonObject } from '../core/json.ts';
import { fail, ok } from '../core/result.ts';
import { truncate } from '../core/text.ts';
import { anthropicSchema } from './anthropic-schema.ts';
import {
  FieldReader,
  leftAlone,
  memberOf,
  notReadable,
  type ReadItem,
  readAlone,
  readList,
  wholeItems,
} from './fields.ts';
import type { Format } from './format.ts';
import { isWebImage, type MediaPart, takesNone } from './parts.ts';
import { renderAs } from './render.ts';

const expected = 'a whole message with its "content", a list of content blocks, or one tool_use block';
/**
 * Stop reasons of an answer that ends in the middle, so that its last block may be half a call; none is what the
 * message of a stream has before its end.
 */
const cutReasons: ReadonlySet<unknown> = new Set([
  ...['max_tokens', 'model_context_window_exceeded', 'refusal'],
  null,
]);
/** Characters of base64 that the API takes of one image, and of a request, in which a document has to fit. */
const imageCharsMax = 5_242_880;
const documentCharsMax = 30_000_000;
const titleCharsMax = 500;
/** Not deferred itself: the API wants one tool that is not. */
const toolSearch: JsonObject = { type: 'tool_search_tool_regex_20251119', name: 'tool_search_tool_regex' };

/** The Anthropic Messages API: `tool_use` blocks in, one user message of `tool_result` blocks out. */
export const anthropic: Format = {
  name: 'anthropic',
  defaultRender: 'text',
  members: new Set(['description', 'inputSchema']),
  schemaRules: anthropicSchema,
  options: new Set(['defer']),

  readTurn(body) {
    if (Array.isArray(body)) return readList(body, (index) => `/${index}`, readBlock);
    if (!isJsonObject(body)) return fail(notReadable(expected));
    if (body.type === 'tool_use') return readAlone(body, readBlock);
    const { content, stop_reason } = body;
    if (Array.isArray(content)) {
      const whole = wholeItems(content, cutReasons.has(stop_reason));
      return readList(whole, (index) => `/content/${index}`, readBlock);
    }
    const isText = typeof content === 'string' && memberOf(body, 'tool_calls', 'toolCalls') === undefined;
    return isText ? ok([]) : fail(notReadable(expected));
  },

  declare(tools, { defer }) {
    const declared = tools.map(({ binding, description, schema }) => ({
      name: binding.name,
      ...(description === undefined ? {} : { description }),
      input_schema: schema,
      ...(defer ? { defer_loading: true } : {}),
    }));
    return defer && tools.length > 0 ? [toolSearch, ...declared] : declared;
  },

  output(call, outcome, render) {
    // The API refuses anything but text in a result that is an error, and text that is blank in any.
    const isError = outcome.error !== undefined;
    const { text, media } = renderAs(render, outcome, isError ? takesNone : isNative, false);
    return {
      type: 'tool_result',
      tool_use_id: call.callId,
      ...(text.trim() === ''
        ? {}
        : { content: media.length === 0 ? text : [{ type: 'text', text }, ...media.map(nativeBlock)] }),
      ...(isError ? { is_error: true } : {}),
      ...call.echo,
    };
  },

  message: (outputs) => ({ role: 'user', content: outputs }),
};

/** What the provider runs itself (`server_tool_use`, `mcp_tool_use`) has another type, and is left alone. */
const readBlock: ReadItem = (item, pointer) => {
  if (item.type !== 'tool_use') return leftAlone(item, pointer, 'anthropic');
  const fields = new FieldReader(item, pointer);
  const callId = fields.callId('id');
  const name = fields.name();
  const input = fields.arguments('input');
  if (fields.faults.length > 0) return fail(fields.faults);
  // The result of a call of a toolset names the toolset again.
  const echo = typeof item.toolset_name === 'string' ? { toolset_name: item.toolset_name } : undefined;
  return ok({ callId, name, arguments: input, echo });
};

const isNative = (part: MediaPart): boolean =>
  part.kind === 'image'
    ? isWebImage(part) && part.data.length <= imageCharsMax
    : part.mediaType === 'application/pdf' && part.data !== '' && part.data.length <= documentCharsMax;

const nativeBlock = ({ kind, mediaType, data, name }: MediaPart): JsonObject => ({
  type: kind === 'image' ? 'image' : 'document',
  source: { type: 'base64', media_type: mediaType, data },
  ...(kind === 'image' || name === undefined ? {} : { title: truncate(name, titleCharsMax) }),
});
