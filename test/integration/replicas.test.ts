import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { type ClosableLine, linesTo } from '../chaos/database.ts';
import { runReplicas } from '../chaos/replicas-loop.ts';
import { describeWithPostgres, type TestDatabase } from '../support/postgres.ts';

describeWithPostgres('two replicas on one database (RL-11)', (server) => {
  let folder: string;
  let database: TestDatabase;
  let lines: readonly ClosableLine[];
  beforeEach(async () => {
    folder = mkdtempSync(join(tmpdir(), 'callgate-replicas-'));
    database = await server.createDatabase();
    lines = await linesTo(database.url, 2);
  });
  afterEach(async () => {
    await Promise.all(lines.map((line) => line.close()));
    await database.drop();
    rmSync(folder, { recursive: true, force: true });
  });

  // `npm run chaos -- --replicas` does the same with many more calls; docs/reliability.md has its figures.
  test('a call that is posted to both runs once, whatever becomes of either', {
    timeout: 240_000,
  }, async () => {
    const seed = Date.now() % 1_000_000;
    const report = await runReplicas({
      folder,
      seed,
      calls: 250,
      lines,
      pauseMs: 18_000,
      faultsMin: 1,
      concurrency: 24,
    });
    const found = { seed, violations: report.violations, surprises: report.surprises };
    expect(found).toEqual({ seed, violations: [], surprises: [] });
    expect(report.effects).toBeGreaterThan(100);
  });
});
