import type { TenantId } from './ids.js';

/** What a tenant may use; a member that is absent is not limited. Days are those of UTC. */
export interface TenantQuota {
  /** Tokens of prompts and answers together, failed attempts included. */
  tokens_per_day?: number;
  cost_usd_per_day?: number;
  /** Requests to the HTTP API; absent: the server's own default. */
  requests_per_minute?: number;
}

const MEMBERS = ['tokens_per_day', 'cost_usd_per_day', 'requests_per_minute'] as const;

/** Key of a tenant's quota in the bucket of tenants. */
export const tenantQuotaName = (tenant: TenantId) => `${tenant}.quota`;

/** The quota in an entry of the bucket of tenants; undefined for an entry of another kind, or one that cannot be read. */
export function readTenantQuota(value: Uint8Array, name: string): TenantQuota | undefined {
  if (!name.endsWith('.quota') || name.split('.').length !== 2) return undefined;
  try {
    const stored = JSON.parse(new TextDecoder().decode(value)) as Record<string, unknown>;
    const quota: TenantQuota = {};
    for (const member of MEMBERS) {
      const amount = stored[member];
      if (typeof amount === 'number' && Number.isFinite(amount) && amount >= 0) quota[member] = amount;
    }
    return quota;
  } catch {
    return undefined;
  }
}
