import { distance } from './levenshtein.js';
import { alignBlanks, type Alignment, type Group } from './alignment.js';
import { foldedKey } from './fold.js';
import { linesOf } from './lines.js';
import { planOf, type Plan } from './plan.js';
import { disagreement } from './guards.js';
import { BUCKETS, countLetters, PAIR_FLOOR } from './similarity.js';
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

/** A place with less is neither shown nor counted as a rival. */
const SHOW_FLOOR = 0.5;
const MAX_PLACES = 300;
const BAND = 3;
/** In files of more lines than this, places too unlike to be written are not looked for. */
const LARGE = 2000;

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

  const hits = new Hits(width, old.keys.length);
  probes.forEach((probe, bit) => {
    for (const at of sequence.index.get(old.keys[probe]!) ?? []) hits.add(bit, probe, at, old.keys[probe]!.length);
  });
  for (const hit of hits.strongest(1, 0).slice(0, MAX_PLACES)) evaluate(hit.probe, hit.at);
  const best = list.reduce<Match | undefined>(
    (top, match) => (top && top.score >= match.score ? top : match),
    undefined,
  );
  // The whole loss of a rival that matters is bounded, so of the probes at least `needed` must lose no more than
  // `1 - floor` each: the rest of them alone would lose more than all may.
  const loss =
    1 - Math.max(sequence.keys.length > LARGE ? 0.68 : SHOW_FLOOR, best ? rivalFloor(best, old, sequence) : 0);
  const plan = scanPlan(
    probes.map((probe) => old.keys[probe]!.length / old.size),
    loss,
    coverage,
  );
  const { scanned, needed, floor } = plan;
  const distinctKeys = sequence.distinct();
  const letters = new Uint8Array(BUCKETS);
  probes.forEach((probe, bit) => {
    if (bit >= scanned) return;
    const key = old.keys[probe]!;
    countLetters(key, letters.fill(0), 0);
    const last = distinctKeys.from(Math.floor(key.length / floor) + 1);
    for (let i = distinctKeys.from(Math.ceil(key.length * floor)); i < last && !overflow; i++) {
      const other = distinctKeys.key(i);
      const longer = Math.max(key.length, other.length);
      const allowed = Math.floor(longer * (1 - floor));
      if (!distinctKeys.canBeWithin(letters, i, allowed) || other === key) continue;
      // Each key is looked at once: most are far, and remembering them all would cost more than the file.
      const units = distance(key, other);
      if (units <= allowed)
        for (const at of distinctKeys.at(i)) hits.add(bit, probe, at, (1 - units / longer) * key.length);
      if ((i & 255) === 0 && expired()) overflow = true;
    }
  });
  probes.forEach((probe, bit) => {
    if (bit < scanned || needed === 1) return;
    const key = old.keys[probe]!;
    for (const at of hits.inStep(probe)) {
      const other = sequence.keys[at];
      if (other === undefined || other === key) continue;
      const longer = Math.max(key.length, other.length);
      const units = aligner.distance(probe, other);
      if (units <= Math.floor(longer * (1 - floor))) hits.add(bit, probe, at, (1 - units / longer) * key.length);
    }
  });
  for (const hit of hits.strongest(needed, needed === 1 ? 0 : (coverage - loss) * old.size))
    evaluate(hit.probe, hit.at);
  list.sort((a, b) => b.score - a.score || a.pairs[0]!.at - b.pairs[0]!.at);
  return { list: distinct(list, old), overflow };
}

interface Hit {
  probe: number;
  at: number;
}

/**
 * How many probes to look up among all lines, how well, and how many of all must hit: a rival that matters loses at most
 * `loss` of the old text. When that is little, few probes at a high floor cannot all miss it; else several must hit, and
 * whoever is hit by `needed` of them is hit by one of the first.
 */
