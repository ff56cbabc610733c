import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { runKillLoop } from '../chaos/kill-loop.ts';

describe('the whole service is killed under load, again and again (RL-1)', () => {
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'callgate-chaos-'));
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  // `npm run chaos` does the same for a thousand rounds; docs/reliability.md has its figures.
  test('no write runs twice, and every call gets the one answer that is true', async () => {
    const seed = Date.now() % 1_000_000;
    const report = await runKillLoop({ folder, rounds: 10, seed, concurrency: 16 });
    const found = { seed, violations: report.violations, surprises: report.surprises };
    expect(found).toEqual({ seed, violations: [], surprises: [] });
    // A run that met no trouble has proved nothing.
    expect(report.postsBroken).toBeGreaterThan(0);
    expect(report.answers['unknown (interrupted), replayed']).toBeGreaterThan(0);
    expect(report.effects).toBeGreaterThan(50);
  });
});
