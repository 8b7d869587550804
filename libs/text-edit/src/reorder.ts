import { alignBlanks, type Alignment, type Group } from './alignment.js';
import type { OldLines } from './candidates.js';
import { isGeneric } from './fold.js';
import type { TextView } from './text-view.js';

/**
 * The one place that holds exactly the lines of the old text in another order, or `undefined`. Every line that moved
 * must say something and stand once in the file's neighbourhood: in repetitive text a window shifted by a line holds
 * the same lines too.
 */
export function reorderedPlace(view: TextView, old: OldLines): Alignment | undefined {
  const sequence = view.folded();
  const count = old.keys.length;
  if (count < 2) return undefined;
  let rarest = 0;
  let fewest = Infinity;
  for (let i = 0; i < count; i++) {
    const occurrences = sequence.index.get(old.keys[i]!)?.length ?? 0;
    if (occurrences === 0) return undefined;
    if (occurrences < fewest) [rarest, fewest] = [i, occurrences];
  }
  if (fewest > 64) return undefined;
  const wanted = [...old.keys].sort().join('\n');
  const starts = new Set<number>();
  for (const at of sequence.index.get(old.keys[rarest]!)!) {
    for (let start = Math.max(0, at - count + 1); start <= at && start + count <= sequence.keys.length; start++) {
      if (
        !starts.has(start) &&
        sequence.keys
          .slice(start, start + count)
          .sort()
          .join('\n') === wanted
      )
        starts.add(start);
    }
  }
  if (starts.size !== 1) return undefined;
  const start = [...starts][0]!;
  const window = sequence.keys.slice(start, start + count);
  const taken = new Set<number>();
  const placeOf: number[] = [];
  for (let i = 0; i < count; i++) {
    // Prefer the place in step, so that equal lines (braces) do not count as moved.
    let at =
      window[i] === old.keys[i] && !taken.has(i)
        ? i
        : window.findIndex((key, w) => key === old.keys[i] && !taken.has(w) && key !== old.keys[w]);
    if (at < 0) at = window.findIndex((key, w) => key === old.keys[i] && !taken.has(w));
    taken.add(at);
    placeOf.push(at);
  }
  // Between a first and a last line that stand where they should, lines cannot have come from outside.
  const framed =
    placeOf[0] === 0 && placeOf[count - 1] === count - 1 && [0, count - 1].every((i) => !isGeneric(old.keys[i]!));
  const reach = Math.max(20, count);
  for (let i = 0; i < count && !framed; i++) {
    if (placeOf[i] === i) continue;
    const key = old.keys[i]!;
    if (isGeneric(key)) return undefined;
    const near = sequence.index.get(key)!.filter((at) => at >= start - reach && at < start + count + reach);
    if (near.length !== 1) return undefined;
  }
  const groups: Group[] = placeOf.map((at, i) => {
    const file = sequence.numbers[start + at]!;
    return { oldFrom: old.numbers[i]!, oldTo: old.numbers[i]! + 1, fileFrom: file, fileTo: file + 1, similarity: 1 };
  });
  return alignBlanks(groups, old.lines, view.lines);
}
