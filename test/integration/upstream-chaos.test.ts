import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { runTorment } from '../chaos/torment-loop.ts';

describe('servers are tormented while others are well', () => {
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'callgate-torment-'));
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  // `npm run chaos -- --servers` does the same for as long as one likes.
  test('the healthy never miss a beat, the others come back, and no process is left', {
    timeout: 120_000,
  }, async () => {
    const seed = Date.now() % 1_000_000;
    const report = await runTorment({ folder, seed, durationMs: 8_000 });
    console.info(`seed ${seed}: ${JSON.stringify(report)}`);
    expect({ seed, violations: report.violations }).toEqual({ seed, violations: [] });
    // A run that met no trouble has proved nothing.
    expect(report.starts).toBeGreaterThan(10);
    expect(report.answers.answered).toBeGreaterThan(10);
    expect(report.answers.connection_lost).toBeGreaterThan(0);
    expect(report.beats).toBeGreaterThan(50);
  });
});
