import { invalidParts, isMembers, isText, type Members, placesOf, refersToItself } from './schema.ts';
import { descriptionFault, eachTool, nameFault, repeatedNames, unknownMembers } from './tool.ts';

const functionsMax = 512;
const namePattern = /^[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}$/;
const keyPattern = /^[A-Za-z_][A-Za-z0-9_]{0,63}$/;

/** Violations of a list of tools for generateContent, with functions declared by `parametersJsonSchema`. */
export function checkGeminiTools(tools: readonly unknown[]): string[] {
  const names: unknown[] = [];
  const faults = eachTool(tools, 'tools', function* (tool) {
    yield* unknownMembers(tool, ['functionDeclarations']);
    const list = Array.isArray(tool.functionDeclarations) ? tool.functionDeclarations : [];
    if (list.length === 0) yield 'functionDeclarations is empty or missing';
    yield* eachTool(list, 'functionDeclarations', function* (declaration) {
      names.push(declaration.name);
      yield* unknownMembers(declaration, [
        ...['name', 'description', 'parametersJsonSchema', 'responseJsonSchema', 'behavior'],
      ]);
      yield* declarationFaults(declaration, declaration.parametersJsonSchema);
    });
  });
  if (names.length > functionsMax) faults.push(`${names.length} functions are more than ${functionsMax}`);
  return [...faults, ...repeatedNames(names)];
}

/** Violations of a list of tools for the Interactions API. */
export function checkInteractionsTools(tools: readonly unknown[]): string[] {
  const names: unknown[] = [];
  const faults = eachTool(tools, 'tools', function* (tool) {
    names.push(tool.name);
    yield* unknownMembers(tool, ['type', 'name', 'description', 'parameters']);
    if (tool.type !== 'function') yield `type is ${JSON.stringify(tool.type)} instead of "function"`;
    yield* declarationFaults(tool, tool.parameters);
  });
  return [...faults, ...repeatedNames(names)];
}

function* declarationFaults(declaration: Members, schema: unknown): Generator<string> {
  yield* nameFault(declaration.name, namePattern);
  yield* descriptionFault(declaration);
  if (schema === undefined) return;
  if (isMembers(schema)) yield* schemaFaults(schema);
  else yield 'the schema is no object';
}

// Those that the documentation lists for JSON Schema, with the ones that Gemini's own Schema message has.
const keywords: ReadonlySet<string> = new Set([
  ...['$id', '$defs', '$ref', '$anchor', 'type', 'format', 'title', 'description', 'enum', 'items'],
  ...['prefixItems', 'minItems', 'maxItems', 'minimum', 'maximum', 'anyOf', 'oneOf', 'properties'],
  ...['additionalProperties', 'required', 'propertyOrdering', 'default', 'example', 'minLength', 'maxLength'],
  ...['minProperties', 'maxProperties', 'pattern', 'uniqueItems'],
]);

function* schemaFaults(root: Members): Generator<string> {
  yield* invalidParts(root);
  if (root.type !== 'object') yield `root type is ${JSON.stringify(root.type)} instead of "object"`;
  for (const keyword of ['anyOf', 'oneOf']) if (Object.hasOwn(root, keyword)) yield `${keyword} at the root`;
  for (const key of isMembers(root.properties) ? Object.keys(root.properties) : [])
    if (!keyPattern.test(key)) yield `parameter ${JSON.stringify(key)} does not match ${keyPattern.source}`;
  if (refersToItself(root)) yield 'the schema refers to itself';
  for (const { schema, at } of placesOf(root)) {
    if (!isMembers(schema)) continue;
    for (const keyword of Object.keys(schema)) if (!keywords.has(keyword)) yield `${at}: unknown ${keyword}`;
    if (schema.$ref !== undefined && Object.keys(schema).some((keyword) => !keyword.startsWith('$')))
      yield `${at}: $ref with other keywords`;
    const values: readonly unknown[] = Array.isArray(schema.enum) ? schema.enum : [];
    if (values.some((value) => !isText(value) && typeof value !== 'number'))
      yield `${at}: enum of something else than texts and numbers`;
  }
}
