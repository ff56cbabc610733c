import { closeSync, openSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { createRedactor } from '../../src/core/redact.ts';
import { LineSink } from '../../src/telemetry/line-sink.ts';
import { until } from '../support/until.ts';

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

const nextTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** Holds the event loop until something is so that others bring about. */
function blockUntil(isSo: () => boolean): void {
  const patience = Date.now() + 10_000;
  while (!isSo() && Date.now() < patience) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1);
}

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

  test('writes a line that must not be lost without any further turn of the event loop', async () => {
    const sink = new LineSink((text) => text, descriptor);
    sink.write('waits\n');
    for (let number = 0; number < 3; number += 1) sink.writeSoon(`soon ${number}\n`);
    expect(written()).toEqual([]);
    await nextTurn();
    // What a process gets to do that is killed, or hangs, in this moment.
    blockUntil(() => written().length === 4);
    expect(written()).toEqual(['waits', 'soon 0', 'soon 1', 'soon 2']);
  });

  test('never keeps back a line that came while others were being written, or were too many', async () => {
    const sink = new LineSink((text) => text, descriptor);
    const expected: string[] = [];
    for (let round = 0; round < 50; round += 1) {
      for (const text of [`first ${round}`, `second ${round}`, 'x'.repeat(round === 25 ? 70_000 : 10)]) {
        expected.push(text);
        sink.writeSoon(`${text}\n`);
      }
      if (round % 3 === 0) await nextTurn();
    }
    await until(() => written().length === expected.length);
    sink.writeSoon('one more\n');
    await until(() => written().length === expected.length + 1);
    expect(written()).toEqual([...expected, 'one more']);
  });

  test('writes at its end what came while others were being written', async () => {
    const sink = new LineSink((text) => text, descriptor);
    sink.writeSoon('first\n');
    await nextTurn();
    sink.write('second\n');
    await sink.close();
    expect(written()).toEqual(['first', 'second']);
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
