import { BlockList, isIP } from 'node:net';
import { bareHost, isLoopbackHost } from './hosts.ts';

/** The IPv6 prefixes under which an IPv4 address goes: mapped, compatible, translated (RFC 6052, 2765). */
const carriers = ['::ffff:', '::', '::ffff:0:', '64:ff9b::', '64:ff9b:1::'] as const;

/** Adds an IPv4 network, and the IPv6 addresses that lead to it, 6to4 included. */
function addIpv4(list: BlockList, address: string, prefix: number): void {
  list.addSubnet(address, prefix);
  for (const carrier of carriers) list.addSubnet(carrier + address, 96 + prefix, 'ipv6');
  const [a = 0, b = 0, c = 0, d = 0] = address.split('.').map(Number);
  const sixToFour = `2002:${(a * 256 + b).toString(16)}:${(c * 256 + d).toString(16)}::`;
  list.addSubnet(sixToFour, 16 + prefix, 'ipv6');
}

/** Link-local networks, and the fixed addresses and networks at which clouds hand credentials to machines (MT-8). */
const metadata = new BlockList();
metadata.addSubnet('fe80::', 10, 'ipv6');
metadata.addSubnet('fd00:ec2::', 32, 'ipv6');
metadata.addAddress('fd20:ce::254', 'ipv6');
addIpv4(metadata, '169.254.0.0', 16);
addIpv4(metadata, '100.100.100.200', 32);
addIpv4(metadata, '192.0.0.192', 32);

const metadataNames = new Set([
  'metadata',
  'metadata.google.internal',
  'instance-data',
  'instance-data.ec2.internal',
]);

/** Networks that are not the public internet (IANA special-purpose registries). */
const special = new BlockList();
const specialIpv4 = [
  ...[['0.0.0.0', 8] as const, ['10.0.0.0', 8] as const, ['100.64.0.0', 10] as const],
  ...[['127.0.0.0', 8] as const, ['169.254.0.0', 16] as const, ['172.16.0.0', 12] as const],
  ...[['192.0.0.0', 24] as const, ['192.0.2.0', 24] as const, ['192.88.99.0', 24] as const],
  ...[['192.168.0.0', 16] as const, ['198.18.0.0', 15] as const, ['198.51.100.0', 24] as const],
  ...[['203.0.113.0', 24] as const, ['224.0.0.0', 4] as const, ['240.0.0.0', 4] as const],
];
for (const [address, prefix] of specialIpv4) addIpv4(special, address, prefix);
special.addSubnet('2001::', 23, 'ipv6');
special.addSubnet('2001:db8::', 32, 'ipv6');
special.addSubnet('3fff::', 20, 'ipv6');

/** All of IPv6 that is public, save what `special` takes out of it: global unicast, and IPv4 behind NAT64. */
const publicIpv6 = new BlockList();
publicIpv6.addSubnet('2000::', 3, 'ipv6');
publicIpv6.addSubnet('64:ff9b::', 96, 'ipv6');

const contains = (list: BlockList, address: string): boolean =>
  list.check(address, isIP(address) === 6 ? 'ipv6' : 'ipv4');

/** Whether a host is one that no URL may name: link-local, or a cloud's metadata service. */
export function isMetadataHost(host: string): boolean {
  const name = bareHost(host);
  return metadataNames.has(name) || (isIP(name) !== 0 && contains(metadata, name));
}

/** Whether an IP address belongs to the public internet. */
export const isPublicAddress = (address: string): boolean =>
  !contains(special, address) && (isIP(address) === 4 || contains(publicIpv6, address));

/** Who wrote a URL decides where it may lead (MT-8): the operator, or a server that it was found out from. */
export interface AddressRules {
  readonly writtenBy: 'operator' | 'discovered';
  /** Whether a discovered URL may be one of this machine, since the operator's own URL is. */
  readonly allowLoopback: boolean;
}

/** Whether a connection to `host` may go to this one of its addresses. */
export function isAddressAllowed(host: string, address: string, rules: AddressRules): boolean {
  if (isMetadataHost(address)) return false;
  if (rules.writtenBy === 'operator') return true;
  // A foreign name must not lead to this machine, whatever its own name may do.
  if (rules.allowLoopback && isLoopbackHost(host)) return isLoopbackHost(address);
  return isPublicAddress(address);
}
