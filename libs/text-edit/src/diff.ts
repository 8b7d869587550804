import { formatPatch, structuredPatch } from 'diff';

const CONTEXT = 3;

/** Unified diff of two texts with three lines of context and full indentation; empty when they are equal. */
export function unifiedDiff(before: string, after: string, path: string): string {
  if (before === after) return '';
  // The diff sees only what lies between the common start and end, a few lines of context included: a large file with
  // a small edit costs no more than a small one.
  const { from, lines, tail } = commonEdges(before, after);
  const patch = structuredPatch(
    `a/${path}`,
    `b/${path}`,
    before.slice(from, before.length - tail),
    after.slice(from, after.length - tail),
    undefined,
    undefined,
    { context: CONTEXT },
  );
  for (const hunk of patch.hunks) {
    hunk.oldStart += lines;
    hunk.newStart += lines;
  }
  return formatPatch(patch, { includeIndex: false, includeUnderline: false, includeFileHeaders: true });
}

/** Units of common whole lines at the start, how many lines those are, and units of common whole lines at the end, each less the context. */
function commonEdges(before: string, after: string): { from: number; lines: number; tail: number } {
  const shorter = Math.min(before.length, after.length);
  let same = 0;
  while (same < shorter && before.charCodeAt(same) === after.charCodeAt(same)) same++;
  let from = same;
  for (let i = 0; i <= CONTEXT && from > 0; i++) from = before.lastIndexOf('\n', from - 1) + 1 || 0;
  if (from > 0 && before[from - 1] !== '\n') from = 0;
  let lines = 0;
  for (let at = before.indexOf('\n'); at >= 0 && at < from; at = before.indexOf('\n', at + 1)) lines++;
  let end = 0;
  while (
    end < shorter - same &&
    before.charCodeAt(before.length - 1 - end) === after.charCodeAt(after.length - 1 - end)
  )
    end++;
  let start = before.length - end;
  for (let i = 0; i <= CONTEXT && start < before.length; i++) start = nextLine(before, start);
  return { from, lines, tail: before.length - start };
}

function nextLine(text: string, from: number): number {
  const at = text.indexOf('\n', from);
  return at < 0 ? text.length : at + 1;
}
