import { Writable } from 'node:stream';
import { expect, test } from 'vitest';
import { BatchWriter, NotSentError } from '../../../src/upstream/stdio/batch-writer.ts';

/** A stream whose writes the test ends one by one. */
function stream() {
  const writes: string[] = [];
  const ends: (() => void)[] = [];
  const writable = new Writable({
    decodeStrings: false,
    write: (text: string, _encoding, done) => {
      writes.push(text);
      ends.push(done);
    },
  });
  return { writable, writes, endOne: () => ends.shift()?.() };
}

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

function sender() {
  const told: unknown[] = [];
  return {
    told,
    onSent: () => void told.push('sent'),
    onUnsent: (error: unknown) => void told.push(error),
  };
}

test('the messages of one turn are one write, and those that come while it lasts are the next one', async () => {
  const { writable, writes, endOne } = stream();
  const writer = new BatchWriter(writable);
  const first = sender();
  writer.write('a', first);
  writer.write('b', undefined);
  expect(writes).toEqual([]);
  await turn();
  expect(writes).toEqual(['ab']);
  expect(first.told).toEqual(['sent']);
  const second = sender();
  for (const text of ['c', 'd', 'e']) writer.write(text, second);
  await turn();
  expect(writes).toEqual(['ab']);
  expect(second.told).toEqual([]);
  endOne();
  await turn();
  expect(writes).toEqual(['ab', 'cde']);
  expect(second.told).toEqual(['sent', 'sent', 'sent']);
});

test('what waits at the end, and all that comes after it, was provably not sent', async () => {
  const { writable, writes } = stream();
  const writer = new BatchWriter(writable);
  const [written, waiting, late] = [sender(), sender(), sender()];
  writer.write('a', written);
  await turn();
  writer.write('b', waiting);
  writer.end('it is over');
  writer.write('c', late);
  await turn();
  expect(writes).toEqual(['a']);
  expect(written.told).toEqual(['sent']);
  for (const { told } of [waiting, late]) {
    expect(told).toEqual([expect.any(NotSentError)]);
    expect((told[0] as Error).message).toBe('it is over');
  }
});

test('a stream that has broken takes nothing any more', async () => {
  const { writable, writes } = stream();
  writable.on('error', () => {});
  const writer = new BatchWriter(writable);
  const lost = sender();
  writer.write('a', lost);
  writable.destroy(new Error('EPIPE'));
  await turn();
  expect(writes).toEqual([]);
  expect(lost.told).toEqual([expect.any(NotSentError)]);
});

test('what a reader that does not read lets pile up is bounded', async () => {
  const { writable, writes } = stream();
  const writer = new BatchWriter(writable);
  writer.write('first', undefined);
  await turn();
  const [fits, over] = [sender(), sender()];
  const half = 'x'.repeat(40_000_000);
  writer.write(half, fits);
  writer.write(half, over);
  expect(writes).toEqual(['first']);
  expect(fits.told).toEqual([]);
  expect(over.told).toEqual([expect.any(NotSentError)]);
});
