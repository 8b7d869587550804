import { diffArrays, formatPatch, type StructuredPatchHunk } from 'diff';
import type { Splice } from './types.js';

const CONTEXT = 3;
/** Changes of more lines than this are shown as a whole: comparing two texts line by line takes the product of their lines. */
const MAX_COMPARED = 400;

/** Unified diff of two texts with three lines of context and full indentation; empty when they are equal. */
export function unifiedDiff(before: string, after: string, path: string): string {
  return before === after ? '' : diffOfSplices(before, after, [changedPart(before, after)], path);
}

/**
 * The same for a text whose changes are known: the time is linear in the text, however many they are. Splices are in
 * order and do not overlap. Hunks are left out behind the one with which the diff has more than `most` units.
 */
export function diffOfSplices(
  before: string,
  after: string,
  splices: readonly Splice[],
  path: string,
  most = Infinity,
): string {
  if (before === after) return '';
  const old = new LineIndex(before);
  const next = new LineIndex(after);
  const hunks: StructuredPatchHunk[] = [];
  let group: Change[] = [];
  let units = 0;
  for (const change of changedLines(old, next, splices)) {
    const last = group.at(-1);
    if (last !== undefined && change.oldFrom - last.oldTo > 2 * CONTEXT) {
      const hunk = hunkOf(old, next, group);
      hunks.push(hunk);
      group = [];
      for (const line of hunk.lines) units += line.length + 1;
      if (units > most) break;
    }
    group.push(change);
  }
  if (group.length > 0) hunks.push(hunkOf(old, next, group));
  return formatPatch(
    { oldFileName: `a/${path}`, newFileName: `b/${path}`, oldHeader: undefined, newHeader: undefined, hunks },
    { includeIndex: false, includeUnderline: false, includeFileHeaders: true },
  );
}

/** Old lines `[oldFrom, oldTo)` have become new lines `[newFrom, newTo)`; counted from 0. */
interface Change {
  oldFrom: number;
  oldTo: number;
  newFrom: number;
  newTo: number;
}

/** The lines of a text by their offsets. A line includes its line end. */
class LineIndex {
  readonly text: string;
  readonly count: number;
  private readonly starts: Uint32Array;

  constructor(text: string) {
    this.text = text;
    let count = text === '' || text.endsWith('\n') ? 0 : 1;
    for (let at = text.indexOf('\n'); at >= 0; at = text.indexOf('\n', at + 1)) count++;
    this.count = count;
    this.starts = new Uint32Array(count + 1);
    for (let i = 1, at = 0; i < count; i++) this.starts[i] = at = text.indexOf('\n', at) + 1;
    this.starts[count] = text.length;
  }

  line(index: number): string {
    return this.text.slice(this.starts[index], this.starts[index + 1]);
  }

  start(index: number): number {
    return this.starts[index]!;
  }

