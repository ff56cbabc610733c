import { expect, test } from 'vitest';
import { fitsPattern } from '../../../src/core/name-pattern.ts';

test.each([
  ['get', 'get', true],
  ['get', 'get_a', false],
  ['get*', 'get', true],
  ['get*', 'get_a', true],
  ['get*', 'ge', false],
  ['*', '', true],
  ['*', 'any', true],
  ['', 'any', false],
])('whether the pattern %j fits the name %j: %s', (pattern, name, fits) => {
  expect(fitsPattern(pattern, name)).toBe(fits);
});
