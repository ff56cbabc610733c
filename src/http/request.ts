import { type JsonValue, parseJson } from '../core/json.ts';
import { limits } from '../core/limits.ts';
import type { Admission } from './admission.ts';
import { type Answer, afterAnswer, type IncomingRequest } from './exchange.ts';
import { Problem } from './problem.ts';

const json = 'application/json';
const eventStream = 'text/event-stream';
/** How a client may name JSON, the most exact first. */
const jsonRanges = [json, 'application/*', '*/*'];
const utf8 = new TextDecoder('utf-8', { fatal: true });

/** Refuses a request whose client does not take JSON. */
export function requireJsonAccepted(request: IncomingRequest): void {
  if (qualityOf(jsonRanges, request) > 0) return;
  throw new Problem('not_acceptable', `the answer is ${json}; accept that, or send no Accept header`);
}

/** Whether the client wants its calls as an event stream, by name; JSON wins where it likes both as much. */
export function prefersEvents(request: IncomingRequest): boolean {
  const jsonQuality = qualityOf(jsonRanges, request);
  if (jsonQuality === 1) return false;
  if (qualityOf([eventStream], request) > jsonQuality) return true;
  if (jsonQuality > 0) return false;
  throw new Problem(
    'not_acceptable',
    `the answer is ${json} or ${eventStream}; accept one of them, or send no Accept header`,
  );
}

/** How much a client likes what these ranges name, from 0 to 1; the first that it sent decides (RFC 9110 12.5.1). */
function qualityOf(names: readonly string[], request: IncomingRequest): number {
  const accept = request.headers.get('accept')?.trim() ?? '';
  if (accept === '' || names.includes(accept)) return 1;
  const ranges = accept.split(',').map((range) => range.split(';').map((part) => part.trim().toLowerCase()));
  const name = names.find((each) => ranges.some(([sent]) => sent === each));
  const range = ranges.find(([sent]) => sent === name);
  if (name === undefined || range === undefined) return 0;
  const weight = range.find((parameter) => parameter.startsWith('q='));
  const quality = weight === undefined ? 1 : Number(weight.slice(2));
  return quality >= 0 && quality <= 1 ? quality : 1;
}

/**
 * Reads a request body as JSON and gives it to `use`. Bodies count against one budget from their first byte until
 * their request has ended (RL-13), so that many large ones at once are refused and not a reason to run out of memory.
 */
export async function withJson(
  request: IncomingRequest,
  bytesMax: number,
  admission: Admission,
  use: (body: JsonValue) => Answer | Promise<Answer>,
): Promise<Answer> {
  const announced = Number(request.headers.get('content-length') ?? bytesMax);
  const bytes = Math.min(announced, bytesMax);
  if (!admission.takeBytes(bytes)) {
    throw new Problem('overloaded', 'too many large bodies are being worked on; send it again later', {
      headers: { 'retry-after': '1' },
    });
  }
  let answer: Answer | undefined;
  try {
    requireJsonBody(request);
    answer = await use(parseBody(await readBytes(request, bytesMax)));
    return answer;
  } finally {
    afterAnswer(answer, () => admission.giveBytes(bytes));
  }
}

function requireJsonBody(request: IncomingRequest): void {
  const mediaType = request.headers.get('content-type')?.split(';')[0]?.trim().toLowerCase() ?? '';
  if (mediaType !== json && !/^application\/[\w.+-]+\+json$/.test(mediaType)) {
    throw new Problem('unsupported_media_type', `send the body as ${json}, with that Content-Type`);
  }
  const encoding = request.headers.get('content-encoding')?.trim().toLowerCase() ?? 'identity';
  if (encoding !== 'identity') {
    throw new Problem('unsupported_media_type', 'send the body as it is, without a Content-Encoding');
  }
}

function parseBody(bytes: ArrayBuffer | Uint8Array): JsonValue {
  const text = decode(bytes);
  if (text.trim() === '') throw new Problem('invalid_request', 'the body is empty; send JSON');
  const parsed = parseJson(text, { depthMax: limits.jsonDepthMax });
  if (!parsed.ok) {
    throw new Problem('invalid_request', `the body is not usable JSON: ${parsed.error.message}`);
  }
  return parsed.value;
}

