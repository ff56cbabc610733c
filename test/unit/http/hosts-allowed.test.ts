import { expect, test } from 'vitest';
import { hostsAllowed } from '../../../src/http/hosts-allowed.ts';

test.each(['127.0.0.1', '127.9.9.9', 'localhost', 'LOCALHOST', '::1', '0:0:0:0:0:0:0:1'])(
  'on the loopback address %s only names of this machine and of the public URL are served (MT-15)',
  (host) => {
    const allowed = hostsAllowed(host, 'https://callgate.example.com/base');
    for (const name of ['localhost', '127.0.0.1', '[::1]', 'callgate.example.com']) {
      expect(allowed?.has(name)).toBe(true);
    }
    expect(allowed?.has('evil.example')).toBe(false);
  },
);

test('the address that is listened on may be named as well', () => {
  expect(hostsAllowed('127.9.9.9', undefined)?.has('127.9.9.9')).toBe(true);
});

test.each(['0.0.0.0', '::', '10.0.0.1', '127.example.com'])(
  'elsewhere than on loopback (%s) any name is served',
  (host) => {
    expect(hostsAllowed(host, undefined)).toBeUndefined();
  },
);
