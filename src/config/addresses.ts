import { isMetadataHost } from '../core/addresses.ts';
import { fail, ok, type Result } from '../core/result.ts';
import type { Address } from './configuration.ts';

/** The checks that every configured URL passes (MT-8); plain http is judged by the caller. */
export function checkUrl(text: string): Result<URL, string> {
  // The text itself stays out of the message: it may hold credentials.
  if (!URL.canParse(text)) return fail('is not a URL: write it in full, like "https://host.example/mcp"');
  const url = new URL(text);
  if (url.protocol !== 'https:' && url.protocol !== 'http:') {
    return fail(`is a ${url.protocol} URL: only https and http are supported`);
  }
  if (isMetadataHost(url.hostname)) {
    return fail(
      `leads to ${url.hostname}, a link-local or metadata address, from which machines get their credentials: use another address`,
    );
  }
  return ok(url);
}

/** Reads `host:port`, where an IPv6 host stands in brackets. */
export function parseAddress(text: string): Address | undefined {
  const [, host, port] = /^(\[[^\]]+\]|[^:]+):(\d+)$/.exec(text) ?? [];
  if (host === undefined || Number(port) > 65_535) return undefined;
  return { host: host.replace(/^\[|\]$/g, ''), port: Number(port) };
}
