/** Doubles from `baseMs` up to `capMs`, with full jitter: messages that failed together must not come back together. */
export function backoffMs(attempt: number, baseMs: number, capMs: number, random = Math.random): number {
  return random() * Math.min(capMs, baseMs * 2 ** Math.min(attempt, 30));
}
