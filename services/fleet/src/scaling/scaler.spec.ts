import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  callsPerPod,
  DOWN_PERIOD_MS,
  NO_MEMORY,
  scale,
  type ScalerMemory,
  type ScaleTarget,
  UP_PERIOD_MS,
  UP_PODS,
} from './scaler.js';

const target = (more: Partial<ScaleTarget> = {}): ScaleTarget => ({
  name: 'shell',
  deployment: 'ym-executor-shell',
  kinds: ['shell'],
  min: 1,
  max: 20,
  callsPerPod: 3,
  cooldownMs: 300_000,
  ...more,
});

/** Feeds the scaler one look each 5 s; the Deployment obeys at once. `need`: a number, or null where it cannot be read. */
function play(of: ScaleTarget, start: number, needs: readonly (number | null)[], stepMs = 5_000) {
  let current = start;
  let memory: ScalerMemory = NO_MEMORY;
  return needs.map((need, i) => {
    const seen = { now: i * stepMs, current, ...(need === null ? { problem: 'the queue is away' } : { need }) };
    const verdict = scale(of, memory, seen);
    ({ memory } = verdict);
    current = verdict.desired ?? current;
    return { ...verdict, current };
  });
}
const numbers = (of: ScaleTarget, start: number, needs: readonly (number | null)[], stepMs?: number) =>
  play(of, start, needs, stepMs).map(({ current }) => current);
const times = <T>(count: number, value: T): T[] => Array.from({ length: count }, () => value);

describe('the formula', () => {
  it.each([
    [0, 1],
    [1, 1],
    [3, 1],
    [4, 2],
    [9, 3],
    [10, 4],
    [1_000_000, 20],
  ])('%i calls, three for a pod, one to twenty pods: %i', (need, pods) => {
    expect(numbers(target(), 20, [...times(70, need)], 60_000).at(-1)).toBe(pods);
  });
  it.each([
    [4, 0.8, 3],
    [16, 0.8, 12],
    [1, 0.8, 1],
    [10, 1, 10],
    [5, 0.6, 3],
    [3, 0.1, 1],
  ])('%i slots at %f are %i calls for a pod', (slots, part, calls) => expect(callsPerPod(slots, part)).toBe(calls));
});

describe('up', () => {
  it('at once, but at most a doubling or four more in fifteen seconds', () => {
    expect(numbers(target({ max: 100 }), 1, times(10, 300))).toEqual([5, 5, 5, 10, 10, 10, 20, 20, 20, 40]);
  });
  it('from zero at the first call', () => {
    const of = target({ min: 0 });
    expect(numbers(of, 0, [0, 0, 1])).toEqual([0, 0, 1]);
    expect(numbers(of, 0, [100])).toEqual([4]);
  });
  it('never above the maximum, and down to it at once when that was lowered', () => {
    expect(numbers(target({ max: 3 }), 1, [1000])).toEqual([3]);
    expect(numbers(target({ max: 3 }), 9, [1000])).toEqual([3]);
  });
  it('to the minimum, with or without a need', () => {
    expect(numbers(target({ min: 2 }), 0, [0])).toEqual([2]);
    expect(numbers(target({ min: 2 }), 1, [null])).toEqual([2]);
  });
});

describe('down', () => {
  it('only to the most that was needed in the last five minutes', () => {
    const out = numbers(target(), 4, [12, ...times(59, 0)]);
    expect(out).toEqual(times(60, 4));
    expect(play(target(), 4, [12, 0])[1]!.reason).toBe('0 calls, 3 for a pod; 4 were needed in the last 300 s');
  });
  it('at most half or one in a minute', () => {
    const out = numbers(target(), 10, [30, ...times(120, 0)]);
    expect(out[60]).toBe(10);
    // 301 s after the last need: half; a minute later half again; then one by one.
    expect([out[61], out[72], out[73], out[85], out[97]]).toEqual([5, 5, 2, 1, 1]);
  });
  it('to zero after five minutes without a call, not before', () => {
    const out = numbers(target({ min: 0 }), 1, [1, ...times(62, 0)]);
    expect(out.slice(0, 61)).toEqual(times(61, 1));
    expect(out.at(-1)).toBe(0);
  });
  it('a restart begins the calm anew', () => {
    expect(numbers(target({ min: 0 }), 5, times(60, 0))).toEqual(times(60, 5));
  });
});

describe('where something is missing', () => {
  it('the number stays, and says why', () => {
    const out = play(target(), 7, [null, null]);
    expect(out.map(({ action, desired }) => [action, desired])).toEqual(times(2, ['hold', 7]));
    expect(out[0]!.reason).toBe('the queue is away: the number stays');
  });
  it('an outage is no calm: what was held counts as needed', () => {
    const out = numbers(target(), 7, [21, ...times(200, null), 0, ...times(59, 0)]);
    expect(new Set(out)).toEqual(new Set([7]));
  });
  it('the Deployment that cannot be read is not guessed', () => {
    expect(scale(target(), NO_MEMORY, { now: 0, need: 50 })).toMatchObject({ action: 'hold', desired: undefined });
  });
});

describe('laws', () => {
  const history = fc.array(fc.option(fc.integer({ min: 0, max: 500 }), { freq: 8 }), { minLength: 1, maxLength: 150 });
  const targets = fc
    .record({
      min: fc.integer({ min: 0, max: 5 }),
      spread: fc.integer({ min: 1, max: 40 }),
      callsPerPod: fc.integer({ min: 1, max: 20 }),
    })
    .map(({ min, spread, callsPerPod: calls }) => target({ min, max: min + spread, callsPerPod: calls }));
  it('within the bounds; never more than the steps; never down within the cooldown of a need', () => {
    fc.assert(
      fc.property(targets, fc.integer({ min: 0, max: 40 }), history, (of, start, needs) => {
        const first = Math.min(of.max, Math.max(of.min, start));
        const out = play(of, first, needs);
        const at = (i: number) => (i < 0 ? first : out[i]!.current);
        out.forEach(({ current }, i) => {
          expect(current).toBeGreaterThanOrEqual(of.min);
          expect(current).toBeLessThanOrEqual(of.max);
          const upFrom = Math.min(...times(Math.ceil(UP_PERIOD_MS / 5_000), 0).map((_, k) => at(i - 1 - k)));
          expect(current).toBeLessThanOrEqual(Math.max(upFrom * 2, upFrom + UP_PODS, at(i - 1)));
          const downFrom = Math.max(...times(DOWN_PERIOD_MS / 5_000, 0).map((_, k) => at(i - 1 - k)));
          expect(current).toBeGreaterThanOrEqual(Math.min(Math.floor(downFrom / 2), downFrom - 1));
          if (current < at(i - 1)) {
            const needed = needs
              .slice(Math.max(0, i - of.cooldownMs / 5_000), i + 1)
              .map((need) => Math.ceil((need ?? 0) / of.callsPerPod));
            expect(current).toBeGreaterThanOrEqual(Math.min(of.max, Math.max(...needed)));
            expect(needs[i]).not.toBeNull();
          }
        });
      }),
      { numRuns: 300 },
    );
  });
  it('a steady need settles on the formula and stays', () => {
    fc.assert(
      fc.property(targets, fc.integer({ min: 0, max: 500 }), (of, need) => {
        const out = numbers(of, of.max, times(300, need), 15_000);
        const wanted = Math.min(of.max, Math.max(of.min, Math.ceil(need / of.callsPerPod)));
        expect(out.slice(-50)).toEqual(times(50, wanted));
      }),
      { numRuns: 100 },
    );
  });
});
