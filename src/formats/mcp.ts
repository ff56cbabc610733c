import type { FunctionCall } from '../core/call.ts';
import { isJsonObject, type JsonObject, type JsonValue } from '../core/json.ts';
import type { Outcome } from '../core/outcome.ts';
import { fail, ok, type Result } from '../core/result.ts';
import { FieldReader, notReadable, readAlone, readList } from './fields.ts';
import type { BodyFault, Format } from './format.ts';
import { errorMember, renderText } from './render.ts';

const shape = '{"id":...,"name":...,"arguments":{...}}';

/** The neutral format: MCP's own tool entries under declared names, `{id,name,arguments}` in, `CallToolResult` out. */
export const mcp: Format = {
  name: 'mcp',
  defaultRender: 'text',
  members: new Set(['title', 'description', 'inputSchema', 'outputSchema']),
  options: new Set(),

  readTurn(body) {
    if (isJsonObject(body)) return readAlone(body, readItem);
    if (Array.isArray(body)) return readList(body, (index) => `/${index}`, readItem);
    return fail(notReadable(`a list of calls, or one: ${shape}`));
  },

  declare(tools) {
    return tools.map(({ binding, description, schema }) => ({
      name: binding.name,
      ...(binding.title === undefined ? {} : { title: binding.title }),
      ...(description === undefined ? {} : { description }),
      inputSchema: schema,
      ...(binding.outputSchema === undefined ? {} : { outputSchema: binding.outputSchema }),
      ...(binding.annotations === undefined ? {} : { annotations: binding.annotations }),
    }));
  },

  output(call, outcome) {
    return { id: call.callId, name: call.name, result: callToolResult(outcome) };
  },
};

function readItem(item: JsonObject, pointer: string): Result<FunctionCall, readonly BodyFault[]> {
  const fields = new FieldReader(item, pointer);
  const call = { callId: fields.callId('id'), name: fields.name(), arguments: fields.arguments('arguments') };
  return fields.faults.length > 0 ? fail(fields.faults) : ok(call);
}

// The result keeps the server's own blocks; what callgate has to say stands in text and, for programs, in `_meta`.
function callToolResult(outcome: Outcome): JsonObject {
  const { error, result, warnings } = outcome;
  const own = result === undefined || result.content.length === 0;
  const content: readonly JsonValue[] =
    own && error !== undefined
      ? [{ type: 'text', text: renderText(outcome, () => true, false).text }]
      : (result?.content ?? []);
  return {
    content,
    ...(result?.structuredContent === undefined ? {} : { structuredContent: result.structuredContent }),
    isError: error !== undefined,
    ...(error === undefined && warnings === undefined
      ? {}
      : {
          _meta: {
            ...(error === undefined ? {} : { 'callgate/error': errorMember(error) }),
            ...(warnings === undefined ? {} : { 'callgate/warnings': warnings }),
          },
        }),
  };
}
