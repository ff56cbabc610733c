import { invalidParts, isMembers, isText, type Members, placesOf, saysType } from './schema.ts';
import { chatShape, descriptionFault, eachTool, nameFault, repeatedNames, unknownMembers } from './tool.ts';

const toolsMax = 128;
const rootRefused = ['anyOf', 'oneOf', 'allOf', 'enum', 'not'];
const builtInTools = [
  'tool_search',
  'file_search',
  'web_search',
  'code_interpreter',
  'image_generation',
  'mcp',
  'custom',
];

/** Violations of a list of tools for the Responses API. */
export function checkResponsesTools(tools: readonly unknown[]): string[] {
  const functions: Members[] = [];
  const checkFunction = function* (tool: Members): Generator<string> {
    functions.push(tool);
    yield* unknownMembers(tool, [
      'type',
      'name',
      'description',
      'parameters',
      'strict',
      'defer_loading',
      'allowed_callers',
      'output_schema',
      'async',
    ]);
    yield* functionFaults(tool, /^[a-zA-Z0-9_-]{1,128}$/);
  };
  const faults = eachTool(tools, 'tools', function* (tool) {
    if (tool.type === 'function') yield* checkFunction(tool);
    else if (tool.type === 'namespace') {
      yield* unknownMembers(tool, ['type', 'name', 'description', 'tools']);
      yield* nameFault(tool.name, /^[a-zA-Z0-9_-]{1,64}$/);
      if (builtInTools.includes(String(tool.name))) yield `namespace ${String(tool.name)} is a built-in tool`;
      if (!isText(tool.description) || tool.description === '') yield 'a namespace needs a description';
      const inside = Array.isArray(tool.tools) ? tool.tools : [];
      if (inside.length === 0) yield 'a namespace needs tools';
      yield* eachTool(inside, 'tools', function* (nested) {
        if (nested.type !== 'function') yield `type ${String(nested.type)} inside a namespace`;
        yield* checkFunction(nested);
      });
      yield* repeatedNames(inside.map((nested) => (isMembers(nested) ? nested.name : undefined)));
    } else if (!builtInTools.includes(String(tool.type))) yield `unknown type ${JSON.stringify(tool.type)}`;
  });
  const named = tools.filter((tool) => isMembers(tool) && isText(tool.name)) as Members[];
  const needsSearch = functions.some((tool) => tool.defer_loading === true);
  const hasSearch = tools.some((tool) => isMembers(tool) && tool.type === 'tool_search');
  return [
    ...faults,
    ...repeatedNames(named.map(({ name }) => name)),
    ...(needsSearch && !hasSearch ? ['defer_loading without a tool_search'] : []),
    ...countFault(functions.length),
  ];
}

/** Violations of a list of tools for Chat Completions. */
export function checkChatTools(tools: readonly unknown[]): string[] {
  const names: unknown[] = [];
  const faults = eachTool(tools, 'tools', function* (tool) {
    const own = yield* chatShape(tool, ['name', 'description', 'parameters', 'strict']);
    if (own === undefined) return;
    names.push(own.name);
    yield* functionFaults(own, /^[a-zA-Z0-9_-]{1,64}$/);
  });
  return [...faults, ...repeatedNames(names), ...countFault(names.length)];
}

const countFault = (count: number): string[] =>
  count > toolsMax ? [`${count} functions are more than ${toolsMax}`] : [];

function* functionFaults(tool: Members, namePattern: RegExp): Generator<string> {
  const { parameters, strict } = tool;
  yield* nameFault(tool.name, namePattern);
  yield* descriptionFault(tool);
  if (strict !== undefined && strict !== null && typeof strict !== 'boolean') yield 'strict is no boolean';
  if (parameters === undefined || parameters === null) return;
  if (!isMembers(parameters)) yield 'parameters are no object';
  else {
    yield* looseFaults(parameters);
    if (strict === true) yield* strictFaults(parameters);
  }
}

/** What the API refuses in any schema. */
export function* looseFaults(root: Members): Generator<string> {
  yield* invalidParts(root);
  if (root.type !== 'object') yield `root type is ${JSON.stringify(root.type)} instead of "object"`;
  if (!isMembers(root.properties)) yield 'root object without properties';
  for (const keyword of rootRefused) if (Object.hasOwn(root, keyword)) yield `${keyword} at the root`;
  for (const { schema, at } of placesOf(root)) {
    if (isMembers(schema) && saysType(schema, 'array') && schema.items === undefined)
      yield `${at}: array without items`;
  }
}

const strictKeywords: ReadonlySet<string> = new Set([
  ...['$defs', '$ref', 'additionalProperties', 'anyOf', 'const', 'description', 'enum', 'format', 'items'],
  ...['exclusiveMaximum', 'exclusiveMinimum', 'maxItems', 'maximum', 'minItems', 'minimum', 'multipleOf'],
  ...['pattern', 'properties', 'required', 'title', 'type'],
]);
const strictFormats: readonly unknown[] = [
  ...['date', 'date-time', 'duration', 'email', 'hostname', 'ipv4', 'ipv6', 'time', 'uuid'],
];

/** What the API refuses of a function whose calls it guarantees to fit. */
export function* strictFaults(root: Members): Generator<string> {
  let properties = 0;
  let enumValues = 0;
  let chars = 0;
  for (const { schema, at, level } of placesOf(root)) {
    if (!isMembers(schema)) {
      if (!at.endsWith('/additionalProperties')) yield `${at}: a boolean schema`;
      continue;
    }
    for (const keyword of Object.keys(schema))
      if (!strictKeywords.has(keyword)) yield `${at}: ${keyword} is not permitted`;
    if (schema.$ref !== undefined && Object.keys(schema).length > 1) yield `${at}: $ref with other keywords`;
    if (['$ref', 'type', 'anyOf', 'enum', 'const'].every((keyword) => schema[keyword] === undefined))
      yield `${at}: has no type`;
    if (schema.format !== undefined && !strictFormats.includes(schema.format))
      yield `${at}: format ${JSON.stringify(schema.format)}`;
    if (Array.isArray(schema.enum)) {
      enumValues += schema.enum.length;
      for (const value of schema.enum) chars += isText(value) ? value.length : 0;
    }
    if (isText(schema.const)) chars += schema.const.length;
    if (isMembers(schema.$defs)) for (const name of Object.keys(schema.$defs)) chars += name.length;
    if (level > 10) yield `${at}: nests deeper than 10 levels`;
    if (saysType(schema, 'object')) {
      const keys = isMembers(schema.properties) ? Object.keys(schema.properties) : [];
      const required: readonly unknown[] = Array.isArray(schema.required) ? schema.required : [];
      properties += keys.length;
      for (const key of keys) {
        chars += key.length;
        if (!required.includes(key)) yield `${at}: ${key} is not required`;
      }
      for (const key of required)
        if (!keys.includes(String(key))) yield `${at}: ${String(key)} is required and not described`;
      if (schema.additionalProperties !== false) yield `${at}: additionalProperties is not false`;
    } else if (schema.properties !== undefined || schema.required !== undefined)
      yield `${at}: properties of what is no object`;
  }
  if (properties > 5_000) yield `${properties} properties`;
  if (enumValues > 1_000) yield `${enumValues} enum values`;
  if (chars > 120_000) yield `${chars} characters of names and enum values`;
}
