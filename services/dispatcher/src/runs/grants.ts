import { Inject, Injectable, type OnApplicationBootstrap } from '@nestjs/common';
import { type Bus, type KvSnapshot } from '@yardmaster/bus';
import { BUCKETS, newId, type TenantId } from '@yardmaster/contracts';
import { BUS } from '@yardmaster/service-kit';
import type { ApprovalGrant } from '@yardmaster/tool-schema';

const DAY_MS = 86_400_000;
/** A yes ends with these, at the latest; one for a conversation outlives it by no more than its history does. */
const LIFETIME_MS = { session: 7 * DAY_MS, always: 30 * DAY_MS } as const;

/** Standing approvals of the tenants, watched; each is bound to a definition, so a changed tool asks again. */
@Injectable()
export class Grants implements OnApplicationBootstrap {
  private snapshot: KvSnapshot<ApprovalGrant> | undefined;
  private byTenant = new Map<string, ApprovalGrant[]>();

  constructor(@Inject(BUS) private readonly bus: Bus) {}

  async onApplicationBootstrap(): Promise<void> {
    this.snapshot = await this.bus.watch(
      BUCKETS.grants,
      (bytes) => JSON.parse(new TextDecoder().decode(bytes)) as ApprovalGrant,
    );
    const sort = (snapshot: KvSnapshot<ApprovalGrant>) => {
      const byTenant = new Map<string, ApprovalGrant[]>();
      for (const [key, grant] of snapshot.current) {
        const tenant = key.slice(0, key.indexOf('.'));
        byTenant.set(tenant, [...(byTenant.get(tenant) ?? []), grant]);
      }
      this.byTenant = byTenant;
    };
    sort(this.snapshot);
    this.snapshot.onChange(sort);
  }

  /** All grants of a tenant; undefined while they cannot be read, which no one may take for a yes. */
  of(tenant: TenantId): readonly ApprovalGrant[] | undefined {
    return this.snapshot === undefined ? undefined : (this.byTenant.get(tenant) ?? []);
  }

  /** Stores a grant; it holds from here on, in this process before it has come back from the bucket. */
  async give(
    grant: Omit<ApprovalGrant, 'id' | 'expiresAt' | 'tenant'> & { tenant: TenantId },
    remember: 'session' | 'always',
    now = Date.now(),
  ): Promise<ApprovalGrant> {
    const given: ApprovalGrant = { ...grant, id: newId(), expiresAt: now + LIFETIME_MS[remember] };
    await this.bus.kv(BUCKETS.grants).put(`${grant.tenant}.${given.id}`, JSON.stringify(given));
    this.byTenant.set(grant.tenant, [...(this.byTenant.get(grant.tenant) ?? []), given]);
    return given;
  }
}
