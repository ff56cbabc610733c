import { BlockList, isIP } from 'node:net';
import { fail, ok, type Result } from '../core/result.ts';
import type { Address } from './configuration.ts';

const loopback = new BlockList();
loopback.addSubnet('127.0.0.0', 8);
loopback.addAddress('::1', 'ipv6');

/** Link-local networks, and the fixed addresses at which clouds hand credentials to machines (MT-8). */
const metadata = new BlockList();
metadata.addSubnet('169.254.0.0', 16);
metadata.addSubnet('fe80::', 10, 'ipv6');
metadata.addSubnet('64:ff9b::a9fe:0', 112, 'ipv6');
metadata.addAddress('fd00:ec2::254', 'ipv6');
metadata.addAddress('100.100.100.200');
metadata.addAddress('192.0.0.192');
const metadataNames = new Set([
  'metadata',
  'metadata.google.internal',
  'instance-data',
  'instance-data.ec2.internal',
]);

const bare = (host: string): string =>
  host
    .replace(/^\[|\]$/g, '')
    .replace(/\.$/, '')
    .toLowerCase();

const isIn = (list: BlockList, address: string): boolean => {
  const version = isIP(address);
  return version !== 0 && list.check(address, version === 6 ? 'ipv6' : 'ipv4');
};

/** Whether a host, as a URL or an address writes it, is this machine whatever the network looks like. */
export function isLoopback(host: string): boolean {
  const name = bare(host);
  return name === 'localhost' || name.endsWith('.localhost') || isIn(loopback, name);
}

/** Whether a host is one that no configured URL may name: link-local, or a cloud's metadata service. */
function isMetadataHost(host: string): boolean {
  const name = bare(host);
  return metadataNames.has(name) || isIn(metadata, name);
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
