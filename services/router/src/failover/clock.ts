/** Time and chance, passed in so that tests own them. */
export interface Clock {
  /** Milliseconds since the epoch. */
  now(): number;
  /** Calls back once after `ms`; the returned function cancels it. */
  after(ms: number, callback: () => void): () => void;
  /** 0 <= value < 1. */
  random(): number;
}

/** The machine's own clock. */
export const systemClock: Clock = {
  now: () => Date.now(),
  after(ms, callback) {
    // Above 2^31 - 1 ms a timer would fire at once.
    const timer = setTimeout(callback, Math.min(Math.max(0, ms), 2_147_483_647));
    return () => clearTimeout(timer);
  },
  random: Math.random,
};

/** Waits; ends early, without an error, when the signal is aborted. */
export function sleep(clock: Clock, ms: number, signal: AbortSignal): Promise<void> {
  if (ms <= 0 || signal.aborted) return Promise.resolve();
  return new Promise((resolve) => {
    const finish = (): void => {
      cancel();
      signal.removeEventListener('abort', finish);
      resolve();
    };
    const cancel = clock.after(ms, finish);
    signal.addEventListener('abort', finish, { once: true });
  });
}

export const BACKOFF_CAP_MS = 10_000;

/** Doubles from `baseMs` up to 10 s, with full jitter: a fleet that failed together must not come back together. */
export function backoffMs(attempt: number, baseMs: number, random: () => number): number {
  return random() * Math.min(BACKOFF_CAP_MS, baseMs * 2 ** Math.min(attempt, 30));
}
