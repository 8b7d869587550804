import { endpointOf, type Candidate, type ProviderKeyRef } from './candidate.js';
import { rendezvousScore } from './rendezvous.js';
import type { DeadlineBoard } from './deadline-board.js';

/** A key that was refused stays out this long; a rotated key has another id and is not affected. */
export const DEAD_KEY_MS = 600_000;

export type KeyChoice = { key: ProviderKeyRef | undefined } | { readyAt: number };

/** The id of a key on the deadline board; providers without keys cool as a whole, and each pod for itself. */
export function keyBoardId(candidate: Candidate, key: ProviderKeyRef | undefined): string {
  return key === undefined || candidate.pod !== undefined
    ? `key ${endpointOf(candidate)}`
    : `key ${candidate.provider} ${key.id}`;
}

/**
 * The key to use now. A conversation keeps its key while that is healthy, since providers cache prompts per account;
 * others take its place only while it cools.
 */
export function chooseKey(
  candidate: Candidate,
  board: DeadlineBoard,
  now: number,
  sticky: string,
  refused: ReadonlySet<string>,
): KeyChoice {
  if (candidate.keys.length === 0) {
    const entry = board.active(keyBoardId(candidate, undefined), now);
    return entry === undefined ? { key: undefined } : { readyAt: entry.until };
  }
  let best: ProviderKeyRef | undefined;
  let bestScore = -1;
  let readyAt = Infinity;
  for (const key of candidate.keys) {
    const id = keyBoardId(candidate, key);
    if (refused.has(id)) continue;
    const entry = board.active(id, now);
    if (entry !== undefined) {
      readyAt = Math.min(readyAt, entry.until);
      continue;
    }
    const score = candidate.keys.length === 1 ? 0 : rendezvousScore(key.id, sticky);
    if (score > bestScore) {
      best = key;
      bestScore = score;
    }
  }
  return best === undefined ? { readyAt } : { key: best };
}
