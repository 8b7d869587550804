import { distance } from 'fastest-levenshtein';
import { alignBlanks, type Alignment, type Group } from './alignment.js';
import { foldedKey } from './fold.js';
import { linesOf } from './lines.js';
import { planOf, type Plan } from './plan.js';
import { distanceBound, letterCounts } from './similarity.js';
import type { LineSequence, TextView } from './text-view.js';

/** A place that resembles the old text. */
export interface Match {
  /** Pairs of (position in old keys, position in the sequence). */
  pairs: { old: number; at: number; similarity: number }[];
  /** Line-aligned Levenshtein score, 0 to 1. */
  score: number;
  /** Units in which the two differ. */
  distance: number;
}

/** The old text's non-blank lines as keys. */
export interface OldLines {
  text: string;
  lines: string[];
  keys: string[];
  /** Index in `lines` of each key. */
  numbers: number[];
  /** Units of all keys together. */
  size: number;
  plan: Plan;
}

export function oldLines(text: string, newText: string): OldLines {
  const lines = linesOf(text);
  const keys: string[] = [];
  const numbers: number[] = [];
  lines.forEach((line, i) => {
    const key = foldedKey(line);
    if (key === '') return;
    keys.push(key);
    numbers.push(i);
  });
  return {
    text,
    lines,
    keys,
    numbers,
    plan: planOf(lines, newText === '' ? [] : linesOf(newText)),
    size: keys.reduce((sum, key) => sum + key.length, 0),
  };
}

/** All places worth comparing. `overflow` says that there were too many to look at: then nothing is known of rivals. */
export interface Matches {
  /** Best first; places that share most of their pairs with a better one are left out. */
  list: Match[];
  overflow: boolean;
}

/** Below this likeness two lines are not taken for the same line. */
export const PAIR_FLOOR = 0.6;
/** A place with less is neither shown nor counted as a rival. */
const SHOW_FLOOR = 0.5;
const MAX_PLACES = 300;
const BAND = 3;

/** Stops the search when the time is over or the caller gave up. */
export type Clock = () => boolean;

/**
 * Finds the places that resemble the old text. Lines of the old text that are long, rare and together more than half
 * of it are looked up among all lines of the file: a place that scores within reach of the best must match one of
 * them well, so no rival is overlooked. Each hit is extended to an alignment of all lines.
 */
export function findMatches(view: TextView, old: OldLines, expired: Clock): Matches {
  const sequence = view.folded();
  if (old.keys.length === 0 || sequence.keys.length === 0) return { list: [], overflow: false };
  const aligner = new Aligner(old, sequence);
  const { probes, coverage } = chooseProbes(old, sequence);
  const list: Match[] = [];
  let overflow = false;
  let evaluated = 0;
  const seen = new Set<number>();
  const width = sequence.keys.length;
  const evaluate = (probe: number, at: number): void => {
    if (seen.has(probe * width + at)) return;
    if (evaluated >= MAX_PLACES || expired()) {
      overflow = true;
      return;
    }
    evaluated++;
    const match = aligner.through(probe, at);
    for (const pair of match.pairs) seen.add(pair.old * width + pair.at);
    if (match.score >= SHOW_FLOOR) list.push(match);
  };

  for (const probe of probes) {
    const exact = sequence.index.get(old.keys[probe]!);
    if (exact) for (const at of exact) evaluate(probe, at);
  }
  const best = list.reduce((max, match) => Math.max(max, match.score), 0);
  // A rival matters from 0.10 below the best; what the probes may miss of their part is the rest over their share.
  const floor = Math.max(0.5, 1 - (1 - Math.max(SHOW_FLOOR, best - 0.12)) / coverage);
  const hits: { probe: number; at: readonly number[]; weight: number }[] = [];
  const counts = sequence.counts();
  for (const probe of probes) {
    const key = old.keys[probe]!;
    const letters = letterCounts(key);
    let n = 0;
    for (const [other, at] of sequence.index) {
      const longer = Math.max(key.length, other.length);
      const allowed = longer * (1 - floor);
      n++;
      if (Math.abs(key.length - other.length) > allowed || other === key) continue;
      if (distanceBound(letters, counts[n - 1]!) > allowed) continue;
      const units = aligner.distance(probe, other);
      if (units <= allowed) hits.push({ probe, at, weight: (1 - units / longer) * key.length });
      if ((n & 255) === 0 && expired()) overflow = true;
    }
    if (overflow) break;
  }
  hits.sort((a, b) => b.weight - a.weight);
  for (const hit of hits) for (const at of hit.at) evaluate(hit.probe, at);
  list.sort((a, b) => b.score - a.score || a.pairs[0]!.at - b.pairs[0]!.at);
  return { list: distinct(list, old), overflow };
}

/** The alignment of a match in lines of the texts, blank lines included. */
export function toAlignment(match: Match, old: OldLines, view: TextView): Alignment {
  const sequence = view.folded();
  const groups: Group[] = match.pairs.map((pair) => {
    const oldLine = old.numbers[pair.old]!;
    const fileLine = sequence.numbers[pair.at]!;
    return {
      oldFrom: oldLine,
      oldTo: oldLine + 1,
      fileFrom: fileLine,
      fileTo: fileLine + 1,
      similarity: pair.similarity,
    };
  });
  return alignBlanks(groups, old.lines, view.lines);
}

/** Two matches are one place when most of the old text (by size) stands on the same lines in both. */
function distinct(sorted: readonly Match[], old: OldLines): Match[] {
  const kept: { match: Match; at: Map<number, number> }[] = [];
  for (const match of sorted) {
    const at = new Map(match.pairs.map((pair) => [pair.old, pair.at]));
    const known = kept.some((other) => {
      let shared = 0;
      for (const [line, place] of at) if (other.at.get(line) === place) shared += old.keys[line]!.length;
      return shared * 2 > old.size;
    });
    if (!known) kept.push({ match, at });
    if (kept.length >= 64) break;
  }
  return kept.map(({ match }) => match);
}

