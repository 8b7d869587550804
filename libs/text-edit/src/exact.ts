import { diffArrays } from 'diff';
import type { Eol, TextView } from './text-view.js';
import type { Splice } from './types.js';

/** Offsets in `view.lf` of every occurrence, overlapping ones included. */
export function occurrences(text: string, part: string): number[] {
  const found: number[] = [];
  for (let at = text.indexOf(part); at >= 0; at = text.indexOf(part, at + 1)) found.push(at);
  return found;
}

/** The splice that puts `next` (LF) in the place of `old` (LF) at an offset of `view.lf`, with the line ends of the file. */
export function exactSplice(view: TextView, at: number, old: string, next: string): Splice {
  const start = view.rawOffset(at);
  const end = view.rawOffset(at + old.length);
  return { start, end, text: withLineEnds(view, at, old, next) };
}

function withLineEnds(view: TextView, at: number, old: string, next: string): string {
  if (!next.includes('\n')) return next;
  const first = view.lineOfLf(at);
  const oldLines = old.split('\n');
  const last = first + oldLines.length - 1;
  const fill = view.commonEol(first, last > first ? last : first + 1);
  const eols = new Set(oldLines.slice(0, -1).map((_, i) => view.eolOf(first + i)));
  if (eols.size <= 1) return fill === '\n' ? next : next.replaceAll('\n', fill);
  // Mixed line ends inside the place: lines that old and new share keep their own, the others pair up by position.
  const newLines = next.split('\n');
  const ends: Eol[] = [];
  let o = 0;
  let removedFrom = 0;
  let removedBefore = 0;
  for (const part of diffArrays(oldLines, newLines)) {
    if (part.added)
      for (let i = 0; i < part.value.length; i++)
        ends.push(i < removedBefore ? view.eolOf(removedFrom + i) || fill : fill);
    else {
      if (part.removed) [removedFrom, removedBefore] = [first + o, part.value.length];
      else {
        for (let i = 0; i < part.value.length; i++) ends.push(view.eolOf(first + o + i) || fill);
        removedBefore = 0;
      }
      o += part.value.length;
    }
  }
  return newLines.map((line, i) => (i < newLines.length - 1 ? line + (ends[i] || fill) : line)).join('');
}
