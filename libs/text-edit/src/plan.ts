import { diffArrays } from 'diff';
import { isBlank } from './fold.js';

/** What an edit does with the lines of the old text, blank ones left out. */
export interface Plan {
  /** For each non-blank old line: the edit changes or removes it. */
  changed: boolean[];
  /** For each non-blank old line: the edit changes it, or puts a line beside it. */
  touched: boolean[];
  /** For each non-blank old line: the edit puts lines between it and the next one. */
  splitAfter: boolean[];
}

/** Reads from old and new lines where the edit acts: only there must a place be certain to the line. */
export function planOf(old: readonly string[], next: readonly string[]): Plan {
  const ink: number[] = [];
  old.forEach((line, i) => {
    if (!isBlank(line)) ink.push(i);
  });
  const changed = new Array<boolean>(old.length).fill(false);
  const inserted = new Array<boolean>(old.length + 1).fill(false);
  let at = 0;
  for (const part of diffArrays(
    old.map((line) => line.trimEnd()),
    next.map((line) => line.trimEnd()),
  )) {
    if (part.added) inserted[at] = true;
    else {
      if (part.removed) changed.fill(true, at, at + part.value.length);
      at += part.value.length;
    }
  }
  const between = (from: number, to: number) => {
    for (let i = from; i <= to; i++) if (inserted[i] || (i < to && changed[i])) return true;
    return false;
  };
  const touched = ink.map((line) => changed[line]!);
  const splitAfter = ink.map((line, i) => between(line + 1, ink[i + 1] ?? old.length));
  ink.forEach((_, i) => {
    // A line put in between two needs both to know where it goes; behind a changed line it goes with that line.
    if (!splitAfter[i]) return;
    if (touched[i]) return;
    touched[i] = true;
    if (i + 1 < ink.length) touched[i + 1] = true;
  });
  if (between(0, ink[0] ?? 0) && ink.length > 0) touched[0] = true;
  return { changed: ink.map((line) => changed[line]!), touched, splitAfter };
}
