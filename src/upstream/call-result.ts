import { isJsonObject, type JsonObject, type JsonValue } from '../core/json.ts';
import type { ContentBlock, ToolResult } from '../core/outcome.ts';
import { fail, ok, type Result } from '../core/result.ts';
import { isDeeperThan } from '../core/structured.ts';

/** Content blocks of one result. */
const blocksMax = 1_000;
/** Members of one block; MCP knows ten. */
const blockMembersMax = 100;

/** Why an answer to `tools/call` is not a result. */
export type ResultFault =
  | { readonly kind: 'input_required' }
  | { readonly kind: 'malformed'; readonly reason: string };

/** Hints for a host: an audience, a priority, a time. */
const annotationLevelsMax = 3;
const annotationCharsMax = 1_000;

/**
 * Reads the answer to a `tools/call` with as few demands as possible: a result that a server produced is not lost
 * over a part of it that is odd. Output schemas are not looked at here (O07).
 */
export function readCallResult(answer: Readonly<Record<string, unknown>>): Result<ToolResult, ResultFault> {
  // 2026-07-28: a result that asks for more input is none; it is neither shown as success nor sent again (MT-17).
  if (answer.resultType === 'input_required') return fail({ kind: 'input_required' });
  const content = answer.content ?? [];
  if (!Array.isArray(content))
    return fail({ kind: 'malformed', reason: 'the content of its result is not a list' });
  return ok({
    content: readBlocks(content),
    // Any JSON value, null and false included (2026-07-28); what was not sent stays absent.
    structuredContent: answer.structuredContent as JsonValue | undefined,
    isError: answer.isError === true,
  });
}

/** A flood of blocks is cut before anything is done with each of them. */
function readBlocks(blocks: readonly unknown[]): readonly ContentBlock[] {
  const kept = blocks.slice(0, blocksMax).map(readBlock);
  const missing = blocks.length - kept.length;
  return missing === 0 ? kept : [...kept, { type: 'text', text: `[${missing} more content blocks cut]` }];
}

/** A block that is not one keeps its place in the list; the rendering names it like any kind that it does not know. */
function readBlock(block: unknown): ContentBlock {
  if (!isBlock(block)) return { type: 'unknown' };
  if (!Object.values(block).some(isNested)) return block;
  const { resource, annotations, ...others } = block;
  return {
    ...flat(others),
    type: block.type,
    ...(isJsonObject(resource) ? { resource: flat(resource) } : {}),
    ...(isSmall(annotations) ? { annotations } : {}),
  };
}

/** An object without the objects in it, which MCP does not have there and no cap of text would see. */
const flat = (holder: JsonObject): JsonObject =>
  Object.fromEntries(Object.entries(holder).filter(([, value]) => !isNested(value)));

const isSmall = (annotations: JsonValue | undefined): annotations is JsonObject =>
  isJsonObject(annotations) &&
  !isDeeperThan(annotations, annotationLevelsMax) &&
  JSON.stringify(annotations).length <= annotationCharsMax;

const isNested = (value: unknown): boolean => typeof value === 'object' && value !== null;

const isBlock = (block: unknown): block is ContentBlock =>
  typeof block === 'object' &&
  block !== null &&
  'type' in block &&
  typeof block.type === 'string' &&
  Object.keys(block).length <= blockMembersMax;
