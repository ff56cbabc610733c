import type { Reporter, TestModule } from 'vitest/node';

/** Closes a run with one plain line, `N passed, N failed`, whatever else was printed before it. */
export default class ClosingLine implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], unhandledErrors: readonly unknown[]): void {
    let passed = 0;
    let skipped = 0;
    let failed = unhandledErrors.length;
    for (const module of modules) {
      let failedInModule = 0;
      for (const test of module.children.allTests()) {
        const { state } = test.result();
        if (state === 'passed') passed += 1;
        else if (state === 'failed') failedInModule += 1;
        else skipped += 1;
      }
      // A file that could not be loaded, or whose hooks failed, has no failed test of its own.
      failed += failedInModule === 0 && module.state() === 'failed' ? 1 : failedInModule;
    }
    process.stdout.write(
      `\n${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ''}\n`,
    );
  }
}
