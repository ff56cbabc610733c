import { expect, test } from 'vitest';
import { Declarations } from '../../../src/dispatch/declarations.ts';
import { formats } from '../../../src/formats/formats.ts';
import { inSlices } from '../../../src/in-slices.ts';
import { registryOf, tool } from '../../support/service.ts';
import { someone } from '../../support/upstream.ts';

const options = { strict: 'off', namespaces: false, defer: false } as const;
const filter = { servers: [], tools: [] };

test('one list is made at a time, whoever asks meanwhile, and one that fails holds up no other', async () => {
  const registry = registryOf([{ alias: 'lab', tools: [tool('a'), tool('b')] }]);
  let making = 0;
  let most = 0;
  let isBroken = true;
  const declarations = new Declarations({
    registry: () => registry,
    upstream: { hasListed: () => true } as never,
    aliases: ['lab'],
    inSlices: async (steps) => {
      making += 1;
      most = Math.max(most, making);
      await new Promise((resolve) => setImmediate(resolve));
      making -= 1;
      if (!isBroken) return inSlices(steps);
      isBroken = false;
      throw new Error('broken');
    },
  });
  const made = await Promise.allSettled(
    [...formats.values()].map(async (format) =>
      declarations.body(someone.actor, { format, options, filter }),
    ),
  );
  expect(most).toBe(1);
  expect(made.map(({ status }) => status)).toEqual(['rejected', ...Array(9).fill('fulfilled')]);
});
