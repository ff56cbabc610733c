import type { FunctionCall } from '../core/call.ts';
import { isJsonObject, type JsonObject, type JsonValue } from '../core/json.ts';
import { fail, ok } from '../core/result.ts';
import type { SchemaRules } from '../tools/projection.ts';
import {
  FieldReader,
  leftAlone,
  memberOf,
  notReadable,
  type ReadItem,
  type ReadTurn,
  readAlone,
  readList,
  readVersions,
  wholeItems,
} from './fields.ts';
import type { DeclaredTool, Format } from './format.ts';
import type { MediaPart } from './parts.ts';
import { type Rendered, renderAs } from './render.ts';

/** In what an API that follows OpenAI's Chat Completions differs from the others. */
export interface ChatVariant {
  readonly name: string;
  readonly toolsMax?: number;
  readonly schemaRules: SchemaRules;
  /** Whether its functions say whether they are strict, and a caller may ask for that. */
  readonly hasStrict: boolean;
  /** Whether a model may leave a call without an id. */
  readonly hasOptionalIds: boolean;
  /** Which media its tool messages carry. */
  readonly takes: (part: MediaPart) => boolean;
  /** The members of a tool message after `role`. */
  readonly toolMessage: (call: FunctionCall, rendered: Rendered) => JsonObject;
}

/** The kind of a call that came from an SDK which spells members in camel case, and wants them so again. */
export const camelCase = 'toolCall';

const expected =
  'a whole chat answer with its "choices" or its "message", an assistant message, a list of tool calls, or one: ' +
  '{"id":...,"type":"function","function":{"name":...,"arguments":...}}';
/** Why a model stopped in the middle, in the words of all of these APIs. */
const cutReasons: ReadonlySet<string> = new Set([
  'length',
  'model_length',
  'max_tokens',
  'content_filter',
  'error',
  'timeout',
]);

/** A format of the family of Chat Completions: `tool_calls` of an assistant message in, tool messages out. */
export function chatFormat(variant: ChatVariant): Format {
  const readCall = callReader(variant);
  const readMessage = (message: JsonObject, pointer: string, isCut: boolean): ReadTurn => {
    // Of the content only calls matter, which stand there in the formats of others.
    const blocks = Array.isArray(message.content) ? (message.content as readonly JsonValue[]) : [];
    for (const [index, block] of blocks.entries()) {
      const foreign = isJsonObject(block) && leftAlone(block, `${pointer}/content/${index}`, variant.name);
      if (foreign) return foreign;
    }
    const isSnake = memberOf(message, 'tool_calls') !== undefined;
    const key = isSnake ? 'tool_calls' : 'toolCalls';
    const calls = memberOf(message, key) ?? [];
    if (!Array.isArray(calls)) {
      return fail([{ pointer: `${pointer}/${key}`, detail: 'must be a list of tool calls' }]);
    }
    const pointerOf = (index: number): string => `${pointer}/${key}/${index}`;
    return readList(wholeItems(calls, isCut), pointerOf, readCall(isSnake ? undefined : camelCase));
  };
  const readAnswer = (answer: JsonObject, pointer: string): ReadTurn => {
    const reason = memberOf(answer, 'finish_reason', 'finishReason', 'done_reason');
    const isCut = typeof reason === 'string' && cutReasons.has(reason.toLowerCase());
    return isJsonObject(answer.message)
      ? readMessage(answer.message, `${pointer}/message`, isCut)
      : fail([
          {
            pointer: `${pointer}/message`,
            detail: 'is missing: send the whole answer, not a part of a stream',
          },
        ]);
  };
  return {
    name: variant.name,
    defaultRender: 'envelope',
    ...(variant.toolsMax === undefined ? {} : { toolsMax: variant.toolsMax }),
    members: new Set(['description', 'inputSchema']),
    schemaRules: variant.schemaRules,
    options: new Set(variant.hasStrict ? ['strict'] : []),

    readTurn(body) {
      if (Array.isArray(body)) return readList(body, (index) => `/${index}`, readCall(undefined));
      if (!isJsonObject(body)) return fail(notReadable(expected));
      if (Array.isArray(body.choices)) return readVersions(body.choices, 'choices', readAnswer);
      if (isJsonObject(body.message)) return readAnswer(body, '');
      if (body.role === 'assistant' || memberOf(body, 'tool_calls', 'toolCalls') !== undefined) {
        return readMessage(body, '', false);
      }
      return isJsonObject(memberOf(body, 'function', 'custom'))
        ? readAlone(body, readCall(undefined))
        : fail(notReadable(expected));
    },

    declare(tools) {
      return tools.map((tool) => ({ type: 'function', function: declaration(tool, variant) }));
    },

    output(call, outcome, render) {
      const rendered = renderAs(render, outcome, variant.takes, true);
      return { role: 'tool', ...variant.toolMessage(call, rendered) };
    },
  };
}

// A model may also be given tools that take free text, by its caller: those calls are answered as well.
const callReader =
  ({ hasOptionalIds }: ChatVariant) =>
  (kind: string | undefined): ReadItem =>
  (item, pointer) => {
    const type = item.type ?? 'function';
    if (type !== 'function' && type !== 'custom') return leftAlone(item, pointer, 'openai-chat');
    const asked = item[type];
    if (!isJsonObject(asked)) {
      const detail = 'is missing: send the call as the model gave it, with its name and arguments';
      return fail([{ pointer: `${pointer}/${type}`, detail }]);
    }
    const fields = new FieldReader(item, pointer);
    const named = new FieldReader(asked, `${pointer}/${type}`);
    // The word "null" is what the SDK of Mistral has in the place of an id that is not there.
    const callId = !hasOptionalIds
      ? fields.callId('id')
      : item.id === 'null'
        ? undefined
        : fields.optionalCallId('id');
    const read = {
      callId,
      name: named.name(),
      arguments: named.arguments(type === 'custom' ? 'input' : 'arguments'),
      kind,
    };
    const faults = [...fields.faults, ...named.faults];
    return faults.length > 0 ? fail(faults) : ok(read);
  };

// OpenAI takes a function for not strict where nothing is said; it is said all the same, as gateways differ in that.
const declaration = (
  { binding, description, schema, isStrict }: DeclaredTool,
  { hasStrict }: ChatVariant,
): JsonObject => ({
  name: binding.name,
  ...(description === undefined ? {} : { description }),
  parameters: schema,
  ...(hasStrict ? { strict: isStrict } : {}),
});
