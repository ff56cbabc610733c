import { expect, test } from 'vitest';
import {
  type AddressRules,
  isAddressAllowed,
  isMetadataHost,
  isPublicAddress,
} from '../../../src/core/addresses.ts';

const metadata = [
  '169.254.169.254',
  '169.254.0.1',
  '100.100.100.200',
  '192.0.0.192',
  'fe80::1',
  'febf::1',
  'fd00:ec2::254',
  'fd00:ec2::23',
  'fd20:ce::254',
  '::ffff:169.254.169.254',
  '::ffff:a9fe:a9fe',
  '::169.254.169.254',
  '64:ff9b::169.254.169.254',
  '64:ff9b:1::169.254.169.254',
  '2002:a9fe:a9fe::1',
];

const notPublic = [
  ...metadata,
  ...[
    '0.0.0.0',
    '0.1.2.3',
    '10.0.0.1',
    '100.64.0.1',
    '127.0.0.1',
    '127.1.2.3',
    '172.16.0.1',
    '172.31.255.255',
  ],
  ...['192.0.0.1', '192.0.2.1', '192.88.99.1', '192.168.1.1', '198.18.0.1', '198.19.255.255', '198.51.100.7'],
  ...['203.0.113.9', '224.0.0.1', '239.255.255.255', '240.0.0.1', '255.255.255.255'],
  ...['::', '::1', '::ffff:10.0.0.1', '::ffff:7f00:1', 'fc00::1', 'fdff::1', 'fec0::1', 'ff02::1'],
  ...['2001:db8::1', '2001::1', '2001:10::1', '3fff::1', '5f00::1', '100::1'],
  ...['64:ff9b::10.0.0.1', '2002:a00:1::', '2002:7f00:1::1'],
];

const open = [
  ...[
    '1.1.1.1',
    '8.8.8.8',
    '100.63.255.255',
    '100.128.0.1',
    '172.15.0.1',
    '172.32.0.1',
    '192.0.1.1',
    '198.20.0.1',
  ],
  ...['223.255.255.255', '2606:4700::1111', '2001:4860:4860::8888', '64:ff9b::8.8.8.8', '2002:808:808::1'],
];

test.each(metadata)('%s is where machines get their credentials', (address) => {
  expect(isMetadataHost(address)).toBe(true);
});

test.each([
  ['metadata.google.internal.', true],
  ['Metadata', true],
  ['[fe80::1]', true],
  ['metadata.example', false],
  ['localhost', false],
  ['10.0.0.1', false],
])('as a host, %s is one of those: %s', (host, expected) => {
  expect(isMetadataHost(host)).toBe(expected);
});

// What a URL makes of it: decimal, octal, hexadecimal and short spellings are one address once parsed.
test.each(['2852039166', '0251.0376.0251.0376', '0xa9fea9fe', '169.16689662', '[::ffff:a9fe:a9fe]'])(
  'http://%s/ leads there too',
  (host) => {
    expect(isMetadataHost(new URL(`http://${host}/`).hostname)).toBe(true);
  },
);

test.each(notPublic)('%s is not public', (address) => {
  expect(isPublicAddress(address)).toBe(false);
});

test.each(open)('%s is public', (address) => {
  expect(isPublicAddress(address)).toBe(true);
});

const operator: AddressRules = { writtenBy: 'operator', allowLoopback: false };
const discovered: AddressRules = { writtenBy: 'discovered', allowLoopback: false };
const discoveredHere: AddressRules = { writtenBy: 'discovered', allowLoopback: true };

test.each([
  ['an operator may name', 'tools.corp.example', '10.0.0.1', operator, true],
  ['an operator may name', 'localhost', '127.0.0.1', operator, true],
  ['not even an operator may name', 'tools.corp.example', '169.254.169.254', operator, false],
  ['nobody else may name', 'idp.example', '10.0.0.1', discovered, false],
  ['nobody else may name', 'localhost', '127.0.0.1', discovered, false],
  ['anybody may name', 'idp.example', '8.8.8.8', discovered, true],
  ['beside a server on loopback may be named', 'localhost', '127.0.0.1', discoveredHere, true],
  ['beside a server on loopback may be named', '::1', '::1', discoveredHere, true],
  ['a foreign name must not lead to', 'idp.example', '127.0.0.1', discoveredHere, false],
  ['localhost must not lead to', 'localhost', '8.8.8.8', discoveredHere, false],
])('%s %s at %s', (_who, host, address, rules, expected) => {
  expect(isAddressAllowed(host, address, rules)).toBe(expected);
});
