import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import {
  EventStream,
  EventTooLarge,
  type OversizeEvent,
  type ServerEvent,
} from '../../../src/upstream/http/event-stream.ts';

function read(chunks: readonly Buffer[], charsMax = 1_000_000): ServerEvent[] {
  const events: ServerEvent[] = [];
  const stream = new EventStream(charsMax, { onEvent: (event) => void events.push(event) });
  for (const chunk of chunks) stream.push(chunk);
  return events;
}

const nothing = { id: undefined, type: 'message', retryMs: undefined };

test('fields, comments and several lines of data are read', () => {
  const text =
    ': hello\nevent: note\nid: 7\nretry: 20\ndata: one\ndata:two\ndata\nother: x\n\ndata: unfinished';
  expect(read([Buffer.from(text)])).toEqual([{ id: '7', type: 'note', retryMs: 20, data: 'one\ntwo\n' }]);
});

test('an event with an id alone counts, one with nothing does not', () => {
  expect(read([Buffer.from('id: a\ndata:\n\n\n\nid\n\n')])).toEqual([
    { ...nothing, id: 'a', data: '' },
    { ...nothing, id: '', data: '' },
  ]);
});

test('lines that carry nothing are told one by one', () => {
  const told: string[] = [];
  const stream = new EventStream(1_000, {
    onEvent: ({ data }) => void told.push(data),
    onNothing: () => void told.push('nothing'),
  });
  stream.push(Buffer.from(': a comment\ndata: one\n\n\nevent: none\n\n'));
  expect(told).toEqual(['nothing', 'one', 'nothing', 'nothing']);
});

test('the same events come out however the bytes are cut, and whichever line ends are used', () => {
  const data = ['grüße 🙂', 'a'.repeat(50), '{"x":1}'];
  fc.assert(
    fc.property(
      fc.constantFrom('\n', '\r\n', '\r'),
      fc.array(fc.integer({ min: 1, max: 12 }), { minLength: 1, maxLength: 40 }),
      (end, sizes) => {
        const bytes = Buffer.from(data.map((text) => `data: ${text}${end}${end}`).join(''));
        const chunks: Buffer[] = [];
        for (let at = 0, n = 0; at < bytes.length; n += 1) {
          const size = sizes[n % sizes.length] ?? 1;
          chunks.push(bytes.subarray(at, at + size));
          at += size;
        }
        expect(read(chunks).map((event) => event.data)).toEqual(data);
      },
    ),
  );
});

test('an event over the bound is refused, in one line or in many, finished or not', () => {
  expect(() => read([Buffer.from(`data: ${'x'.repeat(200)}`)], 100)).toThrow(EventTooLarge);
  expect(() => read([Buffer.from('data: xxxxxxxxxx\n'.repeat(20))], 100)).toThrow(EventTooLarge);
  // Lines without a value count too.
  expect(() => read([Buffer.from('data:\n'.repeat(200))], 100)).toThrow(EventTooLarge);
  expect(read([Buffer.from('data: xxxxxxxxxx\n\n'.repeat(20))], 100).length).toBe(20);
});

test('a long event is whole again that came in byte by byte, and in thousands of lines', () => {
  const lines = Array.from({ length: 10_000 }, (_, n) => String(n));
  const bytes = Buffer.from(
    `${lines.map((line) => `data:${line}\n`).join('')}\ndata:${'x'.repeat(9_000)}\n\n`,
  );
  const events = read(Array.from(bytes, (byte) => Buffer.from([byte])));
  expect(events.map(({ data }) => data)).toEqual([lines.join('\n'), 'x'.repeat(9_000)]);
});

test('an event over the bound is dropped where that is told, however the bytes are cut, and the rest goes on', () => {
  const long = `{"jsonrpc":"2.0","id":7,"result":"${'x'.repeat(3_000)}"}`;
  const lines = `data: ${long.slice(0, 1_000)}\ndata: ${long.slice(1_000)}`;
  const text = `data: a\n\nid: 5\ndata: ${long}\n\n${lines}\n\ndata: b\n\n`;
  fc.assert(
    fc.property(fc.constantFrom('\n', '\r\n', '\r'), fc.integer({ min: 1, max: 700 }), (end, size) => {
      const bytes = Buffer.from(text.replaceAll('\n', end));
      const events: string[] = [];
      const dropped: OversizeEvent[] = [];
      const stream = new EventStream(1_200, {
        onEvent: ({ data }) => void events.push(data),
        onOversize: (event) => void dropped.push(event),
      });
      for (let at = 0; at < bytes.length; at += size) stream.push(bytes.subarray(at, at + size));
      expect(events).toEqual(['a', 'b']);
      expect(dropped.map(({ head, tail }) => [head.slice(0, 24), tail.slice(-4)])).toEqual([
        [long.slice(0, 24), 'xx"}'],
        [long.slice(0, 24), 'xx"}'],
      ]);
    }),
  );
});

test('an unfinished event takes the room of its data, whatever stood beside that', () => {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  const heapBytes = (): number => {
    collect();
    return process.memoryUsage().heapUsed;
  };
  const stream = new EventStream(1_000_000, { onEvent: () => {} });
  const piece = Buffer.from(`:${'x'.repeat(60_000)}\ndata: no more than this\n`);
  const before = heapBytes();
  for (let n = 0; n < 1_000; n++) stream.push(piece);
  expect(heapBytes() - before).toBeLessThan(20_000_000);
  // Alive until here.
  stream.push(Buffer.from('\n'));
});
