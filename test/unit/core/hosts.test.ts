import { describe, expect, test } from 'vitest';
import { isLoopbackHost } from '../../../src/core/hosts.ts';

describe('this machine', () => {
  test.each(['localhost', 'LOCALHOST.', '127.0.0.1', '127.9.8.7', '::1', '[::1]', '0:0:0:0:0:0:0:1'])(
    'is %s',
    (host) => {
      expect(isLoopbackHost(host)).toBe(true);
    },
  );

  test.each([
    'a.localhost',
    'localhost.example',
    '127.0.0.1.example',
    '128.0.0.1',
    '::2',
    '[::',
    '0.0.0.0',
    '',
  ])('is not %j', (host) => {
    expect(isLoopbackHost(host)).toBe(false);
  });
});
