import { toAlignment, type Match, type Matches, type OldLines } from './candidates.js';
import type { Alignment } from './alignment.js';
import { boundaryDoubt, disagreement, isIdentified, marginHolds } from './guards.js';
import { isGeneric } from './fold.js';
import { reorderedPlace } from './reorder.js';
import { tokenOverlap } from './similarity.js';
import type { LineSequence, TextView } from './text-view.js';
import type { Pass } from './types.js';

/** A place that one of the passes 3 to 6 would write. */
export interface Accepted {
  alignment: Alignment;
  pass: Pass;
  confidence: number;
}

/** Why none of them would. `rivals` are the places that fit about equally well. */
export interface Doubt {
  reason: string;
  rivals: Match[];
}

const SCORE_FLOOR = 0.8;
const HINT_REACH = 40;
const HINT_LIMIT = 200;
/** Within so many lines a hint counts as exact, and is worth so much of the score. */
const HINT_SLACK = 2;
const HINT_BONUS = 0.15;
/** Off by so many lines a hint still names a place; so far from it others are not meant. */
const HINT_NAMED = 5;
const HINT_FAR = 30;
/** A shorter old text has too few letters to be told from others by likeness. */
const LEAST_SIZE = 16;

/** Passes 3 to 6 over the places found; `hint` is a zero-based line. */
export function decide(view: TextView, old: OldLines, matches: Matches, hint: number | undefined): Accepted | Doubt {
  const reordered = old.size >= LEAST_SIZE ? reorderedPlace(view, old) : undefined;
  if (reordered) {
    if (hint !== undefined && Math.abs(reordered.first - hint) > HINT_LIMIT)
      return { reason: 'the place is far from line_hint', rivals: [] };
    return { alignment: reordered, pass: 6, confidence: 0.88 };
  }
  const { list, overflow } = matches;
  const best = list[0];
  if (!best) return { reason: 'nothing in the file resembles old_string', rivals: [] };
  const rivals = list.filter((match) => match.score >= SCORE_FLOOR - 0.1 && match.score >= best.score - 0.1);
  if (overflow) return { reason: 'too many places resemble old_string to compare them all', rivals };
  const sequence = view.folded();
  // Where the old text would begin, also when its first line is not at the place.
  const line = (match: Match) => sequence.numbers[match.pairs[0]!.at]! - old.numbers[match.pairs[0]!.old]!;
  const accept = (match: Match, pass: Pass, confidence: number): Accepted => ({
    alignment: toAlignment(match, old, view),
    pass,
    confidence,
  });
  const own = disagreement(best, old, sequence);
  // A place that says hardly more otherwise than the best one is a rival, whatever the letters say.
  const alike = list
    .slice(1)
    .filter((match) => match.score >= best.score - 0.3 && disagreement(match, old, sequence).weight < own.weight + 0.6);
  const close = list.slice(1).filter((match) => match.score > best.score - 0.1 || alike.includes(match));
  // A wrong word needs several right ones beside it, or it is simply another thing.
  const doubt =
    boundaryDoubt(best, old, sequence) ??
    (own.wrongWords > 0 && (own.rightWords < 3 * own.wrongWords || !isIdentified(best, old, sequence))
      ? 'what differs is what would tell this place from others'
      : undefined);
  const near = hint === undefined ? undefined : Math.abs(line(best) - hint);

  if (
    old.size >= LEAST_SIZE &&
    doubt === undefined &&
    (near ?? 0) <= HINT_LIMIT &&
    alike.length === 0 &&
    anchored(best, old, view)
  ) {
    const anchoredRivals = list.slice(1).filter((match) => sharesAnchors(match, old, view));
    if (
      anchoredRivals.length === 0
        ? best.score - (list[1]?.score ?? 0) >= 0.03
        : marginHolds(best, list[1]) && best.score >= SCORE_FLOOR
    ) {
      return accept(best, 3, Math.min(0.92, 0.85 + 0.07 * best.score));
    }
  }
  if (hint !== undefined && near !== undefined) {
    const decided = byHint([best, ...close], sequence, old, line, hint);
    if (decided) {
      // Nothing but the place differs between equal places, so what is doubtful of one is of the other.
      const unsure = decided === best ? doubt : boundaryDoubt(decided, old, sequence);
      // A hint that names the very line is evidence of its own.
      const exactly = Math.abs(line(decided) - hint) <= HINT_SLACK;
      if (unsure === undefined) return accept(decided, 4, Math.min(0.92, decided.score + (exactly ? HINT_BONUS : 0)));
      return { reason: unsure, rivals: rivals.length > 1 ? rivals : [] };
    }
    if (near > HINT_LIMIT) return { reason: 'the only place is far from line_hint', rivals: [] };
  }
  if (alike.length > 0) return { reason: 'several places resemble old_string about equally', rivals: [best, ...close] };
  if (best.score >= SCORE_FLOOR) {
    if (old.size < LEAST_SIZE)
      return {
        reason: 'old_string is too short to be recognised by likeness alone',
        rivals: rivals.length > 1 ? rivals : [],
      };
    if (!marginHolds(best, list[1])) return { reason: 'several places resemble old_string about equally', rivals };
    if (doubt !== undefined) return { reason: doubt, rivals: [] };
    return accept(best, 5, Math.min(0.95, best.score));
  }
  if (old.size >= LEAST_SIZE && doubt === undefined && best.score >= 0.7) {
    const overlap = (match: Match) =>
      tokenOverlap(old.keys, sequence.keys.slice(match.pairs[0]!.at, match.pairs.at(-1)!.at + 1));
    const own = overlap(best);
    const second = Math.max(0, ...list.slice(1).map(overlap));
    if (own >= 0.9 && own - second >= 0.15) return accept(best, 6, Math.min(0.88, own));
  }
  if (
    old.size >= LEAST_SIZE &&
    doubt === undefined &&
    isExactFrame(best, old, sequence) &&
    best.score - (list[1]?.score ?? 0) >= 0.3
  )
    return accept(best, 5, SCORE_FLOOR);
  return { reason: doubt ?? 'no place resembles old_string closely enough', rivals: rivals.length > 1 ? rivals : [] };
}

