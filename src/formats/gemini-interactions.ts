import { isJsonObject, type JsonObject, type JsonValue } from '../core/json.ts';
import { fail, ok } from '../core/result.ts';
import {
  FieldReader,
  leftAlone,
  notReadable,
  type ReadItem,
  type ReadTurn,
  readAlone,
  readList,
  wholeItems,
} from './fields.ts';
import type { Format } from './format.ts';
import { geminiSchema } from './gemini-schema.ts';
import type { MediaPart } from './parts.ts';
import { renderAs } from './render.ts';

const expected = 'a whole interaction with its "steps", a list of steps, or one function_call step';
const ofResponses = 'is a member that the Responses API has: name format=openai-responses for its items';
/** Statuses of an interaction that has come to its end; of any other, the last step may be half a call. */
const wholeStatuses: ReadonlySet<unknown> = new Set([undefined, null, 'requires_action', 'completed']);
const mediaTypes: ReadonlySet<string> = new Set([
  ...['png', 'jpeg', 'webp', 'heic', 'heif', 'gif', 'bmp', 'tiff'].map((type) => `image/${type}`),
  ...['wav', 'mp3', 'mpeg', 'aiff', 'aac', 'ogg', 'flac', 'm4a', 'opus', 'webm'].map(
    (type) => `audio/${type}`,
  ),
  'application/pdf',
  'text/csv',
]);

/** Gemini's Interactions API: `function_call` steps in, `function_result` steps out. */
export const geminiInteractions: Format = {
  name: 'gemini-interactions',
  defaultRender: 'text',
  members: new Set(['description', 'inputSchema']),
  schemaRules: geminiSchema,
  options: new Set(),

  readTurn(body) {
    if (Array.isArray(body)) return readSteps(body, '', false);
    if (!isJsonObject(body)) return fail(notReadable(expected));
    if (body.type === 'function_call') return readAlone(body, readStep(new Set()));
    const key = ['steps', 'outputs'].find((each) => Array.isArray(body[each]));
    if (key !== undefined) {
      return readSteps(body[key] as readonly JsonValue[], `/${key}`, !wholeStatuses.has(body.status));
    }
    return fail(notReadable(expected));
  },

  declare(tools) {
    return tools.map(({ binding, description, schema }) => ({
      type: 'function',
      name: binding.name,
      ...(description === undefined ? {} : { description }),
      parameters: schema,
    }));
  },

  output(call, outcome, render) {
    const { text, media } = renderAs(render, outcome, isNative, false);
    return {
      type: 'function_result',
      call_id: call.callId,
      name: call.name,
      ...(outcome.error === undefined ? {} : { is_error: true }),
      result: media.length === 0 ? text : [{ type: 'text', text }, ...media.map(nativeContent)],
    };
  },
};

// An interaction that went on by itself holds the results of earlier calls too; those need none any more.
function readSteps(steps: readonly JsonValue[], pointer: string, isCut: boolean): ReadTurn {
  const answered = new Set(
    steps.map((step) => (isJsonObject(step) && step.type === 'function_result' ? step.call_id : undefined)),
  );
  return readList(wholeItems(steps, isCut), (index) => `${pointer}/${index}`, readStep(answered));
}

const readStep =
  (answered: ReadonlySet<JsonValue | undefined>): ReadItem =>
  (item, pointer) => {
    if (item.type !== 'function_call') return leftAlone(item, pointer, 'gemini-interactions');
    if (item.id !== undefined && answered.has(item.id)) return undefined;
    // An item of the Responses API has the same type, and an id that stands for nothing.
    if (typeof item.call_id === 'string')
      return fail([{ pointer: `${pointer}/call_id`, detail: ofResponses }]);
    const fields = new FieldReader(item, pointer);
    const call = {
      callId: fields.callId('id'),
      name: fields.name(),
      arguments: fields.arguments('arguments'),
    };
    return fields.faults.length > 0 ? fail(fields.faults) : ok(call);
  };

const isNative = ({ mediaType, data }: MediaPart): boolean => data !== '' && mediaTypes.has(mediaType);

const nativeContent = ({ kind, mediaType, data }: MediaPart): JsonObject => ({
  type: kind,
  data,
  mime_type: mediaType,
});
