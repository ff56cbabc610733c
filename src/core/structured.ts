import { canonicalJson, type JsonValue } from './json.ts';
import type { ContentBlock } from './outcome.ts';

/** Whether one of the text blocks is the same value written as JSON, as MCP asks servers to send it for older clients. */
export function isRepeatedInText(structuredContent: JsonValue, content: readonly ContentBlock[]): boolean {
  const canonical = canonicalJson(structuredContent);
  return content.some(({ text }) => typeof text === 'string' && saysTheSame(text, canonical));
}

function saysTheSame(text: string, canonical: string): boolean {
  if (text === canonical) return true;
  try {
    // Big numbers are rounded here as they were in the structured content; the text itself has all their digits.
    return canonicalJson(JSON.parse(text) as JsonValue) === canonical;
  } catch {
    // Ordinary words are not JSON; then they say something else.
    return false;
  }
}

/** Whether objects and arrays are nested deeper than so many levels. */
export const isDeeperThan = (value: unknown, levels: number): boolean =>
  typeof value === 'object' &&
  value !== null &&
  (levels === 0 || Object.values(value).some((member) => isDeeperThan(member, levels - 1)));
