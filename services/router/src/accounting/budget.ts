import { type TenantId, type TenantQuota, YardError } from '@yardmaster/contracts';
import { type Amounts, tokensOf } from './usage-ledger.js';

const DAY_MS = 86_400_000;

/** Throws EXHAUSTED `YM-BUDGET` when a tenant has used up what it may use in a day: says of what, how much, and until when. */
export function checkBudget(tenant: TenantId, quota: TenantQuota, used: Amounts, now: number): void {
  refuse(tenant, 'tokens_per_day', 'tokens', tokensOf(used), quota.tokens_per_day, now);
  refuse(tenant, 'cost_usd_per_day', 'US dollars', used['cost_usd'] ?? 0, quota.cost_usd_per_day, now);
}

function refuse(
  tenant: TenantId,
  name: 'tokens_per_day' | 'cost_usd_per_day',
  unit: string,
  used: number,
  limit: number | undefined,
  now: number,
): void {
  if (limit === undefined || used < limit) return;
  const endsAt = (Math.floor(now / DAY_MS) + 1) * DAY_MS;
  const until = new Date(endsAt).toISOString();
  const amount = (value: number) => String(Math.round(value * 10_000) / 10_000);
  throw new YardError(
    'EXHAUSTED',
    'YM-BUDGET',
    `Tenant ${tenant} has used ${amount(used)} of the ${amount(limit)} ${unit} that it may use in a day. Nothing was sent; the next day begins at ${until}.`,
    { retryAfterMs: endsAt - now, details: { quota: name, limit, used, until } },
  );
}
