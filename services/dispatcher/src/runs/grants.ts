import { Inject, Injectable, type OnApplicationBootstrap } from '@nestjs/common';
import { type Bus, type KvSnapshot } from '@yardmaster/bus';
import { BUCKETS, type TenantId } from '@yardmaster/contracts';
import { BUS } from '@yardmaster/service-kit';

/** A standing approval: for one definition of a tool, in one conversation or everywhere in the tenant, until it expires. */
export interface Grant {
  toolHash: string;
  /** Conversation id, or `all`. */
  scope: string;
  expiresMs: number;
  by: string;
}

const GRANT_TTL_MS = 30 * 86_400_000;

/** Standing approvals of the tenants, watched; bound to the tool's hash, so a changed tool asks again. */
@Injectable()
export class Grants implements OnApplicationBootstrap {
  private snapshot: KvSnapshot<Grant> | undefined;

  constructor(@Inject(BUS) private readonly bus: Bus) {}

  async onApplicationBootstrap(): Promise<void> {
    this.snapshot = await this.bus.watch(
      BUCKETS.grants,
      (bytes) => JSON.parse(new TextDecoder().decode(bytes)) as Grant,
    );
  }

  allows(tenant: TenantId, conversation: string, toolHash: string, now = Date.now()): boolean {
    return ['all', conversation].some((scope) => {
      const grant = this.snapshot?.current.get(keyOf(tenant, scope, toolHash));
      return grant !== undefined && grant.toolHash === toolHash && grant.expiresMs > now;
    });
  }

  async give(tenant: TenantId, scope: string, toolHash: string, by: string): Promise<void> {
    const grant: Grant = { toolHash, scope, by, expiresMs: Date.now() + GRANT_TTL_MS };
    await this.bus
      .kv(BUCKETS.grants)
      .put(keyOf(tenant, scope, toolHash), new TextEncoder().encode(JSON.stringify(grant)));
  }
}

const keyOf = (tenant: TenantId, scope: string, toolHash: string) => `${tenant}.${scope}.${toolHash}`;
