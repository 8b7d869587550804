import { Inject, Injectable, type OnApplicationBootstrap, type OnApplicationShutdown } from '@nestjs/common';
import { type Bus, type KvSnapshot } from '@yardmaster/bus';
import { BUCKETS, readTenantQuota, type TenantId, type TenantQuota, tenantQuotaName } from '@yardmaster/contracts';
import { ConversationStore, usageDay } from '@yardmaster/conversation';
import { BUS } from '@yardmaster/service-kit';
import type { AttemptRecord } from '../failover/frame.js';
import { checkBudget } from './budget.js';
import { type Amounts, UsageLedger } from './usage-ledger.js';

/** What tenants use and what they may use. */
@Injectable()
export class Accounting implements OnApplicationBootstrap, OnApplicationShutdown {
  private readonly ledger: UsageLedger;
  private readonly known = new Map<TenantId, { day: string; amounts: Amounts }>();
  private quotas: KvSnapshot<TenantQuota | undefined> | undefined;

  constructor(
    @Inject(BUS) private readonly bus: Bus,
    private readonly store: ConversationStore,
  ) {
    this.ledger = new UsageLedger(store.limits, () => store.redis.status === 'ready');
  }

  async onApplicationBootstrap(): Promise<void> {
    this.quotas = await this.bus.watch(BUCKETS.tenants, readTenantQuota);
  }

  async onApplicationShutdown(): Promise<void> {
    this.quotas?.stop();
    await this.ledger.flush();
  }

  /** Counts a request, before anything is spent. Throws EXHAUSTED `YM-BUDGET` when the tenant has used up its day. */
  async admit(tenant: TenantId): Promise<void> {
    const quota = this.quotas?.get(tenantQuotaName(tenant));
    if (quota?.tokens_per_day !== undefined || quota?.cost_usd_per_day !== undefined)
      checkBudget(tenant, quota, await this.usedToday(tenant), Date.now());
    this.ledger.requested(tenant);
  }

  attempted(tenant: TenantId, record: AttemptRecord): void {
    this.ledger.attempted(tenant, record);
  }

  /** As Redis says, with what this replica has not written yet; while Redis is away, as it said last. */
  private async usedToday(tenant: TenantId): Promise<Amounts> {
    const day = usageDay(Date.now());
    if (this.store.redis.status === 'ready') {
      // Written first, so that nothing is counted twice or not at all.
      await this.ledger.flush();
      const amounts = await this.store.limits.usage(tenant, day).catch(() => undefined);
      if (amounts !== undefined) this.known.set(tenant, { day, amounts });
    }
    const known = this.known.get(tenant);
    const used: Amounts = { ...(known?.day === day ? known.amounts : {}) };
    for (const [name, amount] of Object.entries(this.ledger.unwritten(tenant))) used[name] = (used[name] ?? 0) + amount;
    return used;
  }
}
