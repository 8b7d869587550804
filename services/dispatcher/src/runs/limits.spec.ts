import { expect, it } from 'vitest';
import { limitReached, NOTHING_USED, type RunLimits } from './limits.js';

const LIMITS: RunLimits = { maxIterations: 3, maxTokens: 100, maxCostUsd: 0.5, deadlineMs: 1000 };

it.each([
  [{}, 0, undefined],
  [{ steps: 3 }, 0, 'max_iterations'],
  [{ promptTokens: 60, completionTokens: 40 }, 0, 'max_tokens'],
  [{ costUsd: 0.5 }, 0, 'max_cost_usd'],
  [{}, 1000, 'timeout'],
] as const)('with %j at %i the limit is %s', (used, now, reason) => {
  expect(limitReached({ ...NOTHING_USED, ...used }, LIMITS, now)?.reason).toBe(reason);
});

it('what has no bound never ends a run', () => {
  const unbounded = { ...LIMITS, maxTokens: undefined, maxCostUsd: undefined };
  expect(limitReached({ ...NOTHING_USED, promptTokens: 1e9, costUsd: 1e6 }, unbounded, 0)).toBeUndefined();
});
