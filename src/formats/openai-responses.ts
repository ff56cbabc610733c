import type { FunctionCall } from '../core/call.ts';
import { isJsonObject, type JsonObject, type JsonValue } from '../core/json.ts';
import { limits } from '../core/limits.ts';
import { fail, ok, type Result } from '../core/result.ts';
import { truncate } from '../core/text.ts';
import {
  FieldReader,
  leftAlone,
  notReadable,
  type ReadItem,
  readAlone,
  readList,
  wholeItems,
} from './fields.ts';
import type { BodyFault, DeclaredTool, NativeFormat } from './format.ts';
import { openaiSchema } from './openai-schema.ts';
import { isWebImage, type MediaPart } from './parts.ts';
import { renderAs } from './render.ts';

/** Characters of a data URL that the API takes (OpenAI OpenAPI document, input_image and input_file). */
const imageUrlCharsMax = 20_971_520;
const fileDataCharsMax = 73_400_320;
/** Characters of what a model is told of a namespace before it has looked into it. */
const namespaceCharsMax = 1_000;
const callTypes: ReadonlySet<JsonValue> = new Set(['function_call', 'custom_tool_call']);
/** Statuses of an answer that ends in the middle. */
const cutStatuses: ReadonlySet<unknown> = new Set(['incomplete', 'in_progress', 'failed', 'cancelled']);
const expected =
  'a function_call item, a list of output items, or a whole Responses object with its "output" list';

/** The OpenAI Responses API: `function_call` items in, `function_call_output` items out. */
export const openaiResponses: NativeFormat = {
  name: 'openai-responses',
  defaultRender: 'envelope',
  toolsMax: 128,
  members: new Set(['description', 'inputSchema']),
  schemaRules: openaiSchema,
  options: new Set(['strict', 'namespaces', 'defer']),

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
    if (Array.isArray(body)) return readList(body, (index) => `/${index}`, readFinished);
    if (!isJsonObject(body)) return fail(notReadable(expected));
    if (callTypes.has(body.type ?? null)) return readAlone(body, readFinished);
    const { output, status } = body;
    if (!Array.isArray(output)) return fail(notReadable(expected));
    const last: unknown = output.at(-1);
    // What stands last in an answer that was cut off is whole only where it says so.
    const isCut = cutStatuses.has(status) && isJsonObject(last) && last.status !== 'completed';
    return readList(wholeItems(output, isCut), (index) => `/output/${index}`, readFinished);
  },

  declare(tools, { namespaces, defer }) {
    // Deferred tools are looked for by their namespace.
    if (!namespaces && !defer) return tools.map((tool) => declaration(tool, tool.binding.name));
    const search = defer && tools.length > 0 ? [{ type: 'tool_search' }] : [];
    return [...byAlias(tools).map(([alias, own]) => namespaceOf(alias, own, defer)), ...search];
  },

  output(call, outcome, render) {
    const { text, media } = renderAs(render, outcome, isNative, true);
    return {
      type: call.kind === 'custom_tool_call' ? 'custom_tool_call_output' : 'function_call_output',
      call_id: call.callId,
      output: media.length === 0 ? text : [{ type: 'input_text', text }, ...media.map(nativePart)],
      ...call.echo,
    };
  },
};

// `strict` is sent: left out, the API tries strict mode, which most MCP schemas do not pass.
const declaration = ({ description, schema, isStrict }: DeclaredTool, name: string): JsonObject => ({
  type: 'function',
  name,
  ...(description === undefined ? {} : { description }),
  parameters: schema,
  strict: isStrict,
});

/** The tools of each server, in the order of the list. */
function byAlias(tools: readonly DeclaredTool[]): readonly [string, readonly DeclaredTool[]][] {
  const groups = new Map<string, DeclaredTool[]>();
  for (const tool of tools) {
    const { alias } = tool.binding;
    const group = groups.get(alias);
    if (group === undefined) groups.set(alias, [tool]);
    else group.push(tool);
  }
  return [...groups];
}

/** A namespace is the alias and holds the rest of each declared name, so that both together are the name again. */
function namespaceOf(alias: string, tools: readonly DeclaredTool[], defer: boolean): JsonObject {
  const rest = ({ binding }: DeclaredTool): string => binding.name.slice(`${alias}__`.length);
  const declared = tools.map((tool) => ({
    ...declaration(tool, rest(tool)),
    ...(defer ? { defer_loading: true } : {}),
  }));
  const description = defer
    ? truncate(`Tools of ${alias}: ${tools.map(rest).join(', ')}`, namespaceCharsMax)
    : `Tools of ${alias}.`;
  return { type: 'namespace', name: alias, description, tools: declared };
}

/** Text, reasoning, calls that the provider runs itself and calls cut off in the middle are not ours to answer. */
const readFinished: ReadItem = (item, pointer) =>
  callTypes.has(item.type ?? null) && !isUnfinished(item)
    ? readItem(item, pointer)
    : leftAlone(item, pointer, 'openai-responses');

const isUnfinished = ({ status }: JsonObject): boolean => status === 'incomplete' || status === 'in_progress';

function readItem(item: JsonObject, pointer: string): Result<FunctionCall, readonly BodyFault[]> {
  const fields = new FieldReader(item, pointer);
  const callId = fields.callId('call_id');
  const name = fields.name();
  const namespace =
    item.namespace === undefined || item.namespace === null
      ? undefined
      : fields.text('namespace', limits.nameCharsMax, 'leave it out, or send it as the model did');
  const isCustom = item.type === 'custom_tool_call';
  const own = fields.arguments(isCustom ? 'input' : 'arguments');
  if (fields.faults.length > 0) return fail(fields.faults);
  return ok({
    callId,
    name,
    namespace,
    arguments: own,
    echo: item.caller === undefined || item.caller === null ? undefined : { caller: item.caller },
    kind: isCustom ? 'custom_tool_call' : undefined,
  });
}

const isNative = (part: MediaPart): boolean =>
  part.kind === 'image'
    ? isWebImage(part) && part.data.length < imageUrlCharsMax - 100
    : part.mediaType === 'application/pdf' && part.data !== '' && part.data.length < fileDataCharsMax - 100;

const nativePart = (part: MediaPart): JsonObject => {
  const url = `data:${part.mediaType};base64,${part.data}`;
  return part.kind === 'image'
    ? { type: 'input_image', image_url: url, detail: 'auto' }
    : { type: 'input_file', filename: part.name ?? 'document.pdf', file_data: url };
};