  /** How many lines begin before an offset. */
  beginBefore(offset: number): number {
    let low = 0;
    let high = this.count;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.starts[middle]! < offset) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

function* changedLines(old: LineIndex, next: LineIndex, splices: readonly Splice[]): Generator<Change> {
  let growth = 0;
  let open: Change | undefined;
  for (const { start, end, text } of splices) {
    // Whole lines, of both texts alike: what stands before the splice in its first line and behind it in its last.
    const oldFrom = lineAt(old, start);
    const newFrom = lineAt(next, start + growth);
    growth += text.length - (end - start);
    const whole = begins(old.text, end) && begins(next.text, end + growth);
    const found = whole ? end : old.text.indexOf('\n', end) + 1;
    const stop = found > 0 || whole ? found : old.text.length;
    const oldTo = old.beginBefore(stop);
    const newTo = next.beginBefore(stop + growth);
    if (open !== undefined && (oldFrom < open.oldTo || newFrom < open.newTo)) {
      // The last splice alone knows where its lines end in the new text.
      open.oldTo = oldTo;
      open.newTo = newTo;
      continue;
    }
    if (open !== undefined) yield* refined(old, next, open);
    open = { oldFrom, oldTo, newFrom, newTo };
  }
  if (open !== undefined) yield* refined(old, next, open);
}

const begins = (text: string, at: number) => at === 0 || text[at - 1] === '\n';

/** The line that an offset is in; behind the last line end it is the line that would begin there. */
const lineAt = (lines: LineIndex, offset: number) =>
  begins(lines.text, offset) ? lines.beginBefore(offset) : lines.beginBefore(offset) - 1;

/** What of a change differs, line by line where that is cheap. */
function* refined(old: LineIndex, next: LineIndex, { oldFrom, oldTo, newFrom, newTo }: Change): Generator<Change> {
  while (oldFrom < oldTo && newFrom < newTo && old.line(oldFrom) === next.line(newFrom)) {
    oldFrom++;
    newFrom++;
  }
  while (oldFrom < oldTo && newFrom < newTo && old.line(oldTo - 1) === next.line(newTo - 1)) {
    oldTo--;
    newTo--;
  }
  if (oldFrom === oldTo && newFrom === newTo) return;
  if (oldTo - oldFrom > MAX_COMPARED || newTo - newFrom > MAX_COMPARED) {
    yield { oldFrom, oldTo, newFrom, newTo };
    return;
  }
  const removed = Array.from({ length: oldTo - oldFrom }, (_, i) => old.line(oldFrom + i));
  const added = Array.from({ length: newTo - newFrom }, (_, i) => next.line(newFrom + i));
  let change: Change | undefined;
  let o = oldFrom;
  let n = newFrom;
  for (const part of diffArrays(removed, added)) {
    const { length } = part.value;
    if (!part.added && !part.removed) {
      if (change !== undefined) yield change;
      change = undefined;
      o += length;
      n += length;
      continue;
    }
    change ??= { oldFrom: o, oldTo: o, newFrom: n, newTo: n };
    if (part.removed) change.oldTo = o += length;
    else change.newTo = n += length;
  }
  if (change !== undefined) yield change;
}

function hunkOf(old: LineIndex, next: LineIndex, changes: readonly Change[]): StructuredPatchHunk {
  const first = changes[0]!;
  const head = Math.min(CONTEXT, first.oldFrom);
  const oldStart = first.oldFrom - head;
  const newStart = first.newFrom - head;
  const lines: string[] = [];
  let [oldLines, newLines] = [0, 0];
  const put = (mark: ' ' | '-' | '+', line: string) => {
    if (mark !== '+') oldLines++;
    if (mark !== '-') newLines++;
    const whole = line.endsWith('\n');
    lines.push(mark + (whole ? line.slice(0, -1) : line));
    if (!whole) lines.push('\\ No newline at end of file');
  };
  let at = oldStart;
  const context = (to: number) => {
    while (at < to) put(' ', old.line(at++));
  };
  for (const { oldFrom, oldTo, newFrom, newTo } of changes) {
    context(oldFrom);
    while (at < oldTo) put('-', old.line(at++));
    for (let i = newFrom; i < newTo; i++) put('+', next.line(i));
  }
  context(Math.min(old.count, at + CONTEXT));
  return { oldStart: oldStart + 1, oldLines, newStart: newStart + 1, newLines, lines };
}

/** What lies between the common start and end of two texts, as one splice. */
function changedPart(before: string, after: string): Splice {
  const shorter = Math.min(before.length, after.length);
  let start = 0;
  while (start < shorter && before.charCodeAt(start) === after.charCodeAt(start)) start++;
  let end = 0;
  while (
    end < shorter - start &&
    before.charCodeAt(before.length - 1 - end) === after.charCodeAt(after.length - 1 - end)
  )
    end++;
  return { start, end: before.length - end, text: after.slice(start, after.length - end) };
}
