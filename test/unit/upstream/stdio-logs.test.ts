import { expect, test } from 'vitest';
import type { EventFields } from '../../../src/core/events.ts';
import { createRedactor } from '../../../src/core/redact.ts';
import { LimitedLog } from '../../../src/upstream/limited-log.ts';
import { StderrTail } from '../../../src/upstream/stdio/stderr-tail.ts';

test('each event is logged ten times a second, and the rest is counted in the next line or at the end', () => {
  let nowMs = 0;
  const lines: [string, EventFields][] = [];
  const add = (event: string, fields: EventFields): void => void lines.push([event, fields]);
  const limited = new LimitedLog({ info: add, warn: add, error: add }, () => nowMs);
  let made = 0;
  const fields = (): EventFields => {
    made += 1;
    return { server: 'a' };
  };
  for (let round = 0; round < 15; round += 1) limited.write('warn', 'noise', fields);
  limited.write('info', 'other', fields);
  expect(lines).toHaveLength(11);
  // What is not logged is not formatted either.
  expect(made).toBe(11);
  nowMs = 1_000;
  for (let round = 0; round < 12; round += 1) limited.write('warn', 'noise', fields);
  expect(lines[11]).toEqual(['noise', { server: 'a', suppressed: 5 }]);
  expect(lines[12]).toEqual(['noise', { server: 'a' }]);
  limited.flush({ server: 'a' });
  expect(lines.at(-1)).toEqual(['noise', { server: 'a', suppressed: 2 }]);
  expect(lines).toHaveLength(22);
});

function tail(secret = 'hunter2-hunter2') {
  const seen: string[] = [];
  return { tail: new StderrTail(createRedactor([secret]), (show) => seen.push(show())), seen };
}

test('lines of stderr are put together from chunks, redacted and made printable', () => {
  const { tail: stderr, seen } = tail();
  const bytes = Buffer.from('first\r\n\n\u001b[31mkey hunter2-hunter2 für\nrest');
  for (const byte of bytes) stderr.push(Buffer.from([byte]));
  expect(stderr.lines()).toEqual(['first', '[31mkey [redacted] für']);
  stderr.end();
  expect(seen).toEqual(['first', '[31mkey [redacted] für', 'rest']);
});

test('megabytes without a line feed and endless lines keep the tail of stderr small', () => {
  const { tail: stderr } = tail();
  for (let round = 0; round < 100; round += 1) stderr.push(Buffer.alloc(65_536, 'e'));
  stderr.push(Buffer.from('\nlast of the flood\n'));
  expect(stderr.lines()[0]).toHaveLength(2_000);
  expect(stderr.lines().at(-1)).toBe('last of the flood');
  for (let round = 0; round < 10_000; round += 1) stderr.push(Buffer.from(`line ${round}\n`));
  expect(stderr.lines().join('').length).toBeLessThanOrEqual(32_768);
  expect(stderr.lines().at(-1)).toBe('line 9999');
});

test('a secret that hidden characters split is redacted, and so is one that a cut leaves half of', () => {
  const { tail: stderr } = tail();
  stderr.push(Buffer.from(`key ${[...'hunter2-hunter2'].join('\u200b')}\n`));
  stderr.push(Buffer.from(`${'\u200b'.repeat(10_185)}hunter2-hunter2\n`));
  expect(stderr.lines()[0]).toBe('key [redacted]');
  expect(stderr.lines().join()).not.toContain('hunter');
});

test('a flood of short lines costs little, and only the last of them are kept', () => {
  const shown: string[] = [];
  let lines = 0;
  let redactions = 0;
  const redact = (text: string): string => {
    redactions += 1;
    return text;
  };
  const stderr = new StderrTail(redact, (show) => {
    lines += 1;
    if (lines === 1) shown.push(show());
  });
  for (let round = 0; round < 20; round += 1) stderr.push(Buffer.from('a\n'.repeat(32_768)));
  expect(lines).toBe(20 * 32_768);
  expect(redactions).toBeLessThan(10);
  expect(stderr.lines()).toHaveLength(200);
  expect(shown).toEqual(['a']);
});

test('no piece of a secret is left where a long line is cut', () => {
  for (let before = 1_900; before <= 2_000; before += 1) {
    const { tail: stderr } = tail();
    stderr.push(Buffer.from(`${'x'.repeat(before)}hunter2-hunter2${'y'.repeat(5_000)}\n`));
    expect(stderr.lines()[0]).not.toContain('hunter');
  }
});
