import type { JsonObject } from './json.ts';
import type { ContentBlock, ToolResult } from './outcome.ts';
import { truncate } from './text.ts';

/** Characters charged for each block beside its text, so that a flood of empty blocks is bounded too. */
const blockOverheadChars = 32;

/**
 * Bounds the text of a result to `charsMax` characters (design section 5).
 *
 * Text is cut by whole characters with a notice of what is missing; structured content that no longer fits is
 * replaced by a notice; media are left alone, since they never become text. Lone surrogates become U+FFFD.
 */
export function capResult(result: ToolResult, charsMax: number): ToolResult {
  let roomChars = charsMax;
  const content: ContentBlock[] = [];
  for (const [index, block] of result.content.entries()) {
    roomChars -= blockOverheadChars;
    if (roomChars <= 0 && index > 0) {
      content.push(notice(`[${result.content.length - index} more content blocks cut]`));
      break;
    }
    const capped = capBlock(block, Math.max(roomChars, blockOverheadChars));
    roomChars -= textChars(capped);
    content.push(capped);
  }
  if (result.structuredContent === undefined) return { content, isError: result.isError };
  const structuredChars = JSON.stringify(result.structuredContent).length;
  if (structuredChars > roomChars) {
    content.push(notice(`[structured content of ${structuredChars} characters left out: the limit is ${charsMax}]`));
    return { content, isError: result.isError };
  }
  return { content, structuredContent: result.structuredContent, isError: result.isError };
}

const notice = (text: string): ContentBlock => ({ type: 'text', text });

function capBlock(block: ContentBlock, charsMax: number): ContentBlock {
  if (typeof block.text === 'string') return withText(block, block.text, charsMax) as ContentBlock;
  const resource = embeddedResource(block);
  if (resource === undefined || typeof resource.text !== 'string') return block;
  return { ...block, resource: withText(resource, resource.text, charsMax) };
}

function withText(holder: JsonObject, text: string, charsMax: number): JsonObject {
  if (text.length <= charsMax && text.isWellFormed()) return holder;
  return { ...holder, text: truncate(text.toWellFormed(), charsMax) };
}

function textChars(block: ContentBlock): number {
  if (typeof block.text === 'string') return block.text.length;
  const text = embeddedResource(block)?.text;
  return typeof text === 'string' ? text.length : 0;
}

/** The resource inside a block of type `resource`, if it is there in the shape MCP gives it. */
export function embeddedResource(block: ContentBlock): JsonObject | undefined {
  const { resource } = block;
  return block.type === 'resource' && typeof resource === 'object' && resource !== null && !Array.isArray(resource)
    ? (resource as JsonObject)
    : undefined;
}
