import { isJsonObject, type JsonObject, type JsonValue } from './json.ts';
import { limits } from './limits.ts';
import type { ContentBlock, ToolResult } from './outcome.ts';
import { isDeeperThan, isRepeatedInText } from './structured.ts';
import { truncate } from './text.ts';

/** Characters charged for each further block beside its text, so that a flood of empty blocks is bounded too. */
const blockOverheadChars = 32;
/** Room kept for the notice of blocks that are missing. */
const blockNoticeChars = 40;
/** With less room than this a block would be little but its own notice. */
const usefulCharsMin = 64;

/**
 * Bounds the text of a result to `charsMax` characters, notices included (design section 5).
 *
 * Text is cut by whole characters with a notice of what is missing. Structured content stays whole or is replaced by
 * a notice; to stay it has to fit beside the text, or take no more than half of the room. Media are left alone, since
 * they never become text. Lone surrogates become U+FFFD.
 */
export function capResult(result: ToolResult, charsMax: number): ToolResult {
  const { structuredContent, isError } = result;
  const content = result.content.map(readable);
  if (structuredContent === undefined) return { content: cutBlocks(content, charsMax), isError };

  const leftOut = (why: string): ToolResult => {
    const notice = textBlock(`[structured content left out: ${why}]`);
    return {
      content: [...cutBlocks(content, charsMax - charsOf([notice]) - blockOverheadChars), notice],
      isError,
    };
  };
  const leastChars = leastJsonChars(structuredContent, charsMax);
  if (leastChars === undefined) return leftOut(`nested deeper than ${limits.jsonDepthMax} levels`);
  if (leastChars > charsMax) return leftOut(`more than ${charsMax} characters`);
  const contentChars = charsOf(content);
  const structuredChars = shownChars(structuredContent, content, charsMax - contentChars);
  if (structuredChars > Math.max(charsMax - contentChars, charsMax / 2)) {
    return leftOut(`${structuredChars} characters`);
  }
  return { content: cutBlocks(content, charsMax - structuredChars), structuredContent, isError };
}

/**
 * A lower bound of what `JSON.stringify` would write, counted no further than a little over `charsMax`; undefined for
 * what is nested too deeply. A value of megabytes must not be written, or compared, only to be left out.
 */
function leastJsonChars(
  value: unknown,
  charsMax: number,
  levels: number = limits.jsonDepthMax,
): number | undefined {
  if (typeof value === 'string') return value.length + 2;
  if (typeof value !== 'object' || value === null) return 1;
  if (levels === 0) return undefined;
  let chars = 2;
  const names = Array.isArray(value) ? undefined : Object.keys(value);
  const size = names?.length ?? (value as readonly unknown[]).length;
  for (let at = 0; at < size && chars <= charsMax; at += 1) {
    const name = names?.[at];
    const member =
      name === undefined
        ? (value as readonly unknown[])[at]
        : (value as Readonly<Record<string, unknown>>)[name];
    const memberChars = leastJsonChars(member, charsMax - chars, levels - 1);
    if (memberChars === undefined) return undefined;
    chars += memberChars + (name === undefined ? 0 : name.length + 3) + (at === 0 ? 0 : 1);
  }
  return chars;
}

/** What the structured content adds to an output: nothing where a text block says the same and stays whole. */
function shownChars(
  structuredContent: JsonValue,
  content: readonly ContentBlock[],
  roomChars: number,
): number {
  const chars = JSON.stringify(structuredContent).length;
  return chars > roomChars && roomChars >= 0 && isRepeatedInText(structuredContent, content) ? 0 : chars;
}

function cutBlocks(content: readonly ContentBlock[], charsMax: number): readonly ContentBlock[] {
  if (charsOf(content) <= charsMax) return content;
  let roomChars = content.length === 1 ? charsMax : charsMax - blockNoticeChars;
  const kept: ContentBlock[] = [];
  for (const [index, block] of content.entries()) {
    if (index > 0) roomChars -= blockOverheadChars;
    const capped = cutText(block, Math.max(0, roomChars));
    const chars = charsOf([capped]);
    if (chars > roomChars || (index > 0 && roomChars < usefulCharsMin)) {
      return [...kept, textBlock(`[${content.length - index} more content blocks cut]`)];
    }
    roomChars -= chars;
    kept.push(capped);
  }
  return kept;
}

const textBlock = (text: string): ContentBlock => ({ type: 'text', text });

/** A block whose text is well-formed, and that JSON can write. */
function readable(block: ContentBlock): ContentBlock {
  if (isDeeperThan(block, limits.jsonDepthMax)) {
    return textBlock(`[content nested deeper than ${limits.jsonDepthMax} levels left out]`);
  }
  return mapText(block, (text) => text.toWellFormed());
}

function cutText(block: ContentBlock, charsMax: number): ContentBlock {
  const othersChars = charsOf([mapText(block, () => '')]);
  return mapText(block, (text) => truncate(text, Math.max(0, charsMax - othersChars)));
}

/** Changes the text of a text block or of an embedded resource. */
function mapText(block: ContentBlock, change: (text: string) => string): ContentBlock {
  if (typeof block.text === 'string') return { ...block, text: change(block.text) };
  const resource = embeddedResource(block);
  if (typeof resource?.text !== 'string') return block;
  return { ...block, resource: { ...resource, text: change(resource.text) } };
}

/** The characters that blocks bring into an output: every string in them that is not media. */
const charsOf = (content: readonly ContentBlock[]): number =>
  content.reduce(
    (sum, block) => sum + toldChars(block) + toldChars(embeddedResource(block) ?? {}),
    Math.max(0, content.length - 1) * blockOverheadChars,
  );

function toldChars(holder: JsonObject): number {
  let chars = 0;
  for (const [name, value] of Object.entries(holder)) {
    if (typeof value === 'string' && !notTold.has(name)) chars += value.length;
  }
  return chars;
}

/** Media, which never become text, and the kind of a block. */
const notTold: ReadonlySet<string> = new Set(['data', 'blob', 'type']);

/** The resource inside a block of type `resource`, if it is there in the shape MCP gives it. */
export function embeddedResource(block: ContentBlock): JsonObject | undefined {
  const { resource } = block;
  return block.type === 'resource' && isJsonObject(resource) ? resource : undefined;
}
