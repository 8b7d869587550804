import type { Match, OldLines } from './candidates.js';
import { isGeneric } from './fold.js';
import { similarity } from './similarity.js';
import type { LineSequence } from './text-view.js';

const EDGE_FLOOR = 0.8;
const NEIGHBOUR_CEILING = 0.6;

/**
 * Why the ends of a place are not certain, or `undefined` when they are. Most wrong edits of approximate matchers have
 * the right place and end a line too early or too late, because the old text had a line too many or too few.
 */
export function boundaryDoubt(match: Match, old: OldLines, sequence: LineSequence): string | undefined {
  const count = old.keys.length;
  const head = match.pairs[0]!;
  const tail = match.pairs.at(-1)!;
  if (head.old !== 0) return 'the first line of old_string is not at this place';
  if (tail.old !== count - 1) return 'the last line of old_string is not at this place';
  for (const [pair, beyond] of [
    [head, head.at - 1],
    [tail, tail.at + 1],
  ] as const) {
    const key = old.keys[pair.old]!;
    if (pair.similarity < (isGeneric(key) ? 1 : EDGE_FLOOR))
      return `the ${pair === head ? 'first' : 'last'} line of old_string differs too much from the file's`;
    const outside = sequence.keys[beyond];
    if (pair.similarity < 1 && outside !== undefined && similarity(key, outside) > pair.similarity - 0.15)
      return 'the line beside the place fits as well as the one inside';
  }
  const paired = new Set(match.pairs.map((pair) => pair.old));
  const missing = old.keys.filter((_, i) => !paired.has(i));
  const inside = new Set(match.pairs.map((pair) => pair.at));
  const unseen: string[] = [];
  for (let at = head.at; at <= tail.at; at++) if (!inside.has(at)) unseen.push(sequence.keys[at]!);
  const allowed = count >= 12 ? 2 : count >= 4 ? 1 : 0;
  if (missing.length > allowed) return 'several lines of old_string are not at this place';
  if (unseen.length > allowed) return 'the place holds lines that old_string does not show';
  const around = [head.at - 2, head.at - 1, tail.at + 1, tail.at + 2]
    .map((at) => sequence.keys[at])
    .filter((key) => key !== undefined);
  for (const key of missing) {
    for (const other of [...around, ...unseen])
      if (similarity(key, other) >= NEIGHBOUR_CEILING) return 'a line of old_string stands elsewhere at this place';
  }
  for (const key of unseen) {
    if (isGeneric(key)) return 'the place holds lines that old_string does not show';
    if (old.keys.some((own) => similarity(own, key) >= NEIGHBOUR_CEILING))
      return 'the place holds a line twice that old_string shows once';
  }
  return undefined;
}

/** Whether the best place is certain against the second: by what lies between them, not by how good it is itself. */
export function marginHolds(best: Match, second: Match | undefined): boolean {
  if (!second) return true;
  const margin = best.score - second.score;
  return margin >= 0.1 || (margin >= 0.05 && second.distance >= 4 * best.distance);
}
