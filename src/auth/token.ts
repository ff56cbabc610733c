import { isObject } from '../core/json.ts';
import { fail, ok, type Result } from '../core/result.ts';

/** A token taken apart, nothing in it verified yet. */
export interface UnverifiedToken {
  readonly algorithm: string;
  readonly kid: string | undefined;
  readonly typ: string | undefined;
  /** The second part, still encoded. */
  readonly payload: string;
}

/** Characters of a token; a longer one is refused before it costs anything (AUTH-1). */
export const tokenCharsMax = 8192;

/** Takes a compact JWS apart and refuses what no signature could make acceptable (AUTH-1, AUTH-7). */
export function parseToken(text: string): Result<UnverifiedToken, string> {
  if (text.length > tokenCharsMax) return fail(`it is longer than ${tokenCharsMax} characters`);
  // AUTH-1: jose reads past padding and blanks, this pattern does not. Five parts would be an encrypted token.
  if (!/^[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+$/.test(text))
    return fail('it is not three base64url parts');
  const [protectedPart = '', payload = ''] = text.split('.');
  const header = decodeObject(protectedPart);
  if (header === undefined) return fail('its header is not a JSON object');
  // AUTH-7: no extension is understood here, so none can be critical; `jwk`, `jku`, `x5u` and `x5c` are never read.
  if (Object.hasOwn(header, 'crit') || Object.hasOwn(header, 'b64'))
    return fail('its header has `crit` or `b64`');
  const { alg, kid, typ } = header;
  if (typeof alg !== 'string') return fail('its header has no `alg`');
  if (kid !== undefined && typeof kid !== 'string') return fail('its `kid` is not a string');
  if (typ !== undefined && typeof typ !== 'string') return fail('its `typ` is not a string');
  return ok({ algorithm: alg, kid, typ, payload });
}

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** The JSON object in one part of a token; undefined when there is none. */
export function decodeObject(part: string): Readonly<Record<string, unknown>> | undefined {
  try {
    const value: unknown = JSON.parse(utf8.decode(Buffer.from(part, 'base64url')));
    return isObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}
