import type { CutWish } from '../failover/candidate.js';
import type { RenderedItem } from './history-cache.js';

/**
 * Cuts whole user turns from the front, so calls keep their results and the last user message stays. Null when there is
 * nothing left to cut. A turn is what lies between two user messages. Pure.
 */
export function cutTurns(
  items: readonly RenderedItem[],
  wish: CutWish | undefined,
): { items: readonly RenderedItem[]; turnsCut: number } | null {
  if (wish === undefined) return { items, turnsCut: 0 };
  const starts: number[] = [];
  items.forEach((item, index) => {
    if (item.startsTurn) starts.push(index);
  });
  const total = items.reduce((sum, item) => sum + item.json.length, 0);
  for (let cut = wish.moreThan + 1; cut < starts.length; cut++) {
    const kept = items.slice(starts[cut]!);
    const size = kept.reduce((sum, item) => sum + item.json.length, 0);
    if (size <= total * wish.keep || cut === starts.length - 1) return { items: kept, turnsCut: cut };
  }
  return null;
}
