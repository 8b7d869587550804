import { readFileSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { Source } from './edit-trials.ts';

const ROOT = join(import.meta.dirname, '../..');
const ENDINGS = /\.(ts|mts|js|mjs|py|go|rs|java|c|h|sh|json|yaml|yml|toml|md|css|html|sql|proto|tex|ini|conf|tpl)$/;
const LEFT_OUT = new Set(['node_modules', 'dist', 'gen', '.git', '.nx', '.yard', 'coverage']);
/** At most so many files of one ending: most of the repository is TypeScript. */
const PER_ENDING = 60;

/** Files to draw edits from: the repository's own, and the files of the edit cases for languages it has none of. */
export function sources(): Source[] {
  const found: Source[] = [];
  const cases = JSON.parse(readFileSync(join(ROOT, 'test/cases/edits/edits.json'), 'utf8')) as {
    path: string;
    content: string | null;
  }[];
  const seen = new Set<string>();
  for (const { path, content } of cases) {
    if (
      content === null ||
      content.includes('\r') ||
      content.includes('\ufeff') ||
      seen.has(content) ||
      content.split('\n').length < 8
    )
      continue;
    seen.add(content);
    found.push({ path, content });
  }
  const counts = new Map<string, number>();
  walk(ROOT, (path) => {
    const ending = ENDINGS.exec(path)?.[1];
    if (ending === undefined || (counts.get(ending) ?? 0) >= PER_ENDING) return;
    const size = statSync(path).size;
    if (size < 300 || size > 40_000) return;
    const content = readFileSync(path, 'utf8');
    if (content.includes('\r') || content.includes('\ufffd') || content.split('\n').length < 12) return;
    counts.set(ending, (counts.get(ending) ?? 0) + 1);
    found.push({ path: path.slice(ROOT.length + 1), content });
  });
  return found;
}

function walk(directory: string, visit: (path: string) => void): void {
  for (const entry of readdirSync(directory, { withFileTypes: true }).sort((a, b) => (a.name < b.name ? -1 : 1))) {
    if (LEFT_OUT.has(entry.name)) continue;
    const path = join(directory, entry.name);
    if (entry.isDirectory()) walk(path, visit);
    else if (entry.isFile()) visit(path);
  }
}
