import { embeddedResource } from '../core/cap.ts';
import type { JsonObject, JsonValue } from '../core/json.ts';
import type { ContentBlock, ToolResult } from '../core/outcome.ts';
import { truncate } from '../core/text.ts';

/** Media that some formats take as a native part. `data` is base64 as the server sent it. */
export interface MediaPart {
  readonly kind: 'image' | 'audio' | 'document';
  readonly mediaType: string;
  readonly data: string;
  readonly bytes: number;
  /** Where the server said what it is, a name for it. */
  readonly name?: string;
}

export type Part = { readonly kind: 'text'; readonly text: string } | MediaPart;

const nameCharsMax = 200;
const uriCharsMax = 2_000;

/** Reads a result's blocks into text and media; every block becomes exactly one part, whatever it is. */
export const readParts = (result: ToolResult): Part[] => result.content.map(readBlock);

function readBlock(block: ContentBlock): Part {
  switch (block.type) {
    case 'text':
      return typeof block.text === 'string' ? text(block.text) : unreadable(block);
    case 'image':
    case 'audio':
      return typeof block.data === 'string' && isBase64(block.data)
        ? media(block.type, mediaTypeOf(block), block.data)
        : unreadable(block);
    case 'resource':
      return readResource(block);
    case 'resource_link':
      // MT-8: a link is told, never fetched.
      return typeof block.uri === 'string'
        ? text(
            ['[resource link]', line(block.name, nameCharsMax), line(block.uri, uriCharsMax)]
              .filter((part) => part !== '')
              .join(' '),
          )
        : unreadable(block);
    default:
      return text(`[content of type ${JSON.stringify(truncate(block.type, 40))} is not supported]`);
  }
}

function readResource(block: ContentBlock): Part {
  const resource = embeddedResource(block);
  if (resource === undefined) return unreadable(block);
  const uri = line(resource.uri, uriCharsMax) || '(no uri)';
  if (typeof resource.text === 'string') return text(`[resource ${uri}]\n${resource.text}`);
  if (typeof resource.blob !== 'string' || !isBase64(resource.blob)) return unreadable(block);
  const mediaType = mediaTypeOf(resource);
  const kind = mediaType.startsWith('image/')
    ? 'image'
    : mediaType.startsWith('audio/')
      ? 'audio'
      : 'document';
  const name = uri.split(/[?#]/)[0]?.split('/').at(-1);
  return { ...media(kind, mediaType, resource.blob), ...(name ? { name } : {}) };
}

const text = (value: string): Part => ({ kind: 'text', text: value });

const unreadable = (block: ContentBlock): Part =>
  text(`[content of type ${block.type} that could not be read]`);

const line = (value: JsonValue | undefined, charsMax: number): string =>
  typeof value === 'string' ? truncate(value.toWellFormed().replace(/\s+/g, ' ').trim(), charsMax) : '';

/** A media type without its parameters. */
function mediaTypeOf({ mimeType }: JsonObject): string {
  const [, type] =
    typeof mimeType === 'string' ? (/^\s*([\w.+-]{1,64}\/[\w.+-]{1,64})\s*(?:;|$)/.exec(mimeType) ?? []) : [];
  return type?.toLowerCase() ?? 'application/octet-stream';
}

// A provider refuses the whole conversation over one data URL that is not base64.
const isBase64 = (data: string): boolean => data.length % 4 === 0 && /^[A-Za-z0-9+/]*={0,2}$/.test(data);

function media(kind: MediaPart['kind'], mediaType: string, data: string): MediaPart {
  const padding = data.endsWith('==') ? 2 : data.endsWith('=') ? 1 : 0;
  return { kind, mediaType, data, bytes: Math.max(0, Math.floor((data.length * 3) / 4) - padding) };
}

/** What stands in the text in the place of media: never the data itself, which costs tokens and helps nobody. */
export const marker = (part: MediaPart, attached: boolean): string =>
  `[${part.kind} ${part.mediaType}, ${part.bytes} bytes${attached ? ', attached' : ', not shown'}]`;

/**
 * Takes the first media of each kind, and no more than a format has room for; none of a kind that is not named. Good for
 * one outcome.
 */
export function atMost(
  counts: Readonly<Partial<Record<MediaPart['kind'], number>>>,
  takes: (part: MediaPart) => boolean,
): (part: MediaPart) => boolean {
  const decided = new Map<MediaPart, boolean>();
  const left = { ...counts };
  return (part) => {
    let isTaken = decided.get(part);
    if (isTaken === undefined) {
      isTaken = takes(part) && (left[part.kind] ?? 0) > 0;
      if (isTaken) left[part.kind] = (left[part.kind] ?? 0) - 1;
      decided.set(part, isTaken);
    }
    return isTaken;
  };
}

const webImages: ReadonlySet<string> = new Set(['image/png', 'image/jpeg', 'image/gif', 'image/webp']);

/** Whether a part is an image of the four types that most providers look at. */
export const isWebImage = ({ kind, mediaType, data }: MediaPart): boolean =>
  kind === 'image' && data !== '' && webImages.has(mediaType);

/** For formats that take text and nothing else. */
export const takesNone = (): boolean => false;
