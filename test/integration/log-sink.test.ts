import { closeSync, openSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { createRedactor } from '../../src/core/redact.ts';
import { LineSink } from '../../src/telemetry/line-sink.ts';

const file = join(tmpdir(), `callgate-sink-${process.pid}.log`);
let descriptor: number;

beforeEach(() => {
  descriptor = openSync(file, 'w');
});

afterEach(() => {
  closeSync(descriptor);
  rmSync(file, { force: true });
});

const written = (): string[] => readFileSync(file, 'utf8').split('\n').slice(0, -1);

describe('the sink of log lines', () => {
  test('writes every line once and in order, whatever the batches', async () => {
    const sink = new LineSink((text) => text, descriptor);
    const lines = Array.from({ length: 5_000 }, (_, number) => `{"n":${number}}`);
    for (const line of lines) sink.write(`${line}\n`);
    await sink.close();
    expect(written()).toEqual(lines);
  });

  test('lets no secret through, and no character that ends a line or commands a terminal (O24)', async () => {
    const sink = new LineSink(createRedactor(['s3cret-value']), descriptor);
    sink.write(`${JSON.stringify({ text: 'a s3cret-value \u009b2J \u2028 \u0085 \n b' })}\n`);
    await sink.close();
    expect(written()).toHaveLength(1);
    expect(written()[0]).toBe('{"text":"a [redacted] \\u009b2J \\u2028 \\u0085 \\n b"}');
  });

  test('writes what waits at once when the process has no time left', () => {
    const sink = new LineSink((text) => text, descriptor);
    sink.write('last words\n');
    sink.flushNow();
    expect(written()).toEqual(['last words']);
  });

  test('loses lines on a full disk, and neither throws nor waits', async () => {
    const full = openSync('/dev/full', 'w');
    try {
      const sink = new LineSink((text) => text, full);
      for (let number = 0; number < 2_000; number += 1) sink.write(`line ${number} ${'x'.repeat(100)}\n`);
      await sink.close();
      sink.write('one more\n');
      sink.flushNow();
    } finally {
      closeSync(full);
    }
  });
});
