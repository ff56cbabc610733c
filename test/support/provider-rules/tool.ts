import { isMembers, isText, type Members } from './schema.ts';

/** What a provider asks of the name of a function. */
export const nameFault = (name: unknown, pattern: RegExp): string[] =>
  isText(name) && pattern.test(name) ? [] : [`name ${JSON.stringify(name)} does not match ${pattern.source}`];

/** A description is a text or is not there. */
export const descriptionFault = ({ description }: Members): string[] =>
  description === undefined || isText(description) ? [] : ['description is no text'];

/** Members that the API does not know, each of which is a 400. */
export const unknownMembers = (tool: Members, known: readonly string[]): string[] =>
  Object.keys(tool)
    .filter((key) => !known.includes(key))
    .map((key) => `unknown member ${key}`);

/** Names that stand more than once. */
export function repeatedNames(names: readonly unknown[]): string[] {
  const repeated = names.filter((name, index) => names.indexOf(name) !== index);
  return repeated.map((name) => `name ${JSON.stringify(name)} stands more than once`);
}

/** Checks each entry of a list and says in front of each violation where it is. */
export function eachTool(
  tools: readonly unknown[],
  at: string,
  check: (tool: Members) => Iterable<string>,
): string[] {
  return tools.flatMap((tool, index) => {
    const faults = isMembers(tool) ? [...check(tool)] : ['is no object'];
    return faults.map((fault) => `${at}[${index}]: ${fault}`);
  });
}

/** A function tool in the shape of Chat Completions, which several providers share. */
export function* chatShape(tool: Members, known: readonly string[]): Generator<string, Members | undefined> {
  yield* unknownMembers(tool, ['type', 'function']);
  if (tool.type !== 'function') yield `type is ${JSON.stringify(tool.type)} instead of "function"`;
  if (!isMembers(tool.function)) {
    yield 'has no function';
    return undefined;
  }
  yield* unknownMembers(tool.function, known);
  yield* descriptionFault(tool.function);
  return tool.function;
}
