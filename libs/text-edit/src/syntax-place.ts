import { alignBlanks, type Alignment, type Group } from './alignment.js';
import { compose, type Composed } from './compose.js';
import { isBlank } from './fold.js';
import { linesOf } from './lines.js';
import type { TextView } from './text-view.js';
import type { SyntaxPlace } from './types.js';

/** What the edit writes at a place with the same tokens, or the reason why it cannot. */
export function composeSyntax(view: TextView, place: SyntaxPlace, oldText: string, newText: string): Composed | string {
  const before = view.content.slice(view.starts[view.lineAt(place.start)]!, place.start);
  const lastLine = view.lineAt(Math.max(place.start, place.end - 1));
  const rest = view.content.slice(place.end, view.endOf(lastLine));
  const comment = place.fileComments.some((at) => at >= place.end);
  // Only the signs that formatters add may follow on the last line.
  if (!isBlank(before) || (!comment && !/^[\s,;]*$/.test(rest))) return inside(view, place, oldText, newText);
  const old = linesOf(oldText);
  const groups = groupLines(view, place, oldText);
  if (groups.length === 0) return 'the place has no lines of its own';
  const next = new Set(linesOf(newText).map((line) => line.trimEnd()));
  for (const group of groups) {
    // A comment on the file's line that old_string does not show would go with the line.
    const shown = count(place.oldComments, (at) => inRange(lineOf(oldText, at), group.oldFrom, group.oldTo));
    const there = count(place.fileComments, (at) => inRange(view.lineAt(at), group.fileFrom, group.fileTo));
    const changes = old.slice(group.oldFrom, group.oldTo).some((line) => !next.has(line.trimEnd()));
    if (there > shown && changes) return 'the lines to change hold a comment that old_string does not show';
  }
  const alignment: Alignment = alignBlanks(groups, old, view.lines);
  return compose(view, alignment, oldText, newText);
}

function inside(view: TextView, place: SyntaxPlace, oldText: string, newText: string): Composed | string {
  const text = newText.trim();
  if (oldText.trim().includes('\n') || text.includes('\n'))
    return 'the place is inside a line, and the edit has several lines';
  return { splice: { start: place.start, end: place.end, text }, reindented: false, contradictory: false };
}

/** Groups of old lines and file lines that hold the same tokens; comment lines between two groups pair up when as many. */
function groupLines(view: TextView, place: SyntaxPlace, oldText: string): Group[] {
  const groups: Group[] = [];
  let current: Group | undefined;
  for (const token of place.tokens) {
    const oldFrom = lineOf(oldText, token.oldStart);
    const oldTo = lineOf(oldText, Math.max(token.oldStart, token.oldEnd - 1)) + 1;
    const fileFrom = view.lineAt(token.fileStart);
    const fileTo = view.lineAt(Math.max(token.fileStart, token.fileEnd - 1)) + 1;
    if (current && (oldFrom < current.oldTo || fileFrom < current.fileTo)) {
      current.oldTo = Math.max(current.oldTo, oldTo);
      current.fileTo = Math.max(current.fileTo, fileTo);
    } else groups.push((current = { oldFrom, oldTo, fileFrom, fileTo, similarity: 1 }));
  }
  const all: Group[] = [];
  const commentLines = (positions: readonly number[], line: (at: number) => number, from: number, to: number) =>
    positions.map(line).filter((at) => inRange(at, from, to));
  groups.forEach((group, i) => {
    all.push(group);
    const next = groups[i + 1];
    if (!next) return;
    const own = commentLines(place.oldComments, (at) => lineOf(oldText, at), group.oldTo, next.oldFrom);
    const theirs = commentLines(place.fileComments, (at) => view.lineAt(at), group.fileTo, next.fileFrom);
    if (own.length === theirs.length)
      own.forEach((line, k) =>
        all.push({ oldFrom: line, oldTo: line + 1, fileFrom: theirs[k]!, fileTo: theirs[k]! + 1, similarity: 0.6 }),
      );
  });
  return all;
}

function lineOf(text: string, at: number): number {
  let line = 0;
  for (let i = text.indexOf('\n'); i >= 0 && i < at; i = text.indexOf('\n', i + 1)) line++;
  return line;
}

function inRange(value: number, from: number, to: number): boolean {
  return value >= from && value < to;
}

function count<T>(items: readonly T[], test: (item: T) => boolean): number {
  return items.filter(test).length;
}
