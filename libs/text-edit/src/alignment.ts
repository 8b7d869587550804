import { isBlank } from './fold.js';

/** Old lines `[oldFrom, oldTo)` stand for file lines `[fileFrom, fileTo)`. One line to one line, except in pass 8. */
export interface Group {
  oldFrom: number;
  oldTo: number;
  fileFrom: number;
  fileTo: number;
  /** Similarity of the two, 1 = equal but for blanks. */
  similarity: number;
}

/** Which lines of the old text are which lines of the file, in the order of the old text. */
export interface Alignment {
  groups: Group[];
  /** Zero-based first and last file line. */
  first: number;
  last: number;
}

/**
 * Completes an alignment of non-blank lines with the blank ones: between two neighbours the blank lines of both sides
 * belong together one by one; before the first and behind the last, old blank lines take those the file has there.
 */
export function alignBlanks(groups: readonly Group[], old: readonly string[], file: readonly string[]): Alignment {
  const all: Group[] = [];
  const pair = (oldLine: number, fileLine: number) =>
    all.push({ oldFrom: oldLine, oldTo: oldLine + 1, fileFrom: fileLine, fileTo: fileLine + 1, similarity: 1 });
  const head = groups[0]!;
  for (
    let o = head.oldFrom - 1, f = head.fileFrom - 1;
    o >= 0 && f >= 0 && isBlank(old[o]!) && isBlank(file[f]!);
    o--, f--
  )
    pair(o, f);
  all.reverse();
  for (let g = 0; g < groups.length; g++) {
    const group = groups[g]!;
    all.push(group);
    const next = groups[g + 1];
    let o = group.oldTo;
    let f = group.fileTo;
    const oldEnd = next ? next.oldFrom : old.length;
    // A permuted alignment (swapped lines) has no "between".
    const fileEnd = next ? (next.fileFrom >= f ? next.fileFrom : f) : file.length;
    while (o < oldEnd && f < fileEnd && isBlank(old[o]!) && isBlank(file[f]!)) pair(o++, f++);
  }
  let first = Infinity;
  let last = -1;
  for (const group of all) {
    first = Math.min(first, group.fileFrom);
    last = Math.max(last, group.fileTo - 1);
  }
  return { groups: all, first, last };
}
