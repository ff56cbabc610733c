import type { FunctionCall } from '../core/call.ts';
import { isJsonObject, type JsonObject } from '../core/json.ts';
import { fail, ok } from '../core/result.ts';
import { bedrockSchema } from './bedrock-schema.ts';
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
import { atMost, type MediaPart, takesNone } from './parts.ts';
import { renderAs } from './render.ts';

const expected =
  'a whole Converse response with its "output", a message with its "content", a list of content blocks, or one ' +
  'toolUse block';
/** Stop reasons of an answer that ends in the middle, so that its last block may be half a call. */
const cutReasons: ReadonlySet<unknown> = new Set([
  'max_tokens',
  'model_context_window_exceeded',
  'content_filtered',
  'guardrail_intervened',
  'malformed_model_output',
  'malformed_tool_use',
]);
const imageBytesMax = 3_750_000;
const documentBytesMax = 4_500_000;
const countsMax = { image: 20, document: 5 };
const imageFormats: ReadonlyMap<string, string> = new Map([
  ['image/png', 'png'],
  ['image/jpeg', 'jpeg'],
  ['image/gif', 'gif'],
  ['image/webp', 'webp'],
]);
const documentFormats: ReadonlyMap<string, string> = new Map([
  ['application/pdf', 'pdf'],
  ['text/csv', 'csv'],
  ['text/html', 'html'],
  ['text/markdown', 'md'],
  ['text/plain', 'txt'],
  ['application/msword', 'doc'],
  ['application/vnd.openxmlformats-officedocument.wordprocessingml.document', 'docx'],
  ['application/vnd.ms-excel', 'xls'],
  ['application/vnd.openxmlformats-officedocument.spreadsheetml.sheet', 'xlsx'],
]);

/**
 * Amazon Bedrock's Converse: `toolUse` blocks in, one user message of `toolResult` blocks out.
 *
 * Results are text: a `json` block takes plain objects only, fails over a member `__type`, and tells a model nothing
 * more. Failures have the status, which only Claude and Nova are shown, and say so in their text for all others. The
 * `bytes` of media are base64, as on the wire; the SDKs take raw bytes there, so their callers decode them.
 */
export const bedrock: Format = {
  name: 'bedrock',
  defaultRender: 'text',
  members: new Set(['description', 'inputSchema']),
  schemaRules: bedrockSchema,
  options: new Set(),

  readTurn(body) {
    if (Array.isArray(body)) return readList(body, (index) => `/${index}`, readBlock);
    if (!isJsonObject(body)) return fail(notReadable(expected));
    const { output, content, stopReason } = body;
    const message = isJsonObject(output) ? output.message : undefined;
    if (isJsonObject(message) && Array.isArray(message.content)) {
      const whole = wholeItems(message.content, cutReasons.has(stopReason));
      return readList(whole, (index) => `/output/message/content/${index}`, readBlock);
    }
    if (Array.isArray(content)) return readList(content, (index) => `/content/${index}`, readBlock);
    return memberOf(body, 'toolUse', 'toolUseId') === undefined
      ? fail(notReadable(expected))
      : readAlone(body, readBlock);
  },

  declare(tools) {
    return tools.map(({ binding, description, schema }) => ({
      toolSpec: {
        name: binding.name,
        ...(description === undefined ? {} : { description }),
        inputSchema: { json: schema },
      },
    }));
  },

  output(call, outcome, render) {
    // Claude refuses anything but text in a result that is an error.
    const takes = outcome.error === undefined ? atMost(countsMax, isNative) : takesNone;
    const { text, media } = renderAs(render, outcome, takes, true);
    return {
      toolResult: {
        toolUseId: call.callId,
        content: [
          // A blank text is refused.
          { text: text.trim() === '' ? '(empty)' : text },
          ...media.map((part, place) => nativeBlock(part, call, place)),
        ],
        ...(outcome.error === undefined ? {} : { status: 'error' }),
      },
    };
  },

  message: (outputs) => ({ role: 'user', content: outputs }),
};

/** The block of a call, or the call alone. What the provider runs itself says so in its type, and is left alone. */
const readBlock: ReadItem = (item, pointer) => {
  const isBare = item.toolUse === undefined;
  if (isBare && memberOf(item, 'toolUseId', 'input') === undefined)
    return leftAlone(item, pointer, 'bedrock');
  const call = isBare ? item : item.toolUse;
  const at = isBare ? pointer : `${pointer}/toolUse`;
  if (!isJsonObject(call)) return fail([{ pointer: at, detail: 'must be an object' }]);
  if (call.type === 'server_tool_use') return undefined;
  const fields = new FieldReader(call, at);
  const read = {
    callId: fields.callId('toolUseId'),
    name: fields.name(),
    arguments: fields.arguments('input'),
  };
  return fields.faults.length > 0 ? fail(fields.faults) : ok(read);
};

const isNative = ({ kind, mediaType, data, bytes }: MediaPart): boolean =>
  data !== '' &&
  (kind === 'image'
    ? imageFormats.has(mediaType) && bytes <= imageBytesMax
    : documentFormats.has(mediaType) && bytes <= documentBytesMax);

function nativeBlock({ kind, mediaType, data }: MediaPart, call: FunctionCall, place: number): JsonObject {
  const source = { bytes: data };
  if (kind === 'image') return { image: { format: imageFormats.get(mediaType) ?? '', source } };
  // A name is read by the model, takes few characters and must not stand for two documents: it is nobody's own.
  const name = `document ${call.callId.replace(/[^A-Za-z0-9]+/g, '-')} ${place + 1}`;
  return { document: { format: documentFormats.get(mediaType) ?? '', name, source } };
}
