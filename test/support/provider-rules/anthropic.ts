import { invalidParts, isMembers, isText, type Members } from './schema.ts';
import { descriptionFault, eachTool, nameFault, repeatedNames, unknownMembers } from './tool.ts';

const rootRefused = ['anyOf', 'oneOf', 'allOf'];
const keyPattern = /^[a-zA-Z0-9_.-]{1,64}$/;

/** Violations of a list of tools for the Messages API. */
export function checkAnthropicTools(tools: readonly unknown[]): string[] {
  const names: unknown[] = [];
  let isDeferred = false;
  let canSearch = false;
  let strictCount = 0;
  const faults = eachTool(tools, 'tools', function* (tool) {
    if (isText(tool.type) && tool.type.startsWith('tool_search_tool_')) {
      canSearch = true;
      yield* nameFault(tool.name, /^tool_search_tool_(?:regex|bm25)$/);
      return;
    }
    names.push(tool.name);
    isDeferred ||= tool.defer_loading === true;
    strictCount += tool.strict === true ? 1 : 0;
    yield* unknownMembers(tool, [
      ...['name', 'input_schema', 'description', 'strict', 'defer_loading', 'input_examples'],
      ...['eager_input_streaming', 'allowed_callers', 'cache_control', 'type'],
    ]);
    if (tool.type !== undefined && tool.type !== 'custom') yield `unknown type ${JSON.stringify(tool.type)}`;
    yield* nameFault(tool.name, /^[a-zA-Z0-9_-]{1,128}$/);
    yield* descriptionFault(tool);
    if (isMembers(tool.input_schema)) yield* claudeSchemaFaults(tool.input_schema);
    else yield 'input_schema is missing';
  });
  return [
    ...faults,
    ...repeatedNames(names),
    ...(isDeferred && !canSearch ? ['defer_loading without a tool_search_tool'] : []),
    ...(strictCount > 20 ? [`${strictCount} strict tools are more than 20`] : []),
  ];
}

/** What Claude's API refuses of a schema, wherever Claude runs. */
export function* claudeSchemaFaults(root: Members): Generator<string> {
  yield* invalidParts(root);
  if (root.type !== 'object') yield `root type is ${JSON.stringify(root.type)} instead of "object"`;
  for (const keyword of rootRefused) if (Object.hasOwn(root, keyword)) yield `${keyword} at the root`;
  for (const key of isMembers(root.properties) ? Object.keys(root.properties) : [])
    if (!keyPattern.test(key))
      yield `property key ${JSON.stringify(key)} does not match ${keyPattern.source}`;
}
