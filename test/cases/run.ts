// npm run -s cases -- SUITE FILE...: runs case files through the production code.
// Prints one JSON line per failed case, then `N passed, N failed, N skipped`; exit 0 only if none failed.
import { readFileSync } from 'node:fs';
import type { Suite } from './suite.ts';

const SUITES: Record<string, () => Promise<{ suite: Suite }>> = {
  render: () => import('./suites/render.ts'),
  search: () => import('./suites/search.ts'),
  'shell-attacks': () => import('./suites/shell-attacks.ts'),
  'shell-deps': () => import('./suites/shell-deps.ts'),
  validate: () => import('./suites/validate.ts'),
  'toolcalls-parse': () => import('./suites/toolcalls-parse.ts'),
  'toolcalls-results': () => import('./suites/toolcalls-results.ts'),
  edits: () => import('./suites/edits.ts'),
  ssrf: () => import('./suites/ssrf.ts'),
  'router-errors': () => import('./suites/router-errors.ts'),
  'router-responses': () => import('./suites/router-responses.ts'),
};

const [name, ...files] = process.argv.slice(2);
if (!name || !(name in SUITES) || files.length === 0) {
  console.error(`usage: npm run -s cases -- SUITE FILE...; suites: ${Object.keys(SUITES).join(', ')}`);
  process.exit(2);
}
const { suite } = await SUITES[name]!();
const total = { passed: 0, failed: 0, skipped: 0 };
for (const file of files) {
  let content: unknown;
  try {
    content = JSON.parse(readFileSync(file, 'utf8'));
  } catch (error) {
    console.error(`${file}: ${(error as Error).message}`);
    process.exit(2);
  }
  for await (const verdict of suite(content, file)) {
    if (verdict.skipped !== undefined) {
      total.skipped++;
      console.error(`skipped ${verdict.id}: ${verdict.skipped}`);
    } else if (verdict.ok) total.passed++;
    else {
      total.failed++;
      const { id, expected, got, why } = verdict;
      console.log(JSON.stringify({ id, ok: false, expected, got, why }));
    }
  }
}
console.log(`${total.passed} passed, ${total.failed} failed, ${total.skipped} skipped`);
process.exit(total.failed === 0 && total.passed > 0 ? 0 : 1);
