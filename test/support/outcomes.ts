import type { JsonValue } from '../../src/core/json.ts';
import {
  type ContentBlock,
  failed,
  type Outcome,
  succeeded,
  type ToolResult,
} from '../../src/core/outcome.ts';
import { toolError } from '../../src/dispatch/outcomes.ts';

/** Base64 of nine bytes. */
export const picture = Buffer.from('a picture').toString('base64');
/** Base64 of eight bytes. */
export const pdf = Buffer.from('%PDF-1.7').toString('base64');

const result = (content: readonly ContentBlock[], structured?: JsonValue, isError = false): ToolResult => ({
  content,
  isError,
  ...(structured === undefined ? {} : { structuredContent: structured }),
});

/** A call that was done, with these blocks. */
export const done = (content: readonly ContentBlock[], structured?: JsonValue): Outcome =>
  succeeded(result(content, structured));

/** A call whose tool reports an error with these blocks. */
export const toolFailed = (content: readonly ContentBlock[], structured?: JsonValue): Outcome =>
  toolError(result(content, structured, true));

export const textBlock = (text: string): ContentBlock => ({ type: 'text', text });

/** A block with an image, audio, or an embedded file. */
export const mediaBlock = (mimeType: string, data = picture): ContentBlock =>
  /^(image|audio)\//.test(mimeType)
    ? { type: mimeType.split('/')[0] ?? '', data, mimeType }
    : { type: 'resource', resource: { uri: 'file:///x/report.pdf', blob: data, mimeType } };

/** One outcome of each kind that a format has to write. */
export const outcomes = {
  text: done([textBlock('3 pages')]),
  texts: done([textBlock('a'), textBlock('b')]),
  empty: done([]),
  blank: done([textBlock(' \n')]),
  structured: done([], { total: 36 }),
  list: done([], [1, 2]),
  typed: done([], { __type: 'x' }),
  png: done([textBlock('shot'), mediaBlock('image/png')]),
  tiff: done([mediaBlock('image/tiff')]),
  audio: done([mediaBlock('audio/wav')]),
  pdf: done([mediaBlock('application/pdf', pdf)]),
  zip: done([mediaBlock('application/zip')]),
  link: done([{ type: 'resource_link', uri: 'https://example.com/a', name: 'Page A' }]),
  embedded: done([{ type: 'resource', resource: { uri: 'file:///a.md', text: 'inside' } }]),
  unknown: done([{ type: 'hologram', x: 1 }]),
  remark: succeeded(result([textBlock('saved')]), ['the tool promises structured content and sent none']),
  toolError: toolFailed([textBlock('quota exceeded')]),
  silentError: toolFailed([]),
  pictureError: toolFailed([textBlock('no such button'), mediaBlock('image/png')]),
  forbidden: failed('forbidden', 'it needs a grant', { details: { missing_grant: 'tools:a:b:read' } }),
} as const satisfies Readonly<Record<string, Outcome>>;

export type OutcomeName = keyof typeof outcomes;
