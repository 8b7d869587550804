import { PAIR_FLOOR, type Match, type OldLines } from './candidates.js';
import { isGeneric } from './fold.js';
import { similarity, tokenize } from './similarity.js';
import type { LineSequence } from './text-view.js';

const TOUCHED_FLOOR = 0.8;

/**
 * Why the lines that the edit acts on are not certain at a place, or `undefined` when they are. Most wrong edits of
 * approximate matchers have the right place and are off by a line, because the old text had a line too many or too few.
 * What the edit does not touch keeps the file's text anyway, so a doubtful line there does no harm.
 */
export function boundaryDoubt(match: Match, old: OldLines, sequence: LineSequence): string | undefined {
  const count = old.keys.length;
  const { touched, changed, splitAfter } = old.plan;
  const placeOf = new Map(match.pairs.map((pair) => [pair.old, pair]));
  const taken = new Set(match.pairs.map((pair) => pair.at));
  const head = match.pairs[0]!;
  const tail = match.pairs.at(-1)!;
  const free: string[] = [];
  let unseen = 0;
  for (let at = head.at - 2; at <= tail.at + 2; at++) {
    const key = sequence.keys[at];
    if (key === undefined || taken.has(at)) continue;
    free.push(key);
    if (at > head.at && at < tail.at) unseen++;
  }
  const allowed = count < 3 ? 0 : Math.max(1, Math.floor(count / 5));
  if (count - match.pairs.length > allowed) return 'several lines of old_string are not at this place';
  if (unseen > allowed) return 'the place holds lines that old_string does not show';
  for (let i = 0; i < count; i++) {
    if (!touched[i]) continue;
    const key = old.keys[i]!;
    const pair = placeOf.get(i);
    if (!pair) return 'a line that the edit acts on is not at this place';
    const floor = isGeneric(key)
      ? 1
      : isRenamed(pair, key, sequence.keys[pair.at]!) && isFramed(i, placeOf, count)
        ? PAIR_FLOOR
        : TOUCHED_FLOOR;
    if (pair.similarity < floor) return "a line that the edit acts on differs too much from the file's";
    if (pair.similarity < 1 && free.some((other) => similarity(key, other) > pair.similarity - 0.15))
      return 'another line at this place fits as well as the one that the edit acts on';
    if (splitAfter[i]) {
      // A line that only the model believes in does not matter: what is put in goes behind this one.
      const next = match.pairs.find((other) => other.old > i);
      if (next && next.old > i + 1 && !changed[i])
        return 'a line beside those that the edit puts in is not at this place';
      if (next && next.at !== pair.at + 1) return 'the file holds other lines where the edit puts lines in';
    }
  }
  return undefined;
}

/** One word differs, all else is the same. */
function isRenamed(pair: Match['pairs'][number], key: string, other: string): boolean {
  const a = tokenize(key);
  const b = tokenize(other);
  if (pair.similarity === 1 || a.length !== b.length) return false;
  const differences = new Set(a.flatMap((token, i) => (token === b[i] ? [] : [`${token} ${b[i]!}`])));
  return differences.size === 1;
}

/** The lines before and after stand where they should, as far as there are any. */
function isFramed(i: number, placeOf: ReadonlyMap<number, Match['pairs'][number]>, count: number): boolean {
  const at = placeOf.get(i)!.at;
  const neighbours = [i - 1, i + 1].filter((line) => line >= 0 && line < count);
  return (
    neighbours.length > 0 &&
    neighbours.every((line) => placeOf.get(line)?.at === at + line - i && placeOf.get(line)!.similarity >= 0.9)
  );
}

/** Whether the best place is certain against the second: by what lies between them, not by how good it is itself. */
export function marginHolds(best: Match, second: Match | undefined): boolean {
  if (!second) return true;
  const margin = best.score - second.score;
  return margin >= 0.1 || (margin >= 0.05 && second.distance >= 4 * best.distance);
}

/**
 * How many different things the old text says otherwise than a place: each pair of words counts once, however often it
 * stands and however long it is, slips of the pen count less. By letters alone a short wrong name would be nearer to
 * another short name than to the right long one.
 */
export function disagreements(match: Match, old: OldLines, sequence: LineSequence): number {
  const seen = new Map<string, number>();
  let lines = 0;
  let previous: Match['pairs'][number] | undefined;
  for (const pair of match.pairs) {
    if (previous) lines += pair.at - previous.at - 1;
    previous = pair;
    if (pair.similarity === 1) continue;
    const own = tokenize(old.keys[pair.old]!).filter((token) => token !== ' ');
    const other = tokenize(sequence.keys[pair.at]!).filter((token) => token !== ' ');
    if (own.length !== other.length) seen.set(`${pair.old}`, Math.max(1, Math.abs(own.length - other.length) / 2));
    else
      own.forEach(
        (token, i) =>
          token !== other[i] && seen.set(`${token}\u0000${other[i]!}`, similarity(token, other[i]!) >= 0.7 ? 0.4 : 1),
      );
  }
  lines += old.keys.length - match.pairs.length;
  let sum = 2 * lines;
  for (const weight of seen.values()) sum += weight;
  return sum;
}
