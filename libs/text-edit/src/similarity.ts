import { distance } from './levenshtein.js';

/** 1 for equal texts, 0 for texts with nothing in common; by Levenshtein distance over the longer one. */
export function similarity(a: string, b: string): number {
  if (a === b) return 1;
  const longer = Math.max(a.length, b.length);
  return longer === 0 ? 1 : 1 - distance(a, b) / longer;
}

/** Below this likeness two lines are not taken for the same line. */
export const PAIR_FLOOR = 0.6;

export const BUCKETS = 32;

/**
 * Counts the characters of a text in a few buckets: what one text has more of than another is a lower bound of their
 * Levenshtein distance. Counts end at 255, which only makes the bound smaller.
 */
export function countLetters(text: string, counts: Uint8Array, offset: number): void {
  for (let i = 0; i < text.length; i++) {
    const bucket = offset + (text.charCodeAt(i) & (BUCKETS - 1));
    if (counts[bucket]! < 255) counts[bucket]!++;
  }
}

/** Tokens for comparing and merging: words, runs of blanks, single other characters. */
export function tokenize(text: string): string[] {
  return text.match(/[\p{L}\p{N}\p{M}_]+|\s+|[^\p{L}\p{N}\p{M}_\s]/gu) ?? [];
}

/** Multiset Jaccard index of the tokens of two texts, blanks left out. */
export function tokenOverlap(a: readonly string[], b: readonly string[]): number {
  const left = a.flatMap(tokenize).filter(isInk);
  const right = b.flatMap(tokenize).filter(isInk);
  const counts = new Map<string, number>();
  for (const token of left) counts.set(token, (counts.get(token) ?? 0) + 1);
  let shared = 0;
  for (const token of right) {
    const count = counts.get(token) ?? 0;
    if (count === 0) continue;
    counts.set(token, count - 1);
    shared++;
  }
  const union = left.length + right.length - shared;
  return union === 0 ? 0 : shared / union;
}

function isInk(token: string): boolean {
  return token.trim() !== '';
}
