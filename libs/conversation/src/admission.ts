import { type TenantId, tenantId } from '@yardmaster/contracts';
import type { StoreContext } from './history.js';
import { keys, type RunRef } from './keys.js';
import { command } from './redis-connection.js';
import { findRun } from './runs.js';

/** Runs that the queue refused, because their tenant has its share in it: a list per tenant, first come first served. */
export class Admission {
  constructor(private readonly store: StoreContext) {}

  /** Puts a run at the end of its tenant's list; one that is in it keeps its place. */
  async wait(ref: RunRef): Promise<void> {
    const { redis } = this.store;
    // The set of tenants first: a tenant in it without a list costs one look, a list without it would be forgotten.
    await command(redis.sadd(keys.waitingTenants, ref.tenant));
    if ((await command(redis.lpos(keys.waiting(ref.tenant), ref.run))) !== null) return;
    await command(redis.rpush(keys.waiting(ref.tenant), ref.run));
  }

  /**
   * The runs that are next, still in the list: publish each, then call `admitted`. Whoever dies in between has published
   * twice, which a run survives.
   */
  async next(tenant: TenantId, count = 1): Promise<RunRef[]> {
    const runs = await command(this.store.redis.lrange(keys.waiting(tenant), 0, count - 1));
    const refs: RunRef[] = [];
    for (const run of runs) {
      try {
        refs.push(await findRun(this.store, tenant, run));
      } catch {
        await this.admitted(tenant, run); // its record has expired
      }
    }
    return refs;
  }

  async admitted(tenant: TenantId, run: string): Promise<void> {
    await command(this.store.redis.lrem(keys.waiting(tenant), 0, run));
  }

  async count(tenant: TenantId): Promise<number> {
    return command(this.store.redis.llen(keys.waiting(tenant)));
  }

  /** Tenants with waiting runs, for the sweep. */
  async tenants(): Promise<TenantId[]> {
    const { redis } = this.store;
    const found: TenantId[] = [];
    for (const name of await command(redis.smembers(keys.waitingTenants))) {
      const tenant = tenantId(name);
      if ((await this.count(tenant)) === 0) {
        await command(redis.srem(keys.waitingTenants, name));
        // Someone may have come between the look and the removal.
        if ((await this.count(tenant)) === 0) continue;
        await command(redis.sadd(keys.waitingTenants, name));
      }
      found.push(tenant);
    }
    return found;
  }

  /** Every tenant that has started a run, for sweeps over run states. */
  async allTenants(): Promise<TenantId[]> {
    return (await command(this.store.redis.smembers(keys.tenants))).map(tenantId);
  }
}
