export interface LoopOptions {
  /** Equal rounds in a row that end the run; 3 unless said otherwise. */
  limit?: number;
  /** Also rounds that repeat in a cycle of up to this many; 1 sees only the same round again and again. */
  maxPeriod?: number;
}

/** The signatures of the last rounds, oldest first; plain data, so that it can be stored with a run. */
export type LoopState = readonly string[];

export const NO_ROUNDS: LoopState = [];

/**
 * Notes the calls of one round and says whether the model goes in circles: the same calls, argument for argument, in
 * `limit` rounds (or cycles of rounds) in a row. A round without calls starts afresh.
 */
export function noteRound(
  state: LoopState,
  calls: readonly { name: string; arguments: unknown }[],
  options: LoopOptions = {},
): { state: LoopState; looping: false } | { state: LoopState; looping: true; reason: string } {
  if (calls.length === 0) return { state: NO_ROUNDS, looping: false };
  const limit = Math.max(2, options.limit ?? 3);
  const maxPeriod = Math.max(1, options.maxPeriod ?? 1);
  const signature = JSON.stringify(calls.map((call) => [call.name, sorted(call.arguments)]));
  const next = [...state, signature].slice(-limit * maxPeriod);
  for (let period = 1; period <= maxPeriod; period++) {
    const needed = period * limit;
    if (next.length < needed) continue;
    const last = next.slice(-needed);
    if (last.every((one, index) => index < period || one === last[index - period])) {
      const names = [...new Set(calls.map((call) => call.name))].join(', ');
      const what = period === 1 ? 'the same calls' : `the same ${period} rounds of calls`;
      return { state: next, looping: true, reason: `${what} (${names}) were made ${limit} times in a row` };
    }
  }
  return { state: next, looping: false };
}

/** The value with object keys in order, so that equal arguments are equal text. */
function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
  return entries.map(([key, inner]) => [key, sorted(inner)]);
}
