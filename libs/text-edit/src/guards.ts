import type { Match, OldLines } from './candidates.js';
import { isGeneric } from './fold.js';
import { PAIR_FLOOR, similarity, tokenize } from './similarity.js';
import type { LineSequence } from './text-view.js';

const ACTED_FLOOR = 0.8;

/**
 * Why the lines that the edit acts on are not certain at a place, or `undefined` when they are. Most wrong edits of
 * approximate matchers have the right place and are off by a line, because the old text had a line too many or too few.
 * What the edit does not touch keeps the file's text anyway, so a doubtful line there does no harm.
 */
export function boundaryDoubt(match: Match, old: OldLines, sequence: LineSequence): string | undefined {
  const count = old.keys.length;
  const { changed, putsIn } = old.plan;
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
    if (!changed[i]) continue;
    const pair = placeOf.get(i);
    if (!pair) return 'a line that the edit changes is not at this place';
    const unsure = lineDoubt(pair, old, sequence, placeOf, free);
    if (unsure !== undefined) return unsure;
  }
  for (let i = 0; i <= count; i++) {
    if (!putsIn[i]) continue;
    const before = match.pairs.findLast((pair) => pair.old < i);
    const after = match.pairs.find((pair) => pair.old >= i);
    if (!before || !after) {
      // At an end of the text only the line right beside it says where new lines go.
      if ((before ?? after)!.old !== (before ? i - 1 : i))
        return 'the line beside those that the edit puts in is not at this place';
    } else if (after.at !== before.at + 1) return 'the file holds other lines where the edit puts lines in';
    for (const pair of [before, after]) {
      // Behind a changed line, which is certain, new lines go with it.
      const beside = pair !== undefined && pair === after && before?.old === i - 1 && changed[i - 1];
      if (pair && !beside && !changed[pair.old]) {
        const unsure = lineDoubt(pair, old, sequence, placeOf, free);
        if (unsure !== undefined) return unsure;
      }
    }
  }
  return undefined;
}

function lineDoubt(
  pair: Match['pairs'][number],
  old: OldLines,
  sequence: LineSequence,
  placeOf: ReadonlyMap<number, Match['pairs'][number]>,
  free: readonly string[],
): string | undefined {
  const key = old.keys[pair.old]!;
  const renamed = isRenamed(pair, key, sequence.keys[pair.at]!) && isFramed(pair.old, placeOf, old.keys.length);
  if (pair.similarity < (isGeneric(key) ? 1 : renamed ? PAIR_FLOOR : ACTED_FLOOR))
    return "a line that the edit acts on differs too much from the file's";
  if (pair.similarity < 1 && free.some((other) => similarity(key, other) > pair.similarity - 0.15))
    return 'another line at this place fits as well as the one that the edit acts on';
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
    neighbours.every((line) => placeOf.get(line)?.at === at + line - i && placeOf.get(line)!.similarity >= 0.75)
  );
}

/** Whether the best place is certain against the second: by what lies between them, not by how good it is itself. */
export function marginHolds(best: Match, second: Match | undefined): boolean {
  if (!second) return true;
  const margin = best.score - second.score;
  return margin >= 0.1 || (margin >= 0.05 && second.distance >= 4 * best.distance);
}

/** What the old text says otherwise than a place, and what it says alike. */
export interface Disagreement {
  /** Each pair of words counts once, however often it stands and however long it is; slips of the pen count less. */
  weight: number;
  /** Words that are others altogether. */
  wrongWords: number;
  /** Different words that stand in both. */
  rightWords: number;
}

/**
 * Compares by words, not letters: by letters alone a short wrong name would be nearer to another short name than to the
 * right long one.
 */
export function disagreement(match: Match, old: OldLines, sequence: LineSequence): Disagreement {
  const wrong = new Map<string, number>();
  const right = new Set<string>();
  let lines = old.keys.length - match.pairs.length;
  let previous: Match['pairs'][number] | undefined;
  for (const pair of match.pairs) {
    if (previous) lines += pair.at - previous.at - 1;
    previous = pair;
    const own = tokenize(old.keys[pair.old]!).filter((token) => token !== ' ');
    const other = pair.similarity === 1 ? own : tokenize(sequence.keys[pair.at]!).filter((token) => token !== ' ');
    const shared = new Set(other);
    for (const token of own) if (token.length >= 3 && shared.has(token)) right.add(token);
    if (pair.similarity === 1) continue;
    if (own.length !== other.length) wrong.set(`${pair.old}`, Math.max(1, Math.abs(own.length - other.length) / 2));
    else
      own.forEach(
        (token, i) => token !== other[i] && wrong.set(`${token}\u0000${other[i]!}`, isSlip(token, other[i]!) ? 0.4 : 1),
      );
  }
  let weight = 2 * lines;
  let wrongWords = 0;
  for (const [pair, one] of wrong) {
    weight += one;
    if (one >= 1 && !/^\d+\u0000\d+$/.test(pair)) wrongWords++;
  }
  return { weight, wrongWords, rightWords: right.size };
}

/**
 * Whether the place is identified in spite of wrong words: by a line that is the same and stands in the file only once,
 * or because no other line of the file has the words around the wrong ones.
 */
export function isIdentified(match: Match, old: OldLines, sequence: LineSequence): boolean {
  for (const pair of match.pairs) {
    const key = old.keys[pair.old]!;
    if (pair.similarity === 1 && key.length >= 8 && !isGeneric(key) && sequence.index.get(key)!.length === 1)
      return true;
  }
  for (const pair of match.pairs) {
    if (pair.similarity === 1) continue;
    const own = tokenize(old.keys[pair.old]!);
    const other = tokenize(sequence.keys[pair.at]!);
    if (own.length !== other.length) continue;
    const wrong = own.map((token, i) => token !== other[i]);
    if (!own.some((token, i) => wrong[i] && !isSlip(token, other[i]!))) continue;
    const distinct = sequence.distinct();
    for (let i = 0; i < distinct.count; i++) {
      const key = distinct.key(i);
      if (key === sequence.keys[pair.at]) continue;
      // A cheap look first: most lines begin or end otherwise.
      if (!wrong[0] && !key.startsWith(own[0]!)) continue;
      if (!wrong.at(-1) && !key.endsWith(own.at(-1)!)) continue;
      const tokens = tokenize(key);
      if (tokens.length === own.length && tokens.every((token, at) => wrong[at] || token === own[at])) return false;
    }
    // The same line in other places identifies none of them.
    if (sequence.index.get(sequence.keys[pair.at]!)!.length > 1) return false;
  }
  return true;
}

/** A letter or two wrong, as typing and remembering make them. */
function isSlip(a: string, b: string): boolean {
  const longer = Math.max(a.length, b.length);
  const units = Math.round((1 - similarity(a, b)) * longer);
  return units <= (longer >= 6 ? 2 : 1) && longer >= 3;
}
