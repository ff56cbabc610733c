import type { DeclareOptions, Format } from '../formats/format.ts';
import { formats, nativeFormat } from '../formats/formats.ts';
import { authenticate } from './authenticate.ts';
import type { Service } from './context.ts';
import type { Answer, IncomingRequest } from './exchange.ts';
import { badParameter, choose, readQuery, requireJsonAccepted } from './request.ts';

const patternCharsMax = 256;
const declarationParameters = {
  format: 'one',
  server: 'many',
  tool: 'many',
  strict: 'one',
  namespaces: 'one',
  defer: 'one',
} as const;

/** `GET /v1/declarations`: the tools that the caller may use, ready for a model request. */
export async function getDeclarations(
  request: IncomingRequest,
  requestId: string,
  service: Service,
): Promise<Answer> {
  const actor = await authenticate(request, service, requestId);
  requireJsonAccepted(request);
  const query = readQuery(request, declarationParameters);
  const format = readFormat(query('format'));
  const options = readOptions(format, query);
  const body = await service.declarations.body(actor, {
    format,
    options,
    filter: {
      servers: readPatterns('server', query('server')),
      tools: readPatterns('tool', query('tool')),
    },
  });
  const headers = {
    etag: body.etag,
    'cache-control': 'private',
    vary: 'Authorization',
    'callgate-revision': body.revision,
    'x-request-id': requestId,
  };
  if (isNotModified(request.headers.get('if-none-match'), body.etag))
    return { status: 304, headers, body: null };
  return { status: 200, headers: { ...headers, 'content-type': 'application/json' }, body: body.bytes };
}

/** The options that a request names, which have to be some that its format has. */
function readOptions(
  format: Format,
  query: (name: keyof typeof declarationParameters) => readonly string[],
): DeclareOptions {
  const has = (option: keyof DeclareOptions): boolean => format.options.has(option);
  const refuse = (option: keyof DeclareOptions): never => {
    throw badParameter(option, `is nothing that the format ${format.name} has: leave it out`);
  };
  const flag = (option: 'namespaces' | 'defer'): boolean => {
    const isOn = choose(option, query(option), ['0', '1'] as const, '0') === '1';
    return isOn && !has(option) ? refuse(option) : isOn;
  };
  const strict = choose('strict', query('strict'), ['off', 'lossless'] as const, 'off');
  if (strict !== 'off' && !has('strict')) refuse('strict');
  return { strict, namespaces: flag('namespaces'), defer: flag('defer') };
}

/** The format that a request names; the native one where it names none. */
export function readFormat(values: readonly string[]): Format {
  const [name] = values;
  if (name === undefined) return nativeFormat;
  const format = formats.get(name);
  if (format === undefined) throw badParameter('format', `must be one of ${[...formats.keys()].join(', ')}`);
  return format;
}

function readPatterns(parameter: string, values: readonly string[]): readonly string[] {
  const bad = values.find(
    (value) => value === '' || value.length > patternCharsMax || value.slice(0, -1).includes('*'),
  );
  if (bad !== undefined)
    throw badParameter(parameter, 'must be a name, or the beginning of names followed by one *');
  return values;
}

// RFC 9110 13.1.2: weak comparison, since a proxy may have weakened the tag.
const isNotModified = (header: string | null, etag: string): boolean =>
  header !== null &&
  (header.trim() === '*' || header.split(',').some((tag) => tag.trim().replace(/^W\//, '') === etag));
