import type { Candidate, ProviderKeyRef, Rendered } from './candidate.js';
import { endpointOf } from './candidate.js';
import type { CircuitBreakers } from './circuit-breaker.js';
import type { DeadlineBoard } from './deadline-board.js';
import { chooseKey } from './key-pool.js';

/** What one request has learnt about one candidate. */
export interface Track {
  candidate: Candidate;
  /** Not to be tried again by this request. */
  dead: boolean;
  /** Failed tries that count against `retries`. */
  tries: number;
  throttles: number;
  notBefore: number;
  /** Did not say a word in time: others go first. */
  silent: boolean;
  refits: number;
  rendered: Rendered | undefined;
  maxTokens: number | undefined;
  triedResponses: boolean;
}

export function newTrack(candidate: Candidate, maxTokens: number | undefined): Track {
  return {
    candidate,
    dead: false,
    tries: 0,
    throttles: 0,
    notBefore: 0,
    silent: false,
    refits: 0,
    rendered: undefined,
    maxTokens,
    triedResponses: false,
  };
}

export type Choice =
  | { track: Track; key: ProviderKeyRef | undefined; othersReady: boolean }
  /** Nobody may be asked before this moment. */
  | { waitUntil: number }
  /** Nobody is left. */
  | undefined;

/** With something else to try, nobody waits longer than this for a provider that asks for patience. */
const PATIENCE_MS = 5_000;

/** The first candidate that may be asked now, or how long to wait, or nothing. Marks those dead whose keys are all refused. */
export function chooseTrack(
  tracks: readonly Track[],
  state: { keys: DeadlineBoard; breakers: CircuitBreakers },
  request: {
    now: number;
    deadlineAt: number;
    sticky: string;
    refusedKeys: ReadonlySet<string>;
    isServing: (candidate: Candidate) => boolean;
  },
): Choice {
  const { now } = request;
  const ready: { track: Track; key: ProviderKeyRef | undefined }[] = [];
  let earliest = Infinity;
  let begunAt: number | undefined;
  for (const track of tracks) {
    // Not dead: it may be back before this request has nobody left.
    if (track.dead || !request.isServing(track.candidate)) continue;
    const choice = chooseKey(track.candidate, state.keys, now, request.sticky, request.refusedKeys);
    const keyAt = 'readyAt' in choice ? choice.readyAt : 0;
    const breakerAt = state.breakers.readyAt(endpointOf(track.candidate));
    const at = Math.max(track.notBefore, keyAt, breakerAt);
    if (at <= now && 'key' in choice) {
      ready.push({ track, key: choice.key });
      continue;
    }
    if (!Number.isFinite(at)) {
      track.dead = true;
      continue;
    }
    earliest = Math.min(earliest, at);
    // The candidate that we were at: a short wait for it comes before the next one, unless its circuit has opened.
    const isBegun = (track.tries > 0 || track.throttles > 0) && breakerAt <= now;
    if (ready.length === 0 && !track.silent && isBegun) begunAt ??= at;
  }
  if (ready.length === 0) return earliest === Infinity ? undefined : { waitUntil: earliest };
  const patience = Math.min(PATIENCE_MS, (request.deadlineAt - now) / 2);
  if (begunAt !== undefined && begunAt - now <= patience) return { waitUntil: begunAt };
  const first = ready.find(({ track }) => !track.silent) ?? ready[0];
  return first === undefined ? undefined : { ...first, othersReady: ready.length > 1 };
}
