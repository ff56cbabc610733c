import { expect, test } from 'vitest';
import { createRedactor } from '../../../src/core/redact.ts';
import { shown } from '../../../src/upstream/shown.ts';

const redact = createRedactor(['hunter2-hunter2', 'first\nsecond']);
const split = [...'hunter2-hunter2'].join('\u200b');

test('secrets are found in what is told, whichever hidden characters were put between their letters', () => {
  expect(shown(`a hunter2-hunter2 b ${split} c first\nsecond d`, redact, 200)).toBe(
    'a [redacted] b [redacted] c [redacted] d',
  );
});

test('a cut leaves no piece of a secret, wherever it falls', () => {
  for (let before = 0; before < 9_000; before += 23) {
    for (const filler of ['x', '\u200b']) {
      const told = shown(`${filler.repeat(before)}${split}${'y'.repeat(9_000)}`, redact, 200);
      expect(told).not.toContain('hunter');
      expect(told.length).toBeLessThanOrEqual(200);
    }
  }
});

test('a text that fits stays whole', () => {
  expect(shown(' plain words\n', redact, 200)).toBe('plain words');
});
