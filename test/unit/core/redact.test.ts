import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { createRedactor } from '../../../src/core/redact.ts';

describe('a redactor', () => {
  test('replaces every secret, wherever it stands', () => {
    const redact = createRedactor(['T3-token', 'K2=key']);
    expect(redact('Bearer T3-token, again T3-token; K2=key')).toBe(
      'Bearer [redacted], again [redacted]; [redacted]',
    );
  });

  test('knows secrets in JSON and in percent-encoding', () => {
    const redact = createRedactor(['a"b\\c', 'p w&1']);
    expect(redact(JSON.stringify({ secret: 'a"b\\c' }))).toBe('{"secret":"[redacted]"}');
    expect(redact('https://x/?q=p%20w%261')).toBe('https://x/?q=[redacted]');
  });

  test('takes the longer of two secrets, so that nothing of it is left over', () => {
    expect(createRedactor(['abc', 'abcdef'])('abcdef abc')).toBe('[redacted] [redacted]');
  });

  test('knows each line of a secret of several lines, but not short ones', () => {
    const redact = createRedactor(['-----BEGIN KEY-----\nMIIabcdef\r\nend\n']);
    expect(redact('bad line MIIabcdef at the end')).toBe('bad line [redacted] at the end');
    expect(redact('-----BEGIN KEY-----\nMIIabcdef\r\nend\n')).toBe('[redacted]');
  });

  test('reads no secret as a pattern', () => {
    expect(createRedactor(['.*', '(a'])('abc .* (a')).toBe('abc [redacted] [redacted]');
  });

  test('without secrets changes nothing', () => {
    expect(createRedactor([''])('text')).toBe('text');
    expect(createRedactor([])('text')).toBe('text');
  });

  test('leaves no secret in any text', () => {
    const secret = fc.string({ minLength: 4, maxLength: 12 }).filter((text) => !'[redacted]'.includes(text));
    fc.assert(
      fc.property(secret, fc.string(), fc.string(), (each, before, after) => {
        const redacted = createRedactor([each])(`${before}${each}${after}`);
        // What the replacement itself makes with its neighbours is no secret that was there.
        expect(redacted.replaceAll('[redacted]', '\u0000')).not.toContain(each);
      }),
    );
  });
});
