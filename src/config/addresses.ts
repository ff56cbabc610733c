import { BlockList, isIP } from 'node:net';
import { bareHost } from '../core/hosts.ts';
import { fail, ok, type Result } from '../core/result.ts';
import type { Address } from './configuration.ts';

/** Link-local networks, and the fixed addresses at which clouds hand credentials to machines (MT-8). */
const metadata = new BlockList();
metadata.addSubnet('fe80::', 10, 'ipv6');
metadata.addAddress('fd00:ec2::254', 'ipv6');
refuseIpv4('169.254.0.0', 16);
refuseIpv4('100.100.100.200', 32);
refuseIpv4('192.0.0.192', 32);

/** An IPv4 network, and the IPv6 addresses that lead to it: mapped, compatible, translated (RFC 6052, 2765), 6to4. */
function refuseIpv4(address: string, prefix: number): void {
  metadata.addSubnet(address, prefix);
  for (const carrier of ['::ffff:', '::', '::ffff:0:', '64:ff9b::', '64:ff9b:1::'])
    metadata.addSubnet(carrier + address, 96 + prefix, 'ipv6');
  const [a = 0, b = 0, c = 0, d = 0] = address.split('.').map(Number);
  metadata.addSubnet(
    `2002:${(a * 256 + b).toString(16)}:${(c * 256 + d).toString(16)}::`,
    16 + prefix,
    'ipv6',
  );
}

const metadataNames = new Set([
  'metadata',
  'metadata.google.internal',
  'instance-data',
  'instance-data.ec2.internal',
]);

/** Whether a host is one that no configured URL may name: link-local, or a cloud's metadata service. */
export function isMetadataHost(host: string): boolean {
  const name = bareHost(host);
  const version = isIP(name);
  return metadataNames.has(name) || (version !== 0 && metadata.check(name, version === 6 ? 'ipv6' : 'ipv4'));
}

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
