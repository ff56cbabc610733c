import type { FunctionCall } from '../core/call.ts';
import { isJsonObject, type JsonObject, type JsonValue } from '../core/json.ts';
import { limits } from '../core/limits.ts';
import { fail, ok, type Result } from '../core/result.ts';
import type { Binding } from '../tools/registry.ts';
import { FieldReader, notReadable, objectsOf } from './fields.ts';
import type { BodyFault, Intent, NativeFormat } from './format.ts';
import type { MediaPart } from './parts.ts';
import { renderEnvelope, renderText } from './render.ts';

const imageTypes: ReadonlySet<string> = new Set(['image/png', 'image/jpeg', 'image/gif', 'image/webp']);
/** Characters of a data URL that the API takes (OpenAI OpenAPI document, input_image and input_file). */
const imageUrlCharsMax = 20_971_520;
const fileDataCharsMax = 73_400_320;
/** Keywords that the API refuses at the root of `parameters`, and with them the whole request. */
const refusedAtRoot = ['anyOf', 'oneOf', 'allOf', 'enum', 'not'] as const;
const callTypes: ReadonlySet<JsonValue> = new Set(['function_call', 'custom_tool_call']);
const expected =
  'a function_call item, a list of output items, or a whole Responses object with its "output" list';

/** The OpenAI Responses API: `function_call` items in, `function_call_output` items out. */
export const openaiResponses: NativeFormat = {
  name: 'openai-responses',
  defaultRender: 'envelope',
  toolsMax: 128,
  members: new Set(['description', 'inputSchema']),

  readIntent(body) {
    if (!isJsonObject(body) || !callTypes.has(body.type ?? null)) {
      return fail(
        notReadable(
          'one function_call item: {"type":"function_call","call_id":...,"name":...,"arguments":...}',
        ),
      );
    }
    if (isUnfinished(body)) {
      return fail([
        { pointer: '/status', detail: 'the model did not finish this call; only complete calls are run' },
      ]);
    }
    return readItem(body, '');
  },

  readTurn(body) {
    if (isJsonObject(body) && callTypes.has(body.type ?? null)) return readList([body], () => '');
    if (Array.isArray(body)) return readList(body, (index) => `/${index}`);
    if (isJsonObject(body) && Array.isArray(body.output)) {
      return readList(body.output, (index) => `/output/${index}`);
    }
    return fail(notReadable(expected));
  },

  declare(binding) {
    const refused = refusedAtRoot.filter((keyword) => Object.hasOwn(binding.inputSchema, keyword));
    if (refused.length > 0) return fail(`the API refuses ${refused.join(', ')} at the root of a schema`);
    return ok(declaration(binding));
  },

  output(call, outcome, render) {
    const { text, media } =
      render === 'envelope' ? renderEnvelope(outcome, isNative) : renderText(outcome, isNative, true);
    return {
      type: call.kind === 'custom_tool_call' ? 'custom_tool_call_output' : 'function_call_output',
      call_id: call.callId,
      output: media.length === 0 ? text : [{ type: 'input_text', text }, ...media.map(nativePart)],
      ...call.echo,
    };
  },
};

// `strict` is sent: left out, the API tries strict mode, which most MCP schemas do not pass.
const declaration = (binding: Binding): JsonObject => ({
  type: 'function',
  name: binding.name,
  ...(binding.description === undefined ? {} : { description: binding.description }),
  parameters: binding.inputSchema,
  strict: false,
});

function readList(
  list: readonly JsonValue[],
  pointerOf: (index: number) => string,
): Result<readonly Intent[], readonly BodyFault[]> {
  const { objects, faults } = objectsOf(list, pointerOf);
  const intents: Intent[] = [];
  for (const [index, item] of objects) {
    // Text, reasoning, calls that the provider runs itself and calls cut off in the middle are not ours to answer.
    if (!callTypes.has(item.type ?? null) || isUnfinished(item)) continue;
    const pointer = pointerOf(index);
    const read = readItem(item, pointer);
    if (read.ok) intents.push({ index, pointer, call: read.value });
    else faults.push(...read.error);
  }
  return faults.length > 0 ? fail(faults) : ok(intents);
}

const isUnfinished = ({ status }: JsonObject): boolean => status === 'incomplete' || status === 'in_progress';

function readItem(item: JsonObject, pointer: string): Result<FunctionCall, readonly BodyFault[]> {
  const fields = new FieldReader(item, pointer);
  const callId = fields.callId('call_id');
  const name = fields.name();
  const namespace =
    item.namespace === undefined || item.namespace === null
      ? undefined
      : fields.text('namespace', limits.nameCharsMax, 'leave it out, or send it as the model did');
  if (fields.faults.length > 0) return fail(fields.faults);
  const isCustom = item.type === 'custom_tool_call';
  return ok({
    callId,
    name,
    namespace,
    arguments: isCustom ? item.input : item.arguments,
    echo: item.caller === undefined || item.caller === null ? undefined : { caller: item.caller },
    kind: isCustom ? 'custom_tool_call' : undefined,
  });
}

const isNative = (part: MediaPart): boolean =>
  part.data !== '' &&
  (part.kind === 'image'
    ? imageTypes.has(part.mediaType) && part.data.length < imageUrlCharsMax - 100
    : part.mediaType === 'application/pdf' && part.data.length < fileDataCharsMax - 100);

const nativePart = (part: MediaPart): JsonObject => {
  const url = `data:${part.mediaType};base64,${part.data}`;
  return part.kind === 'image'
    ? { type: 'input_image', image_url: url, detail: 'auto' }
    : { type: 'input_file', filename: part.name ?? 'document.pdf', file_data: url };
};
