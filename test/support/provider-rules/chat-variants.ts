import { looseFaults } from './openai.ts';
import { isMembers, isText, type Members, placesOf } from './schema.ts';
import { chatShape, eachTool, nameFault, repeatedNames } from './tool.ts';

const namePattern = /^[a-zA-Z0-9_-]{1,64}$/;

/** Violations of a list of tools for Mistral: parameters are required. It publishes no subset; OpenAI's is taken. */
export const checkMistralTools = (tools: readonly unknown[]): string[] =>
  checkVariant(tools, ['name', 'description', 'strict', 'parameters'], function* ({ parameters }) {
    if (!isMembers(parameters)) yield 'parameters are missing';
    else yield* looseFaults(parameters);
  });

/** Violations of a list of tools for Cohere v2. It publishes no subset; OpenAI's is taken. */
export const checkCohereTools = (tools: readonly unknown[]): string[] =>
  checkVariant(tools, ['name', 'description', 'parameters'], function* ({ parameters }) {
    if (!isMembers(parameters)) yield 'parameters are missing';
    else yield* looseFaults(parameters);
  });

/** Violations of a list of tools for Ollama: what its typed structs cannot read, and what they would lose. */
export const checkOllamaTools = (tools: readonly unknown[]): string[] =>
  checkVariant(tools, ['name', 'description', 'parameters'], function* ({ parameters }) {
    if (!isMembers(parameters)) yield 'parameters are missing';
    else yield* ollamaFaults(parameters);
  });

function checkVariant(
  tools: readonly unknown[],
  known: readonly string[],
  check: (own: Members) => Iterable<string>,
): string[] {
  const names: unknown[] = [];
  const faults = eachTool(tools, 'tools', function* (tool) {
    const own = yield* chatShape(tool, known);
    if (own === undefined) return;
    names.push(own.name);
    yield* nameFault(own.name, namePattern);
    yield* check(own);
  });
  return [...faults, ...repeatedNames(names)];
}

const kept: ReadonlySet<string> = new Set([
  ...['type', 'description', 'enum', 'items', 'properties', 'required', 'anyOf'],
]);

function* ollamaFaults(root: Members): Generator<string> {
  if (root.type !== 'object') yield `root type is ${JSON.stringify(root.type)} instead of "object"`;
  if (root.anyOf !== undefined) yield 'anyOf at the root is lost';
  for (const { schema, at } of placesOf(root)) {
    if (!isMembers(schema)) {
      yield `${at}: a boolean schema cannot be read`;
      continue;
    }
    for (const keyword of Object.keys(schema)) if (!kept.has(keyword)) yield `${at}: ${keyword} is lost`;
    const types: readonly unknown[] = Array.isArray(schema.type) ? schema.type : [schema.type ?? ''];
    if (!types.every(isText)) yield `${at}: type cannot be read`;
    if (schema.properties !== undefined && !isMembers(schema.properties))
      yield `${at}: properties cannot be read`;
    if (schema.description !== undefined && !isText(schema.description))
      yield `${at}: description cannot be read`;
    if (schema.required !== undefined && !(Array.isArray(schema.required) && schema.required.every(isText)))
      yield `${at}: required cannot be read`;
    if (schema.enum !== undefined && !Array.isArray(schema.enum)) yield `${at}: enum cannot be read`;
  }
}