function chooseProbes(old: OldLines, sequence: LineSequence): { probes: number[]; coverage: number } {
  const rarity = (key: string) => {
    const count = sequence.index.get(key)?.length ?? 1;
    return count > 16 ? 4 : 1;
  };
  const order = old.keys
    .map((_, i) => i)
    .sort((a, b) => old.keys[b]!.length / rarity(old.keys[b]!) - old.keys[a]!.length / rarity(old.keys[a]!));
  const probes: number[] = [];
  let covered = 0;
  for (const i of order) {
    if (probes.length >= 3 && (covered >= old.size * 0.55 || probes.length >= 10)) break;
    probes.push(i);
    covered += old.keys[i]!.length;
  }
  return { probes, coverage: covered / old.size };
}

class Aligner {
  private readonly cache: Map<string, number>[];

  constructor(
    private readonly old: OldLines,
    private readonly sequence: LineSequence,
  ) {
    this.cache = old.keys.map(() => new Map<string, number>());
  }

  distance(line: number, key: string): number {
    const own = this.old.keys[line]!;
    if (own === key) return 0;
    const cache = this.cache[line]!;
    let units = cache.get(key);
    if (units === undefined) cache.set(key, (units = distance(own, key)));
    return units;
  }

  /** The best alignment in which old line `probe` is file line `at`. */
  through(probe: number, at: number): Match {
    const before = this.extend(probe - 1, at - 1, -1);
    const after = this.extend(probe + 1, at + 1, 1);
    const pairs = [...before.pairs.reverse(), this.pair(probe, at), ...after.pairs];
    const units = before.distance + after.distance + this.distance(probe, this.sequence.keys[at]!);
    const total = before.total + after.total + Math.max(this.old.keys[probe]!.length, this.sequence.keys[at]!.length);
    return { pairs, distance: units, score: total === 0 ? 0 : 1 - units / total };
  }

  private pair(line: number, at: number) {
    const own = this.old.keys[line]!;
    const key = this.sequence.keys[at]!;
    return { old: line, at, similarity: 1 - this.distance(line, key) / Math.max(own.length, key.length) };
  }

  /** Aligns the rest of the old lines in one direction, with free end on the file's side and few lines out of step. */
  private extend(line: number, at: number, step: 1 | -1): { pairs: Match['pairs']; distance: number; total: number } {
    const rows = step > 0 ? this.old.keys.length - line : line + 1;
    if (rows <= 0) return { pairs: [], distance: 0, total: 0 };
    const available = step > 0 ? this.sequence.keys.length - at : at + 1;
    const width = 2 * BAND + 1;
    const cost = new Float64Array((rows + 1) * width).fill(Infinity);
    const from = new Int8Array((rows + 1) * width);
    // Cell (i, b): i old lines and i + b - BAND file lines used. from: 1 pair, 2 old line alone, 3 file line alone.
    cost[BAND] = 0;
    for (let i = 0; i <= rows; i++) {
      const oldIndex = line + step * (i - 1);
      for (let b = 0; b < width; b++) {
        const j = i + b - BAND;
        if (j < 0 || j > available) continue;
        const cell = i * width + b;
        if (i > 0 && j > 0) {
          const before = cost[cell - width]!;
          if (before < Infinity) {
            const key = this.sequence.keys[at + step * (j - 1)]!;
            const own = this.old.keys[oldIndex]!;
            const longer = Math.max(own.length, key.length);
            if (Math.min(own.length, key.length) >= longer * PAIR_FLOOR) {
              const units = this.distance(oldIndex, key);
              if (units <= longer * (1 - PAIR_FLOOR) && before + units < cost[cell]!) {
                cost[cell] = before + units;
                from[cell] = 1;
              }
            }
          }
        }
        if (i > 0 && b + 1 < width) {
          const value = cost[cell - width + 1]! + this.old.keys[oldIndex]!.length;
          if (value < cost[cell]!) {
            cost[cell] = value;
            from[cell] = 2;
          }
        }
        if (j > 0 && b > 0) {
          const value = cost[cell - 1]! + this.sequence.keys[at + step * (j - 1)]!.length;
          if (value < cost[cell]!) {
            cost[cell] = value;
            from[cell] = 3;
          }
        }
      }
    }
    let end = -1;
    for (let b = 0; b < width; b++) {
      const cell = rows * width + b;
      if (cost[cell]! < Infinity && (end < 0 || cost[cell]! < cost[end]!)) end = cell;
    }
    const pairs: Match['pairs'] = [];
    if (end < 0) {
      let lost = 0;
      for (let i = 0; i < rows; i++) lost += this.old.keys[line + step * i]!.length;
      return { pairs, distance: lost, total: lost };
    }
    const units = cost[end]!;
    let total = 0;
    for (let cell = end; cell !== BAND;) {
      const i = Math.floor(cell / width);
      const j = i + (cell % width) - BAND;
      const kind = from[cell];
      if (kind === 1) {
        const oldIndex = line + step * (i - 1);
        const place = at + step * (j - 1);
        pairs.push(this.pair(oldIndex, place));
        total += Math.max(this.old.keys[oldIndex]!.length, this.sequence.keys[place]!.length);
        cell -= width;
      } else if (kind === 2) {
        total += this.old.keys[line + step * (i - 1)]!.length;
        cell += 1 - width;
      } else {
        total += this.sequence.keys[at + step * (j - 1)]!.length;
        cell -= 1;
      }
    }
    return { pairs: pairs.reverse(), distance: units, total };
  }
}