function scanPlan(
  shares: readonly number[],
  loss: number,
  coverage: number,
): { scanned: number; needed: number; floor: number } {
  let share = 0;
  for (let i = 0; i < shares.length; i++) {
    share += shares[i]!;
    if (1 - loss / share >= 0.85) return { scanned: i + 1, needed: 1, floor: 1 - loss / share };
  }
  const needed = Math.min(3, Math.max(1, Math.floor(shares.length / 2)));
  const largest = [...shares].sort((a, b) => b - a).slice(0, needed - 1);
  const certain = coverage - largest.reduce((sum, one) => sum + one, 0);
  return { scanned: shares.length - needed + 1, needed, floor: Math.max(0.5, 1 - loss / certain) };
}

/** The score from which another place can put the best one in doubt (see `marginHolds`); lower when words differ. */
function rivalFloor(best: Match, old: OldLines, sequence: LineSequence): number {
  const wide = best.score - 0.1;
  if (disagreement(best, old, sequence).wrongWords > 0) return wide;
  return Math.max(wide, Math.min(best.score - 0.05, 1 - 4 * (1 - best.score)));
}

/** Hits of probes, gathered by where the old text would begin. */
class Hits {
  private readonly count: number;
  private readonly masks: Uint16Array;
  private readonly weights: Float32Array;
  private readonly best: Float32Array;
  /** The probe of the best hit, plus one: with where the old text would begin it says where the hit is. */
  private readonly probes: Uint32Array;

  constructor(width: number, count: number) {
    this.count = count;
    const size = width + count + 2 * BAND;
    this.masks = new Uint16Array(size);
    this.weights = new Float32Array(size);
    this.best = new Float32Array(size);
    this.probes = new Uint32Array(size);
  }

  add(bit: number, probe: number, at: number, weight: number): void {
    const start = at - probe + this.count + BAND;
    this.masks[start]! |= 1 << bit;
    this.weights[start]! += weight;
    if (weight <= this.best[start]!) return;
    this.best[start] = weight;
    this.probes[start] = probe + 1;
  }

  /** Where a probe would stand at the places hit so far, a few lines more or less. */
  inStep(probe: number): number[] {
    const found: number[] = [];
    let next = 0;
    for (let start = BAND; start < this.masks.length - BAND; start++) {
      if (this.masks[start] === 0) continue;
      for (let near = Math.max(next, start - BAND); near <= start + BAND; near++)
        found.push(near - this.count - BAND + probe);
      next = start + BAND + 1;
    }
    return found;
  }

  /**
   * The best hit of every place where enough probes hit in step, a few lines more or less, and weigh enough together;
   * strongest first.
   */
  strongest(needed: number, least: number): Hit[] {
    const found: { hit: Hit; weight: number }[] = [];
    for (let start = BAND; start < this.masks.length - BAND; start++) {
      const probe = this.probes[start]! - 1;
      if (probe < 0) continue;
      let mask = 0;
      let weight = 0;
      for (let near = start - BAND; near <= start + BAND; near++) {
        mask |= this.masks[near]!;
        weight += this.weights[near]!;
      }
      if (weight >= least && bits(mask) >= needed)
        found.push({ hit: { probe, at: start - this.count - BAND + probe }, weight });
    }
    return found.sort((a, b) => b.weight - a.weight || a.hit.at - b.hit.at).map(({ hit }) => hit);
  }
}

function bits(mask: number): number {
  let count = 0;
  for (let rest = mask; rest !== 0; rest &= rest - 1) count++;
  return count;
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
    if (probes.length >= 3 && (covered >= old.size * 0.7 || probes.length >= 10)) break;
    probes.push(i);
    covered += old.keys[i]!.length;
  }
  return { probes, coverage: covered / old.size };
}

class Aligner {
  private readonly old: OldLines;
  private readonly sequence: LineSequence;
  private readonly cache: Map<string, number>[];
  /** For one alignment after the other. */
  private readonly cost: Float64Array;
  private readonly from: Int8Array;

  constructor(old: OldLines, sequence: LineSequence) {
    this.old = old;
    this.sequence = sequence;
    this.cache = old.keys.map(() => new Map<string, number>());
    const cells = (old.keys.length + 1) * (2 * BAND + 1);
    this.cost = new Float64Array(cells);
    this.from = new Int8Array(cells);
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
    const cost = this.cost.fill(Infinity, 0, (rows + 1) * width);
    const from = this.from.fill(0, 0, (rows + 1) * width);
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