/** The text without a byte order mark, which some clients send although JSON has none. */
function decode(bytes: ArrayBuffer | Uint8Array): string {
  try {
    return utf8.decode(bytes);
  } catch {
    throw new Problem('invalid_request', 'the body is not UTF-8; JSON has to be');
  }
}

function readBytes(request: IncomingRequest, bytesMax: number): Promise<ArrayBuffer | Uint8Array> {
  const announced = request.headers.get('content-length');
  if (announced === null) return readChunks(request, bytesMax);
  if (Number(announced) > bytesMax) throw tooLarge(bytesMax);
  return request.arrayBuffer().catch(refuseBroken);
}

async function readChunks(request: IncomingRequest, bytesMax: number): Promise<Uint8Array> {
  try {
    const chunks: Uint8Array[] = [];
    let size = 0;
    for await (const chunk of (request.body ?? []) as AsyncIterable<Uint8Array>) {
      size += chunk.byteLength;
      if (size > bytesMax) throw tooLarge(bytesMax);
      chunks.push(chunk);
    }
    return Buffer.concat(chunks);
  } catch (error) {
    if (error instanceof Problem) throw error;
    return refuseBroken();
  }
}

// The caller hung up in the middle; nobody reads this answer, and it is no fault of ours.
function refuseBroken(): never {
  throw new Problem('invalid_request', 'the body ended before it was complete');
}

const tooLarge = (bytesMax: number): Problem =>
  new Problem('payload_too_large', `the body is larger than ${bytesMax} bytes; send less`);

/** The values of a query parameter, in their order. */
export type Query<Name extends string> = (name: Name) => readonly string[];

const noValues: Query<string> = () => [];

/** Reads the query. Unknown and repeated parameters are refused: a misspelt one would silently change nothing. */
export function readQuery<Name extends string>(
  request: IncomingRequest,
  known: Readonly<Record<Name, 'one' | 'many'>>,
): Query<Name> {
  const start = request.url.indexOf('?');
  if (start === -1) return noValues;
  const query = new URLSearchParams(request.url.slice(start + 1));
  for (const name of new Set(query.keys())) {
    if (!Object.hasOwn(known, name)) {
      const names = Object.keys(known);
      const hint = names.length === 0 ? 'this route takes none' : `this route takes ${names.join(', ')}`;
      throw badParameter(name.slice(0, 100), `unknown query parameter; ${hint}`);
    }
    const count = query.getAll(name).length;
    if (known[name as Name] === 'one' && count > 1) throw badParameter(name, 'may stand only once');
    if (count > 100) throw badParameter(name, 'stands more than 100 times');
  }
  return (name) => query.getAll(name);
}

export const badParameter = (parameter: string, detail: string): Problem =>
  new Problem('invalid_request', `the query parameter ${JSON.stringify(parameter)}: ${detail}`, {
    errors: [{ parameter, detail }],
  });

/** One of a few words, or the given one where the parameter is absent. */
export function choose<Word extends string>(
  parameter: string,
  values: readonly string[],
  words: readonly Word[],
  absent: Word,
): Word {
  const [value] = values;
  if (value === undefined) return absent;
  const word = words.find((candidate) => candidate === value);
  if (word === undefined) throw badParameter(parameter, `must be one of ${words.join(', ')}`);
  return word;
}

/** A header by which the caller names something of its own. */
export function readNameHeader(request: IncomingRequest, header: string): string | undefined {
  const value = request.headers.get(header);
  if (value === null || value === '') return undefined;
  if (value.length > limits.idCharsMax) {
    throw new Problem(
      'invalid_request',
      `the header ${header} is longer than ${limits.idCharsMax} characters`,
      {
        errors: [{ parameter: header, detail: `at most ${limits.idCharsMax} characters` }],
      },
    );
  }
  return value;
}