/**
 * The best place near the hint. Of places with the same text the strictly nearest is meant; of others that fit about as
 * well only one that the hint names while they are far from it: hints drift by some lines, and lists repeat.
 */
function byHint(
  places: readonly Match[],
  sequence: LineSequence,
  old: OldLines,
  line: (match: Match) => number,
  hint: number,
): Match | undefined {
  const best = places[0]!;
  const away = (match: Match) => Math.abs(line(match) - hint);
  if (old.size < LEAST_SIZE / 2) return undefined;
  const textOf = (match: Match) => match.pairs.map((pair) => `${pair.old} ${sequence.keys[pair.at]!}`).join('\n');
  const text = textOf(best);
  const equals = places.filter((match) => textOf(match) === text).sort((a, b) => away(a) - away(b));
  const others = places.filter((match) => !equals.includes(match));
  const chosen = equals[0]!;
  if (away(chosen) > HINT_REACH || chosen.score < SCORE_FLOOR - (away(chosen) <= HINT_SLACK ? HINT_BONUS : 0))
    return undefined;
  if (equals[1] && away(equals[1]) === away(chosen)) return undefined;
  return others.every((match) => away(chosen) <= HINT_NAMED && away(match) >= HINT_FAR) ? chosen : undefined;
}

/** All lines but one stand side by side in the file as they are, and the edit leaves that one alone. */
function isExactFrame(match: Match, old: OldLines, sequence: LineSequence): boolean {
  const { pairs } = match;
  if (pairs.length < 2 || old.keys.length - pairs.length !== 1 || match.score < 0.6) return false;
  const size = pairs.reduce((sum, pair) => sum + sequence.keys[pair.at]!.length, 0);
  return size >= 24 && pairs.every((pair, i) => pair.similarity === 1 && (i === 0 || pair.at === pairs[i - 1]!.at + 1));
}

function anchored(match: Match, old: OldLines, view: TextView): boolean {
  const count = old.keys.length;
  if (count < 3) return false;
  const head = match.pairs[0]!;
  const tail = match.pairs.at(-1)!;
  if (head.similarity < 1 || tail.similarity < 1 || isGeneric(old.keys[0]!) || isGeneric(old.keys[count - 1]!))
    return false;
  const span = tail.at - head.at + 1;
  if (span < count * 0.5 || span > count * 1.5 + 2) return false;
  // Without the anchors themselves, the middle must be alike as well.
  const keys = view.folded().keys;
  const middle = match.pairs.slice(1, -1);
  const size = old.keys.slice(1, -1).reduce((sum, key) => sum + key.length, 0);
  const alike = middle.reduce(
    (sum, pair) => sum + pair.similarity * Math.min(old.keys[pair.old]!.length, keys[pair.at]!.length),
    0,
  );
  return size === 0 || alike / size >= 0.7;
}

function sharesAnchors(match: Match, old: OldLines, view: TextView): boolean {
  const keys = view.folded().keys;
  const head = match.pairs[0]!;
  const tail = match.pairs.at(-1)!;
  return keys[head.at] === old.keys[0] && keys[tail.at] === old.keys.at(-1);
}
