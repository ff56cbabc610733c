import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { ValidateFunction } from 'ajv';
import { Ajv2020 } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import { parse } from 'yaml';

type Node = Readonly<Record<string, unknown>>;

/** An answer as a client sees it, whatever brought it. */
export interface SeenResponse {
  readonly status: number;
  readonly headers: Headers;
  readonly body: string;
}

/** The text of `openapi.yaml`. */
export const openapiText = readFileSync(
  fileURLToPath(new URL('../../openapi.yaml', import.meta.url)),
  'utf8',
);

/** `openapi.yaml`, parsed. */
export const openapi = parse(openapiText) as Node;

const ajv = new Ajv2020({ strict: false, allErrors: true, validateSchema: false });
addFormats.default(ajv);
ajv.addSchema(openapi, 'openapi');

const validators = new Map<string, ValidateFunction>();

/** What is wrong with a value, by the schema at this place of the document; empty when it fits. */
export function faultsAgainst(pointer: string, value: unknown): string {
  let validate = validators.get(pointer);
  if (validate === undefined) {
    validate = ajv.compile({ $ref: `openapi#${pointer}` });
    validators.set(pointer, validate);
  }
  return validate(value) ? '' : ajv.errorsText(validate.errors);
}

/** The node at a place of the document, and the place itself, with references followed. */
export function follow(pointer: string): { node: Node; pointer: string } {
  const steps = pointer.split('/').slice(1).map(unescapeStep);
  const node = steps.reduce<unknown>((at, step) => (at as Node | undefined)?.[step], openapi) as Node;
  const reference = node?.$ref;
  return typeof reference === 'string' ? follow(reference.slice(1)) : { node, pointer };
}

/** One step of a pointer into the document. */
export const escapeStep = (step: string): string => step.replaceAll('~', '~0').replaceAll('/', '~1');
const unescapeStep = (step: string): string => step.replaceAll('~1', '/').replaceAll('~0', '~');

/** Answers that any route may give to a request that is not one of its own. */
const generalResponses: Readonly<Record<number, string>> = {
  400: 'InvalidRequest',
  404: 'NotFound',
  405: 'MethodNotAllowed',
  431: 'HeadersTooLarge',
  503: 'Unavailable',
};

/** Headers that must not be there unless they are documented. */
const documentedHeaders =
  /^(callgate-.*|etag|allow|retry-after|www-authenticate|vary|location|link|preference-applied|x-accel-buffering)$/;

/** Holds an answer against `openapi.yaml`. @throws when it says or lacks anything that is not documented */
export function checkResponse(method: string, path: string, response: SeenResponse): void {
  const where = `${method} ${path}: ${response.status}`;
  const { node, pointer } = documentedResponse(method, path, response.status, where);

  const headers = (node.headers ?? {}) as Node;
  for (const name of Object.keys(headers)) {
    const header = follow(`${pointer}/headers/${escapeStep(name)}`);
    const value = response.headers.get(name);
    if (value === null) {
      if (header.node.required === true) throw new Error(`${where}: the header ${name} is missing`);
      continue;
    }
    const faults = faultsAgainst(`${header.pointer}/schema`, value);
    if (faults !== '') throw new Error(`${where}: the header ${name} is ${value}: ${faults}`);
  }
  const known = new Set(Object.keys(headers).map((name) => name.toLowerCase()));
  for (const name of response.headers.keys()) {
    if (documentedHeaders.test(name) && !known.has(name))
      throw new Error(`${where}: undocumented header ${name}`);
  }

  const content = Object.keys((node.content ?? {}) as Node);
  const [mediaType] = (response.headers.get('content-type') ?? '').split(';');
  if (content.length === 0) {
    if (response.body !== '') throw new Error(`${where}: a body where none is documented`);
    return;
  }
  if (!content.includes(mediaType ?? '')) throw new Error(`${where}: undocumented media type ${mediaType}`);
  if (method === 'HEAD') return;
  const at = `${pointer}/content/${escapeStep(mediaType ?? '')}`;
  if (mediaType === 'text/event-stream') {
    for (const { event, data } of eventsOf(response.body)) checkValue(`${at}/x-events/${event}`, data, where);
    return;
  }
  const value: unknown = /json$/.test(mediaType ?? '') ? JSON.parse(response.body) : response.body;
  checkValue(`${at}/schema`, value, where);
}

function checkValue(pointer: string, value: unknown, where: string): void {
  const faults = faultsAgainst(pointer, value);
  if (faults !== '') throw new Error(`${where}: ${faults} in ${JSON.stringify(value).slice(0, 500)}`);
  for (const output of outputTexts(value)) {
    const envelopeFaults = faultsAgainst('/components/schemas/Envelope', JSON.parse(output));
    if (envelopeFaults !== '') throw new Error(`${where}: ${envelopeFaults} in ${output.slice(0, 500)}`);
  }
}

/** A server-sent event. */
export interface SeenEvent {
  readonly event: string;
  // biome-ignore lint/suspicious/noExplicitAny: tests look into data whose shape the contract checks
  readonly data: any;
}

/** The events of a stream, comments left out. @throws when one is not of one `event` and one `data` line */
export function eventsOf(stream: string): readonly SeenEvent[] {
  const blocks = stream.split('\n\n').filter((block) => block !== '' && block !== ':');
  return blocks.map((block) => {
    const match = /^event: ([a-z]+)\ndata: ([^\r\n]+)$/.exec(block);
    if (match === null) throw new Error(`no event: ${block.slice(0, 500)}`);
    return { event: match[1] ?? '', data: JSON.parse(match[2] ?? '') };
  });
}

function documentedResponse(method: string, path: string, status: number, where: string) {
  const [pathname = ''] = path.split('?');
  const template = Object.keys(openapi.paths as Node).find((each) => fits(pathname, each)) ?? pathname;
  const known = `/paths/${escapeStep(template)}`;
  const operation = `${known}/${method === 'HEAD' ? 'get' : method.toLowerCase()}`;
  if (follow(operation).node !== undefined) {
    const found = follow(`${operation}/responses/${status}`);
    if (found.node !== undefined) return found;
  } else {
    const isForeign = follow(known).node === undefined ? status !== 405 : status !== 404;
    const general = generalResponses[status];
    if (general !== undefined && isForeign) return follow(`/components/responses/${general}`);
  }
  throw new Error(`${where}: the status is not documented`);
}

const fits = (pathname: string, template: string): boolean =>
  new RegExp(`^${template.replaceAll('.', '\\.').replace(/\{\w+\}/, '[^/]+')}$`).test(pathname);

/** The texts of outputs that are envelopes. */
function outputTexts(value: unknown): readonly string[] {
  const { append, output, item } = (value ?? {}) as {
    append?: readonly { output?: unknown }[];
    output?: unknown;
    item?: { output?: unknown };
  };
  return [output, item?.output, ...(Array.isArray(append) ? append.map((each) => each.output) : [])]
    .map((each) => (Array.isArray(each) ? (each[0] as { text?: unknown }).text : each))
    .filter((text): text is string => typeof text === 'string' && text.startsWith('{"ok":'));
}
