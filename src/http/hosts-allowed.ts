import { isLoopbackHost } from '../core/hosts.ts';

/**
 * The names under which a service on this address may be addressed (MT-15); undefined where any will do. Only on
 * loopback a foreign name means that a page in somebody's browser has been pointed here.
 */
export function hostsAllowed(host: string, publicUrl: string | undefined): ReadonlySet<string> | undefined {
  if (!isLoopbackHost(host)) return undefined;
  const own = host.includes(':') ? `[${host}]` : host;
  const published = publicUrl === undefined ? [] : [new URL(publicUrl).hostname];
  return new Set(['localhost', '127.0.0.1', '[::1]', own.toLowerCase(), ...published]);
}
