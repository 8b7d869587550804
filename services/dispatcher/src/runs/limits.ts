/** What a run may use at the most; undefined means no bound of that kind. */
export interface RunLimits {
  maxIterations: number;
  maxTokens: number | undefined;
  maxCostUsd: number | undefined;
  /** Wall-clock end of the run, in ms since the epoch. */
  deadlineMs: number;
}

/** What a run has used so far; lives in its record, so that neither a crash nor a compaction resets it. */
export interface RunUsage {
  steps: number;
  promptTokens: number;
  completionTokens: number;
  cachedTokens: number;
  costUsd: number;
}

export const NOTHING_USED: RunUsage = { steps: 0, promptTokens: 0, completionTokens: 0, cachedTokens: 0, costUsd: 0 };

export interface LimitReached {
  reason: 'max_iterations' | 'max_tokens' | 'max_cost_usd' | 'timeout';
  message: string;
}

/** The limit that forbids another step, or undefined. */
export function limitReached(usage: RunUsage, limits: RunLimits, now: number): LimitReached | undefined {
  if (now >= limits.deadlineMs) return { reason: 'timeout', message: 'The time limit of the run was reached.' };
  if (usage.steps >= limits.maxIterations)
    return { reason: 'max_iterations', message: `The limit of ${limits.maxIterations} iterations was reached.` };
  const tokens = usage.promptTokens + usage.completionTokens;
  if (limits.maxTokens !== undefined && tokens >= limits.maxTokens)
    return {
      reason: 'max_tokens',
      message: `The limit of ${limits.maxTokens} tokens was reached: ${tokens} were used.`,
    };
  if (limits.maxCostUsd !== undefined && usage.costUsd >= limits.maxCostUsd)
    return {
      reason: 'max_cost_usd',
      message: `The cost limit of ${limits.maxCostUsd} USD was reached: ${usage.costUsd.toFixed(4)} USD were spent.`,
    };
  return undefined;
}
