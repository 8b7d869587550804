import { Inject, Injectable, type OnModuleDestroy } from '@nestjs/common';
import { type Bus, type KvSnapshot } from '@yardmaster/bus';
import { BUCKETS, readTenantQuota, type TenantId, type TenantQuota, tenantQuotaName } from '@yardmaster/contracts';
import { BUS } from '@yardmaster/service-kit';

/** What tenants may use, followed in the bucket. The api holds its rates, the router its tokens and cost. */
@Injectable()
export class TenantQuotas implements OnModuleDestroy {
  private snapshot: KvSnapshot<TenantQuota | undefined> | undefined;
  private starting: Promise<void> | undefined;

  constructor(@Inject(BUS) private readonly bus: Bus) {}

  /** Resolves when all quotas have been read once. */
  start(): Promise<void> {
    return (this.starting ??= this.bus
      .watch(BUCKETS.tenants, readTenantQuota)
      .then((snapshot) => {
        this.snapshot = snapshot;
      })
      .catch((error: unknown) => {
        this.starting = undefined;
        throw error;
      }));
  }

  onModuleDestroy(): void {
    this.snapshot?.stop();
  }

  of(tenant: TenantId): TenantQuota {
    return this.snapshot?.get(tenantQuotaName(tenant)) ?? {};
  }

  async put(tenant: TenantId, quota: TenantQuota): Promise<void> {
    await this.bus.kv(BUCKETS.tenants).put(tenantQuotaName(tenant), JSON.stringify(quota));
  }
}
