/**
 * The name that was probably meant, or undefined when nothing is near: at most two slips of the keyboard, or a third
 * of the length for names over eight letters; other ways of writing and another order of the words are no slips.
 */
export function nearestName(name: string, names: Iterable<string>): string | undefined {
  const wanted = plainName(name);
  const wantedWords = sortedWords(wanted);
  const limit = wanted.length > 8 ? Math.max(2, Math.floor(wanted.length / 3)) : 2;
  let best: { name: string; distance: number } | undefined;
  for (const candidate of names) {
    const plain = plainName(candidate);
    const distance = sortedWords(plain) === wantedWords ? 0 : editDistance(wanted, plain, limit);
    if (distance > limit) continue;
    if (!best || distance < best.distance || (distance === best.distance && candidate < best.name)) {
      best = { name: candidate, distance };
    }
  }
  return best?.name;
}

/** Lower case with `_` between words, whatever way of writing a name came in. */
function plainName(name: string): string {
  return name
    .replace(/([a-z0-9])([A-Z])/g, '$1_$2')
    .replace(/([A-Z])([A-Z][a-z])/g, '$1_$2')
    .replace(/[-. ]/g, '_')
    .toLowerCase();
}

function sortedWords(plain: string): string {
  return plain
    .split('_')
    .filter((word) => word !== '')
    .sort()
    .join('_');
}

/** Damerau-Levenshtein distance with adjacent swaps (optimal string alignment); over `limit` any larger number. */
function editDistance(a: string, b: string, limit: number): number {
  if (Math.abs(a.length - b.length) > limit) return limit + 1;
  let beforeLast: number[] = [];
  let last = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const same = a[i - 1] === b[j - 1] ? 0 : 1;
      let cost = Math.min((last[j] ?? 0) + 1, (row[j - 1] ?? 0) + 1, (last[j - 1] ?? 0) + same);
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]) {
        cost = Math.min(cost, (beforeLast[j - 2] ?? 0) + 1);
      }
      row.push(cost);
    }
    if (Math.min(...row) > limit) return limit + 1;
    beforeLast = last;
    last = row;
  }
  return last[b.length] ?? limit + 1;
}
