import fc from 'fast-check';
import { expect, test } from 'vitest';
import { LineSplitter } from '../../../src/upstream/stdio/line-splitter.ts';

function collect(bytesMax: number) {
  const lines: string[] = [];
  const overflows: string[] = [];
  const oversize: { head: string; tail: string; bytes: number }[] = [];
  const splitter = new LineSplitter(bytesMax, {
    onLine: (line) => lines.push(line),
    onOverflow: (head) => overflows.push(head),
    onOversizeLine: (line) => oversize.push(line),
  });
  return { splitter, lines, overflows, oversize };
}

test('the lines are the same wherever the chunks are cut', () => {
  const line = fc.string({ unit: 'grapheme' }).map((text) => text.replaceAll('\n', ''));
  fc.assert(
    fc.property(fc.array(line), fc.array(fc.nat(20)), (lines, cuts) => {
      const collected = collect(10_000);
      let rest: Buffer = Buffer.from(lines.map((text) => `${text}\n`).join(''));
      for (const cut of cuts) {
        collected.splitter.push(rest.subarray(0, cut));
        rest = rest.subarray(cut);
      }
      collected.splitter.push(rest);
      collected.splitter.end();
      expect(collected.lines).toEqual(lines.map((text) => Buffer.from(text).toString()));
    }),
  );
});

test('exactly the lines over the limit are dropped, wherever the chunks are cut', () => {
  fc.assert(
    fc.property(fc.array(fc.nat(30)), fc.array(fc.nat(20)), (lengths, cuts) => {
      const collected = collect(10);
      let rest: Buffer = Buffer.from(lengths.map((length) => `${'x'.repeat(length)}\n`).join(''));
      for (const cut of cuts) {
        collected.splitter.push(rest.subarray(0, cut));
        rest = rest.subarray(cut);
      }
      collected.splitter.push(rest);
      expect(collected.lines.map((text) => text.length)).toEqual(lengths.filter((length) => length <= 10));
      const over = lengths.filter((length) => length > 10);
      expect(collected.oversize.map(({ bytes }) => bytes)).toEqual(over);
      expect(collected.overflows).toHaveLength(over.length);
    }),
  );
});

test('of a line over the limit the edges are told, the head as soon as the limit is passed', () => {
  const { splitter, overflows, oversize } = collect(1_000);
  splitter.push(Buffer.from(`{"id":7,${'x'.repeat(600)}`));
  expect(overflows).toEqual([]);
  splitter.push(Buffer.from('x'.repeat(600)));
  expect(overflows[0]).toMatch(/^\{"id":7,x+$/);
  for (const byte of 'the end}\nnext') splitter.push(Buffer.from(byte));
  expect(oversize[0]?.head).toBe(overflows[0]);
  expect(oversize[0]?.tail).toMatch(/^x+the end\}$/);
  expect(oversize[0]?.tail).toHaveLength(256);
});

test('an endless line takes no more memory than the limit', () => {
  const { splitter } = collect(1_048_576);
  const chunk = Buffer.alloc(65_536, 'x');
  const before = process.memoryUsage().arrayBuffers;
  for (let round = 0; round < 2_000; round += 1) splitter.push(chunk);
  expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(16 * 1_048_576);
});

test('what stands after the last line feed is handed out at the end', () => {
  const { splitter, lines } = collect(100);
  splitter.push(Buffer.from('one\ntwo'));
  expect(lines).toEqual(['one']);
  splitter.end();
  expect(lines).toEqual(['one', 'two']);
});
