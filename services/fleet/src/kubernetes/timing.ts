import { setTimeout as wait } from 'node:timers/promises';

/** Time and chance, passed in so that tests own them. */
export interface Timing {
  /** Milliseconds of a clock that is never set back; not those of a day. */
  now(): number;
  /** Waits; ends early, without an error, when the signal is aborted. */
  sleep(ms: number, signal: AbortSignal): Promise<void>;
  /** 0 <= value < 1. */
  random(): number;
}

/** The machine's own. */
export const systemTiming: Timing = {
  now: () => performance.now(),
  sleep: (ms, signal) => wait(ms, undefined, { signal, ref: false }).catch(() => undefined),
  random: Math.random,
};
