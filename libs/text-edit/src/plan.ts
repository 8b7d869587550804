import { diffArrays } from 'diff';
import { isBlank } from './fold.js';

/** What an edit does with the lines of the old text, blank ones left out. */
export interface Plan {
  /** For each non-blank old line: the edit changes or removes it. */
  changed: boolean[];
  /** At `i`: the edit puts lines in before the `i`-th non-blank old line (behind the last one at the end). */
  putsIn: boolean[];
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
  const ends = [0, ...ink.map((line) => line + 1)];
  const putsIn = ends.map((from, i) => {
    const to = ink[i] ?? old.length;
    for (let line = from; line <= to; line++) if (inserted[line] || (line < to && changed[line])) return true;
    return false;
  });
  return { changed: ink.map((line) => changed[line]!), putsIn };
}
