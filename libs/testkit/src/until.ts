import { setTimeout as sleep } from 'node:timers/promises';

/** Waits until `what` answers something true and returns that; throws with `why` after `timeoutMs`. */
export async function until<T>(
  what: () => T | Promise<T>,
  { timeoutMs = 10_000, everyMs = 10, why = 'it did not happen' } = {},
): Promise<Exclude<T, false | undefined | null>> {
  for (const end = performance.now() + timeoutMs; ; await sleep(everyMs)) {
    const answer = await what();
    if (answer) return answer as Exclude<T, false | undefined | null>;
    if (performance.now() > end) throw new Error(`${why} (waited ${timeoutMs} ms)`);
  }
}
