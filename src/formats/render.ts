import { embeddedResource } from '../core/cap.ts';
import { isJsonObject, type JsonObject, type JsonValue } from '../core/json.ts';
import type { CallError, ContentBlock, Outcome, ToolResult } from '../core/outcome.ts';
import { isRepeatedInText } from '../core/structured.ts';
import type { Render } from '../tools/policy.ts';
import { type MediaPart, marker, type Part, readParts } from './parts.ts';

/** An outcome as text for a model, and the media that the text only marks. */
export interface Rendered {
  readonly text: string;
  readonly media: readonly MediaPart[];
}

/** Strings that long and made of nothing but base64 are data, not words. */
const dataCharsMin = 4_096;

/**
 * Writes an outcome as a JSON envelope: `{"ok":true,"content":[...]}` or `{"ok":false,"error":{...},"content":[...]}`
 * (design section 5). Always valid JSON. `takes` says which media the format carries natively beside the text.
 */
function renderEnvelope(outcome: Outcome, takes: (part: MediaPart) => boolean): Rendered {
  const parts = outcome.result === undefined ? [] : readParts(outcome.result);
  const structured = outcome.result === undefined ? undefined : structuredBesideText(outcome.result);
  const envelope = {
    ok: outcome.error === undefined,
    error: outcome.error && errorMember(outcome.error),
    content: parts.map((part) => ({ type: 'text', text: textOf(part, takes) })),
    structured,
    warnings: outcome.warnings,
  };
  return {
    text: JSON.stringify(envelope),
    media: parts.filter((part) => part.kind !== 'text').filter(takes),
  };
}

/** Writes an outcome as plain text; a failure starts with `[tool error]` where the format has no flag for it. */
export function renderText(
  outcome: Outcome,
  takes: (part: MediaPart) => boolean,
  marksErrors: boolean,
): Rendered {
  const parts = outcome.result === undefined ? [] : readParts(outcome.result);
  const structured = outcome.result === undefined ? undefined : structuredBesideText(outcome.result);
  const lines = parts.map((part) => textOf(part, takes));
  if (structured !== undefined) lines.push(JSON.stringify(structured));
  if (outcome.error !== undefined && outcome.error.code !== 'tool_error') {
    lines.unshift(`${outcome.error.code}: ${outcome.error.message}`);
  } else if (outcome.error !== undefined && lines.every((line) => line.trim() === '')) {
    lines.splice(0, lines.length, outcome.error.message);
  }
  for (const warning of outcome.warnings ?? []) lines.push(`[note] ${warning}`);
  const prefix = marksErrors && outcome.error !== undefined ? '[tool error] ' : '';
  return {
    text: prefix + lines.join('\n'),
    media: parts.filter((part) => part.kind !== 'text').filter(takes),
  };
}

/** Writes an outcome in the rendering that was asked for; both are made here and nowhere else. */
export const renderAs = (
  render: Render,
  outcome: Outcome,
  takes: (part: MediaPart) => boolean,
  marksErrors: boolean,
): Rendered =>
  render === 'envelope' ? renderEnvelope(outcome, takes) : renderText(outcome, takes, marksErrors);

const textOf = (part: Part, takes: (part: MediaPart) => boolean): string =>
  part.kind === 'text' ? part.text : marker(part, takes(part));

/** The error in wire spelling, for the envelope and for every place that tells it to a program. */
export const errorMember = (error: CallError): JsonObject => ({
  code: error.code,
  message: error.message,
  may_have_executed: error.mayHaveExecuted,
  retryable: error.retryable,
  ...error.details,
});

/** The structured content, unless a text block says the same; binary data inside it is marked, not repeated. */
function structuredBesideText({ structuredContent, content }: ToolResult): JsonValue | undefined {
  if (structuredContent === undefined || isRepeatedInText(structuredContent, content)) return undefined;
  return withoutData(structuredContent, mediaData(content));
}

const mediaData = (content: readonly ContentBlock[]): ReadonlySet<JsonValue | undefined> =>
  new Set(content.flatMap((block) => [block.data, embeddedResource(block)?.blob]));

function withoutData(value: JsonValue, data: ReadonlySet<JsonValue | undefined>): JsonValue {
  if (typeof value === 'string')
    return isData(value, data) ? `[binary data, ${value.length} characters]` : value;
  if (Array.isArray(value)) return value.map((item) => withoutData(item, data));
  if (!isJsonObject(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([key, member]) => [key, withoutData(member, data)]));
}

const isData = (text: string, data: ReadonlySet<JsonValue | undefined>): boolean =>
  (text !== '' && data.has(text)) ||
  /^data:[^,]{0,200};base64,/.test(text) ||
  (text.length >= dataCharsMin && /^[A-Za-z0-9+/_-]+={0,2}$/.test(text));
