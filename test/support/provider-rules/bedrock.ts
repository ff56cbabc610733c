import { claudeSchemaFaults } from './anthropic.ts';
import { isMembers } from './schema.ts';
import { descriptionFault, eachTool, nameFault, repeatedNames, unknownMembers } from './tool.ts';

/** Violations of a list of tools for Converse: its own rules, and those of Claude, to which it hands them on. */
export function checkBedrockTools(tools: readonly unknown[]): string[] {
  const names: unknown[] = [];
  const faults = eachTool(tools, 'tools', function* (entry) {
    yield* unknownMembers(entry, ['toolSpec', 'cachePoint', 'systemTool']);
    if (Object.keys(entry).length !== 1) yield 'is not exactly one of toolSpec, cachePoint and systemTool';
    const tool = entry.toolSpec;
    if (tool === undefined) return;
    if (!isMembers(tool)) {
      yield 'toolSpec is no object';
      return;
    }
    names.push(tool.name);
    yield* unknownMembers(tool, ['name', 'description', 'inputSchema', 'strict']);
    yield* nameFault(tool.name, /^[a-zA-Z0-9_-]{1,64}$/);
    yield* descriptionFault(tool);
    if (tool.description === '') yield 'description is empty';
    const schema = isMembers(tool.inputSchema) ? tool.inputSchema.json : undefined;
    if (isMembers(schema)) yield* claudeSchemaFaults(schema);
    else yield 'inputSchema.json is missing';
  });
  return [...faults, ...repeatedNames(names), ...(tools.length === 0 ? ['at least one tool is needed'] : [])];
}
