import { isJsonObject, type JsonObject, type JsonValue } from '../core/json.ts';
import { fail, ok } from '../core/result.ts';
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
import type { Format } from './format.ts';
import { geminiSchema } from './gemini-schema.ts';
import { type MediaPart, takesNone } from './parts.ts';
import { renderAs } from './render.ts';

const expected =
  'a whole generateContent response with its "candidates", a content with its "parts", a list of parts or of ' +
  'function calls, or one';
/** Finish reasons of a candidate that ends in the middle, so that its last part may be half a call. */
const cutReasons: ReadonlySet<unknown> = new Set([
  'MAX_TOKENS',
  'MALFORMED_FUNCTION_CALL',
  'SAFETY',
  'RECITATION',
  'LANGUAGE',
  'BLOCKLIST',
  'PROHIBITED_CONTENT',
  'SPII',
]);
const mediaTypes: ReadonlySet<string> = new Set(['image/png', 'image/jpeg', 'image/webp', 'application/pdf']);
/** The kind of a call of a model that looks at media in a function response. */
const multimodal = 'multimodal';
const firstMultimodal = 3;

/**
 * Gemini's generateContent: `functionCall` parts in, one content of `functionResponse` parts out.
 *
 * Media are parts of a response only for models from Gemini 3 on, since older ones refuse the whole request over them.
 * Which model it is stands in `modelVersion` of a whole response; where that is not sent, media are marked in the text.
 */
export const gemini: Format = {
  name: 'gemini',
  defaultRender: 'text',
  toolsMax: 512,
  members: new Set(['description', 'inputSchema']),
  schemaRules: geminiSchema,
  options: new Set(),

  readTurn(body) {
    if (Array.isArray(body)) return readList(body, (index) => `/${index}`, readPart(undefined));
    if (!isJsonObject(body)) return fail(notReadable(expected));
    const kind = kindOf(memberOf(body, 'modelVersion', 'model_version'));
    const candidates = memberOf(body, 'candidates');
    if (Array.isArray(candidates)) {
      return readVersions(candidates, 'candidates', (candidate, at) => readCandidate(candidate, at, kind));
    }
    // A prompt that was blocked has no answer at all.
    if (memberOf(body, 'promptFeedback', 'prompt_feedback') !== undefined) return ok([]);
    if (Array.isArray(body.parts)) return readList(body.parts, (index) => `/parts/${index}`, readPart(kind));
    return calledIn(body) === undefined ? fail(notReadable(expected)) : readAlone(body, readPart(kind));
  },

  declare(tools) {
    const functionDeclarations = tools.map(({ binding, description, schema }) => ({
      name: binding.name,
      ...(description === undefined ? {} : { description }),
      parametersJsonSchema: schema,
    }));
    return tools.length === 0 ? [] : [{ functionDeclarations }];
  },

  output(call, outcome, render) {
    const takes = call.kind === multimodal ? isNative : takesNone;
    const { text, media } = renderAs(render, outcome, takes, false);
    return {
      functionResponse: {
        // An id that the model did not give means nothing to it.
        ...(call.hasMadeId === true ? {} : { id: call.callId }),
        name: call.name,
        response: outcome.error === undefined ? { output: text } : { error: text },
        ...(media.length === 0 ? {} : { parts: media.map(nativePart) }),
      },
    };
  },

  message: (outputs) => ({ role: 'user', parts: outputs }),
};

function readCandidate(candidate: JsonObject, pointer: string, kind: string | undefined): ReadTurn {
  const parts = isJsonObject(candidate.content) ? candidate.content.parts : undefined;
  // A candidate that was stopped before its first word has no parts.
  if (parts === undefined || parts === null) return ok([]);
  const at = `${pointer}/content/parts`;
  if (!Array.isArray(parts)) return fail([{ pointer: at, detail: 'must be a list of parts' }]);
  const isCut = cutReasons.has(memberOf(candidate, 'finishReason', 'finish_reason'));
  return readList(wholeItems(parts, isCut), (index) => `${at}/${index}`, readPart(kind));
}

/** What the provider runs itself (`toolCall`, `executableCode`) is another kind of part, and is left alone. */
const readPart =
  (kind: string | undefined): ReadItem =>
  (item, pointer) => {
    const called = calledIn(item);
    if (called === undefined) return leftAlone(item, pointer, 'gemini');
    const [key, call] = called;
    const at = key === undefined ? pointer : `${pointer}/${key}`;
    if (!isJsonObject(call)) return fail([{ pointer: at, detail: 'must be an object' }]);
    if (isPartial(call)) return undefined;
    const fields = new FieldReader(call, at);
    const callId = fields.optionalCallId('id');
    const read = { callId, name: fields.name(), arguments: fields.arguments('args'), kind };
    return fields.faults.length > 0 ? fail(fields.faults) : ok(read);
  };

/** The call of a part, and the member it is; without one where the call itself stands in the list, as the SDK lists them. */
function calledIn(item: JsonObject): [string | undefined, JsonValue] | undefined {
  for (const key of ['functionCall', 'function_call']) {
    const call = memberOf(item, key);
    if (call !== undefined) return [key, call];
  }
  return memberOf(item, 'name', 'args') === undefined ? undefined : [undefined, item];
}

/** Whether more of the call is still to come. */
const isPartial = (call: JsonObject): boolean =>
  memberOf(call, 'willContinue', 'will_continue') === true ||
  memberOf(call, 'partialArgs', 'partial_args') !== undefined;

function kindOf(model: JsonValue | undefined): string | undefined {
  const [, major] = typeof model === 'string' ? (/gemini-(\d{1,3})(?!\d)/.exec(model) ?? []) : [];
  return Number(major) >= firstMultimodal ? multimodal : undefined;
}

const isNative = ({ mediaType, data }: MediaPart): boolean => data !== '' && mediaTypes.has(mediaType);

const nativePart = ({ mediaType, data }: MediaPart): JsonObject => ({
  inlineData: { mimeType: mediaType, data },
});
