import { isObject } from '../core/json.ts';
import { limits } from '../core/limits.ts';
import { isDeeperThan } from '../core/structured.ts';
import { foreignText } from '../core/text.ts';
import type { ToolDefinition, WithheldTool } from '../tools/definition.ts';

/** Bounds of one tool list, all pages together; the characters are those of the tools that are kept. */
export const listLimits = {
  pagesMax: 1_000,
  toolsMax: 10_000,
  charsMax: 67_108_864,
  cursorCharsMax: 4_096,
} as const;

/** What a server offers, read with care: one bad entry costs that entry only. */
export interface ToolList {
  readonly tools: readonly ToolDefinition[];
  readonly refused: readonly WithheldTool[];
}

/** Asks for one page; the first without a cursor. */
export type PageRequest = (cursor: string | undefined) => Promise<Readonly<Record<string, unknown>>>;

/**
 * Reads all pages of a tool list. What is over a bound, or behind a cursor that leads in a circle, is not offered and
 * said so in `refused`.
 * @throws ListFault when a page has no list of tools, and whatever `requestPage` throws
 */
export async function readToolList(requestPage: PageRequest): Promise<ToolList> {
  const entries: Entry[] = [];
  const refused: WithheldTool[] = [];
  const cursors = new Set<string>();
  let chars = 0;
  let cursor: string | undefined;

  for (let pages = 1; ; pages++) {
    const page = await requestPage(cursor);
    if (!Array.isArray(page.tools))
      throw new ListFault(`page ${pages} of its tool list holds no list of tools`);
    for (const entry of page.tools) {
      const tool = readTool(entry, entries.length);
      chars += 'reason' in tool ? 0 : JSON.stringify(tool).length;
      if (entries.length === listLimits.toolsMax || chars > listLimits.charsMax) {
        refused.push(rest(`more than ${listLimits.toolsMax} tools or ${listLimits.charsMax} characters`));
        return acceptTools(entries, refused);
      }
      entries.push(tool);
    }
    const next = page.nextCursor;
    // An empty cursor is how several servers write "no more".
    if (next === undefined || next === null || next === '') return acceptTools(entries, refused);
    if (typeof next !== 'string') refused.push(rest('the cursor to the next page is not a string'));
    else if (next.length > listLimits.cursorCharsMax)
      refused.push(
        rest(`the cursor to the next page is longer than ${listLimits.cursorCharsMax} characters`),
      );
    else if (cursors.has(next)) refused.push(rest('the server gave the same cursor twice'));
    else if (pages === listLimits.pagesMax) refused.push(rest(`more than ${listLimits.pagesMax} pages`));
    else {
      cursors.add(next);
      cursor = next;
      continue;
    }
    return acceptTools(entries, refused);
  }
}

/** A tool list that cannot be read at all. */
export class ListFault extends Error {}

type Entry = ToolDefinition | WithheldTool;

const rest = (reason: string): WithheldTool => ({ tool: '(the rest of the list)', reason });

function acceptTools(entries: readonly Entry[], refusedBefore: readonly WithheldTool[]): ToolList {
  const refused = [...refusedBefore];
  const accepted = new Map<string, ToolDefinition>();
  const repeated = new Set<string>();
  for (const entry of entries) {
    if ('reason' in entry) refused.push(entry);
    else if (accepted.has(entry.name)) repeated.add(entry.name);
    else accepted.set(entry.name, entry);
  }
  // MT-5: of two tools with one name nobody can say which one a call means.
  for (const name of repeated) {
    accepted.delete(name);
    refused.push({ tool: name, reason: 'the server lists this name more than once' });
  }
  return { tools: [...accepted.values()], refused };
}

function readTool(entry: unknown, index: number): Entry {
  const at = `(entry ${index + 1})`;
  if (!isObject(entry)) return { tool: at, reason: 'the entry is not an object' };
  const { name, title, description, inputSchema, outputSchema } = entry;
  if (typeof name !== 'string' || name === '') return { tool: at, reason: 'the entry has no name' };
  if (name.length > limits.nameCharsMax) {
    return {
      tool: foreignText(name, 80),
      reason: `its name is longer than ${limits.nameCharsMax} characters`,
    };
  }
  if (!name.isWellFormed())
    return { tool: at, reason: 'its name holds half a character and cannot be sent back' };
  if (!isObject(inputSchema)) return { tool: name, reason: 'its inputSchema is missing or not an object' };
  // Such a tool answers with the handle of a task instead of a result.
  if (isObject(entry.execution) && entry.execution.taskSupport === 'required') {
    return { tool: name, reason: 'it can only be run as an MCP task, which this version does not do' };
  }
  const annotations = readAnnotations(entry.annotations);
  const definition: ToolDefinition = {
    name,
    inputSchema,
    ...(typeof title === 'string' ? { title } : {}),
    ...(typeof description === 'string' ? { description } : {}),
    ...(outputSchema === undefined ? {} : { outputSchema }),
    ...(annotations === undefined ? {} : { annotations }),
  };
  // Whatever walks through a definition later does so by recursion.
  return isDeeperThan(definition, limits.jsonDepthMax)
    ? { tool: name, reason: `its schemas are nested deeper than ${limits.jsonDepthMax} levels` }
    : definition;
}

function readAnnotations(annotations: unknown): Readonly<Record<string, boolean>> | undefined {
  if (!isObject(annotations)) return undefined;
  const hints: Record<string, boolean> = {};
  for (const [key, value] of Object.entries(annotations)) {
    if (typeof value === 'boolean' && key !== '__proto__') hints[key] = value;
  }
  return Object.keys(hints).length === 0 ? undefined : hints;
}
