import { relative } from 'node:path';
import type { Reporter, TestCase, TestModule } from 'vitest/node';

/**
 * Prints, for every failed test, the command that runs it alone, and then the one closing line that people and machines
 * read: `N passed, N failed, N skipped`.
 */
export default class SummaryReporter implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], errors: readonly unknown[]): void {
    const count = { passed: 0, failed: 0, skipped: 0 };
    const commands: string[] = [];
    for (const module of modules) {
      let tests = 0;
      for (const test of module.children.allTests()) {
        tests++;
        const { state } = test.result();
        if (state === 'passed') count.passed++;
        else if (state === 'skipped') count.skipped++;
        else {
          count.failed++; // a test that never ran because the run broke off is not a pass
          commands.push(aloneCommand(module, test));
        }
      }
      // A file that could not be loaded has no tests to count, and is a failure all the same.
      if (tests === 0 && module.state() === 'failed') {
        count.failed++;
        commands.push(aloneCommand(module));
      }
    }
    count.failed += errors.length;
    for (const command of commands) console.log(`alone: ${command}`);
    console.log(`${count.passed} passed, ${count.failed} failed, ${count.skipped} skipped`);
  }
}

function aloneCommand(module: TestModule, test?: TestCase): string {
  const quote = (text: string) => `'${text.replaceAll("'", String.raw`'\''`)}'`;
  const file = relative(process.cwd(), module.moduleId);
  if (test === undefined) return `npm test -- ${file}`;
  // vitest takes a regular expression.
  const name = test.fullName.replace(/[.*+?^${}()|[\]\\]/g, String.raw`\$&`);
  return `npm test -- ${file} -t ${quote(name)}`;
}
