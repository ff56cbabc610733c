import { once } from 'node:events';
import { open } from 'node:fs/promises';
import http from 'node:http';
import https from 'node:https';
import { isLoopbackHost } from '../core/hosts.ts';
import { fail, ok, type Result } from '../core/result.ts';
import type { KeySource } from './settings.ts';

const bytesMax = 262_144;

/** Gets a JWK set from its URL or file, unparsed by meaning; the reason of a failure is for the log. @throws never */
export async function loadJwks(
  source: Exclude<KeySource, { kind: 'inline' }>,
  closing: AbortSignal,
): Promise<Result<unknown, string>> {
  try {
    const text = source.kind === 'url' ? await fetchText(source, closing) : await readText(source.path);
    return text.ok ? parse(text.value) : text;
  } catch (error) {
    return fail(describe(error));
  }
}

/** AUTH-11. */
async function fetchText(
  source: Extract<KeySource, { kind: 'url' }>,
  closing: AbortSignal,
): Promise<Result<string, string>> {
  const url = new URL(source.jwksUri);
  if (url.protocol !== 'https:' && !isLoopbackHost(url.hostname)) return fail('its URL is not https');
  const patience = AbortSignal.timeout(source.timeoutMs);
  // Not `fetch`: the first use of it keeps 10 MB for the rest of the process.
  const request = (url.protocol === 'https:' ? https : http).get(url, {
    headers: { accept: 'application/jwk-set+json, application/json' },
    signal: AbortSignal.any([closing, patience]),
  });
  try {
    const [response] = (await once(request, 'response')) as [http.IncomingMessage];
    const { statusCode: status = 0 } = response;
    if (status >= 300 && status < 400) return fail(`it redirects (HTTP ${status}), which is not followed`);
    if (status !== 200) return fail(`HTTP ${status}`);
    const chunks: Uint8Array[] = [];
    let bytes = 0;
    for await (const chunk of response as AsyncIterable<Uint8Array>) {
      bytes += chunk.byteLength;
      if (bytes > bytesMax) return fail(`it is larger than ${bytesMax} bytes`);
      chunks.push(chunk);
    }
    return ok(Buffer.concat(chunks).toString('utf8'));
  } catch (error) {
    // A cut in the middle of the body is told as a reset, whoever made it.
    if (patience.aborted) return fail('it did not answer in time');
    throw error;
  } finally {
    // What lies beyond the answer, or beyond the limit, is never read.
    request.destroy();
  }
}

async function readText(path: string): Promise<Result<string, string>> {
  const file = await open(path);
  try {
    const { bytesRead, buffer } = await file.read(Buffer.alloc(bytesMax + 1), 0, bytesMax + 1, 0);
    return bytesRead > bytesMax
      ? fail(`it is larger than ${bytesMax} bytes`)
      : ok(buffer.toString('utf8', 0, bytesRead));
  } finally {
    await file.close();
  }
}

function parse(text: string): Result<unknown, string> {
  try {
    return ok(JSON.parse(text));
  } catch {
    // The parser's own message repeats parts of the text.
    return fail('it is not JSON');
  }
}

function describe(error: unknown): string {
  if (!(error instanceof Error)) return 'it could not be read';
  const { cause } = error;
  const root = cause instanceof Error ? cause : error;
  return 'code' in root && typeof root.code === 'string' ? root.code : root.name;
}
