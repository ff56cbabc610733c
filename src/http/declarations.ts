import type { Format } from '../formats/format.ts';
import { formats, nativeFormat } from '../formats/formats.ts';
import { authenticate } from './authenticate.ts';
import type { Service } from './context.ts';
import type { Answer, IncomingRequest } from './exchange.ts';
import { badParameter, readQuery, requireJsonAccepted } from './request.ts';

const patternCharsMax = 256;

/** `GET /v1/declarations`: the tools that the caller may use, ready for a model request. */
export async function getDeclarations(
  request: IncomingRequest,
  requestId: string,
  service: Service,
): Promise<Answer> {
  const actor = await authenticate(request, service, requestId);
  requireJsonAccepted(request);
  const query = readQuery(request, { format: 'one', server: 'many', tool: 'many' });
  const format = readFormat(query('format'));
  const body = service.declarations.body(actor, format, {
    servers: readPatterns('server', query('server')),
    tools: readPatterns('tool', query('tool')),
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
