const BUCKETS = 10;

/** CPU seconds of each tenant within a sliding window. */
export class CpuBudget {
  readonly #limitMs: number;
  readonly #bucketMs: number;
  readonly #used = new Map<string, { at: number; ms: number }[]>();

  /** `limitSeconds` 0 = no limit. */
  constructor(limitSeconds: number, windowSeconds: number) {
    this.#limitMs = limitSeconds * 1000;
    this.#bucketMs = (windowSeconds * 1000) / BUCKETS;
  }

  add(tenant: string, ms: number, now = Date.now()): void {
    if (this.#limitMs === 0) return;
    const buckets = this.#live(tenant, now);
    const last = buckets.at(-1);
    if (last !== undefined && now - last.at < this.#bucketMs) last.ms += ms;
    else buckets.push({ at: now, ms });
    this.#used.set(tenant, buckets);
  }

  /** Milliseconds left, less what runs at the moment; negative when over. */
  left(tenant: string, runningMs = 0, now = Date.now()): number {
    if (this.#limitMs === 0) return Number.POSITIVE_INFINITY;
    return this.#limitMs - runningMs - this.#live(tenant, now).reduce((sum, bucket) => sum + bucket.ms, 0);
  }

  /** When the oldest use leaves the window, in ms from now. */
  retryAfterMs(tenant: string, now = Date.now()): number {
    const oldest = this.#live(tenant, now)[0];
    return oldest === undefined ? 0 : Math.max(1, Math.ceil(oldest.at + this.#bucketMs * BUCKETS - now));
  }

  #live(tenant: string, now: number): { at: number; ms: number }[] {
    const buckets = (this.#used.get(tenant) ?? []).filter((bucket) => now - bucket.at < this.#bucketMs * BUCKETS);
    if (buckets.length === 0) this.#used.delete(tenant);
    return buckets;
  }
}
