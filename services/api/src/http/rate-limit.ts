import { Injectable } from '@nestjs/common';
import { type TenantId, YardError } from '@yardmaster/contracts';
import { ConversationStore } from '@yardmaster/conversation';
import { ApiConfig } from '../config.js';
import { TenantQuotas } from '../tenants/tenant-quotas.js';

/** Requests of a tenant, counted for all replicas together. */
@Injectable()
export class RateLimit {
  constructor(
    private readonly store: ConversationStore,
    private readonly config: ApiConfig,
    private readonly quotas: TenantQuotas,
  ) {}

  /** Counts a request. Throws EXHAUSTED with the time to wait. */
  async take(tenant: TenantId, header: (name: string, value: string) => void): Promise<void> {
    const size = this.quotas.of(tenant).requests_per_minute ?? this.config.requestsPerMinute;
    if (size === 0) return;
    const taken = await this.store.limits.take(tenant, 'requests', { perSecond: size / 60, size });
    header('ratelimit-limit', String(size));
    header('ratelimit-remaining', String(taken.left));
    header('ratelimit-reset', String(Math.ceil(taken.retryAfterMs / 1000)));
    if (!taken.allowed)
      throw new YardError('EXHAUSTED', 'YM-RATE', `Tenant ${tenant} has sent its ${size} requests of this minute.`, {
        retryAfterMs: taken.retryAfterMs,
      });
  }
}
