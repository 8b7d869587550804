/** How one executor is scaled; the numbers are those of its ScaledObject where KEDA does it. */
export interface ScaleTarget {
  name: string;
  /** The Deployment. */
  deployment: string;
  /** The queues that its pods serve. */
  kinds: string[];
  min: number;
  max: number;
  /** Waiting and running calls that one pod should have. */
  callsPerPod: number;
  /** Calm before pods are taken away, and before the last one goes. */
  cooldownMs: number;
}

/** What was seen at one moment. */
export interface Observation {
  /** Milliseconds of a clock that is never set back. */
  now: number;
  /** Pods that the Deployment is to have now; absent when that could not be read. */
  current?: number;
  /** Waiting and running calls; absent when a queue could not be read. */
  need?: number;
  /** Why something is absent, in words. */
  problem?: string;
}

export interface ScalerMemory {
  /** What the formula wanted, or the number that was held, by time. */
  recommended: readonly { at: number; pods: number }[];
  /** Changes that were made, by time. */
  changes: readonly { at: number; by: number }[];
}

export interface Verdict {
  action: 'up' | 'down' | 'keep' | 'hold';
  /** The number that the Deployment should have; absent when nobody knows. */
  desired: number | undefined;
  /** For people, in one line. */
  reason: string;
  memory: ScalerMemory;
}

export const NO_MEMORY: ScalerMemory = { recommended: [], changes: [] };

/** In this time no more than a doubling or four pods, whichever is more: one period of a HorizontalPodAutoscaler. */
export const UP_PERIOD_MS = 15_000;
export const UP_PODS = 4;
/** In this time no more than half of the pods or one, whichever is more. */
export const DOWN_PERIOD_MS = 60_000;

/** Calls that a pod should have: part of its slots, in whole calls as KEDA's `lagThreshold` is. */
export const callsPerPod = (slots: number, targetUtilization: number): number =>
  Math.max(1, Math.floor(slots * targetUtilization + 1e-9));

/**
 * How many pods an executor should have. Up at once, within limits; down only to the most that was wanted in the last
 * `cooldownMs`, within limits; from zero at the first call, to zero after `cooldownMs` without one. Where anything is
 * missing the number stays, and the calm begins anew: an outage is no calm. Pure; the verdict's memory goes into the
 * next call.
 */
export function scale(target: ScaleTarget, memory: ScalerMemory, seen: Observation): Verdict {
  const { min, max, cooldownMs } = target;
  const { now, current, need } = seen;
  const changes = memory.changes.filter(({ at }) => now - at < DOWN_PERIOD_MS);
  if (current === undefined || need === undefined) {
    // What was held counts as wanted: what follows an outage must not be a fall.
    const held = current ?? memory.recommended.at(-1)?.pods;
    const recommended = held === undefined ? memory.recommended : remember(memory.recommended, now, held, cooldownMs);
    const missing =
      seen.problem ?? (current === undefined ? 'the Deployment cannot be read' : 'the queue cannot be read');
    // Below the floor nothing needs to be known.
    if (current !== undefined && current < min) {
      const reason = `${missing}; ${current} is below the minimum`;
      return {
        action: 'up',
        desired: min,
        reason,
        memory: { recommended, changes: [...changes, { at: now, by: min - current }] },
      };
    }
    return {
      action: 'hold',
      desired: current,
      reason: `${missing}: the number stays`,
      memory: { recommended, changes },
    };
  }
  const wanted = clamp(Math.ceil(need / target.callsPerPod), min, max);
  // Nobody knows what was wanted before the first look: as many as there are.
  const before = memory.recommended.length === 0 ? [{ at: now, pods: clamp(current, min, max) }] : memory.recommended;
  const recommended = remember(before, now, wanted, cooldownMs);
  const result = (desired: number, reason: string): Verdict => {
    const by = desired - current;
    return {
      action: by > 0 ? 'up' : by < 0 ? 'down' : 'keep',
      desired,
      reason,
      memory: { recommended, changes: by === 0 ? changes : [...changes, { at: now, by }] },
    };
  };
  const calls = `${need} calls, ${target.callsPerPod} for a pod`;
  if (current > max) return result(max, `${current} is above the maximum`);
  if (current < min) return result(min, `${current} is below the minimum`);
  if (wanted > current) {
    const added = sum(changes, (by, at) => by > 0 && now - at < UP_PERIOD_MS);
    const base = Math.max(0, current - added);
    const most = Math.max(base * 2, base + UP_PODS);
    const desired = Math.max(current, Math.min(wanted, most));
    const capped =
      desired < wanted ? `; ${wanted} are wanted, and no more than twice or ${UP_PODS} more come at once` : '';
    return result(desired, `${calls}${capped}`);
  }
  const most = Math.max(...recommended.map(({ pods }) => pods));
  if (most >= current) {
    const waits = wanted < current ? `; ${current} were needed in the last ${Math.round(cooldownMs / 1000)} s` : '';
    return result(current, `${calls}${waits}`);
  }
  const removed = -sum(changes, (by) => by < 0);
  const base = current + removed;
  const least = Math.min(Math.floor(base / 2), base - 1);
  const desired = Math.min(current, Math.max(most, least, min));
  const capped = desired > most ? `; no more than half or one go in ${DOWN_PERIOD_MS / 1000} s` : '';
  return result(desired, `${calls}, for ${Math.round(cooldownMs / 1000)} s at the most ${most}${capped}`);
}

function remember(
  recommended: ScalerMemory['recommended'],
  at: number,
  pods: number,
  cooldownMs: number,
): ScalerMemory['recommended'] {
  return [...recommended.filter((one) => at - one.at <= cooldownMs), { at, pods }];
}

const clamp = (value: number, min: number, max: number): number => Math.min(max, Math.max(min, value));

function sum(changes: ScalerMemory['changes'], which: (by: number, at: number) => boolean): number {
  return changes.reduce((total, { at, by }) => (which(by, at) ? total + by : total), 0);
}
