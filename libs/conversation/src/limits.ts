import type { TenantId } from '@yardmaster/contracts';
import type { Redis } from 'ioredis';
import { keys } from './keys.js';
import { call, command } from './redis-connection.js';

export interface Taken {
  allowed: boolean;
  /** Whole tokens left. */
  left: number;
  /** Until this request would be allowed; 0 when it was. */
  retryAfterMs: number;
}

/** The window of usage that a moment belongs to: a day of UTC, such as `2026-11-29`. */
export function usageDay(ms: number): string {
  const number = Math.floor(ms / DAY_MS);
  // Asked for at every attempt, and nearly always about the same day.
  if (number !== lastDay.number) lastDay = { number, name: new Date(ms).toISOString().slice(0, 10) };
  return lastDay.name;
}

const DAY_MS = 86_400_000;
let lastDay = { number: Number.NaN, name: '' };

/** Rates and usage of tenants, counted in Redis so that every replica sees the same. */
export class TenantLimits {
  constructor(private readonly redis: Redis) {}

  /** Takes `cost` tokens out of a bucket that refills with `perSecond` up to `size`. */
  async take(
    tenant: TenantId,
    name: string,
    bucket: { perSecond: number; size: number; cost?: number },
  ): Promise<Taken> {
    const [allowed, left, retryAfterMs] = (await call(
      this.redis,
      'take',
      [keys.rate(tenant, name)],
      [bucket.perSecond, bucket.size, bucket.cost ?? 1],
    )) as [number, number, number];
    return { allowed: allowed === 1, left, retryAfterMs };
  }

  /** Adds to the counters of a window such as `2026-11-29`; answers the new amounts. */
  async addUsage(
    tenant: TenantId,
    window: string,
    amounts: Record<string, number>,
    keepMs = 40 * 86_400_000,
  ): Promise<Record<string, number>> {
    const names = Object.keys(amounts);
    if (names.length === 0) return {};
    const totals = (await call(
      this.redis,
      'count',
      [keys.usage(tenant, window)],
      [keepMs, ...names.flatMap((name) => [name, amounts[name]!])],
    )) as string[];
    return Object.fromEntries(names.map((name, i) => [name, Number(totals[i])]));
  }

  async usage(tenant: TenantId, window: string): Promise<Record<string, number>> {
    const hash = await command(this.redis.hgetall(keys.usage(tenant, window)));
    return Object.fromEntries(Object.entries(hash).map(([name, amount]) => [name, Number(amount)]));
  }
}
