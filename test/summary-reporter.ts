import type { Reporter, TestModule } from 'vitest/node';

/** Prints the one closing line that people and machines read: `N passed, N failed, N skipped`. */
export default class SummaryReporter implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], errors: readonly unknown[]): void {
    const count = { passed: 0, failed: 0, skipped: 0 };
    for (const module of modules) {
      let tests = 0;
      for (const test of module.children.allTests()) {
        tests++;
        const { state } = test.result();
        if (state === 'passed') count.passed++;
        else if (state === 'skipped') count.skipped++;
        else count.failed++; // a test that never ran because the run broke off is not a pass
      }
      // A file that could not be loaded has no tests to count, and is a failure all the same.
      if (tests === 0 && module.state() === 'failed') count.failed++;
    }
    count.failed += errors.length;
    console.log(`${count.passed} passed, ${count.failed} failed, ${count.skipped} skipped`);
  }
}
