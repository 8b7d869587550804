import type { Quotas, UsageOfDay } from '@yardmaster/client';
import type { Invocation } from '../cli/invocation.js';
import { fields } from '../cli/output.js';
import { UsageError } from '../cli/usage-error.js';

/** `yard tenant usage [--days N]`: by day of UTC, failed attempts included. */
export async function usage(invocation: Invocation): Promise<void> {
  const session = await invocation.session();
  const items = await session.api.tenants.usage(session.tenant, invocation.number('days') ?? 7);
  const providers = (day: UsageOfDay) =>
    Object.entries(day.providers)
      .map(([name, used]) => `${name} ${used.attempts}`)
      .join(', ');
  await invocation.output.page(
    { items, next_cursor: null } as { items: UsageOfDay[] },
    [
      { name: 'day', of: (day) => day.day },
      { name: 'requests', of: (day) => day.requests },
      { name: 'attempts', of: (day) => day.attempts },
      { name: 'failed', of: (day) => day.failed_attempts },
      { name: 'tokens', of: (day) => day.total_tokens },
      { name: 'in', of: (day) => day.prompt_tokens, wide: true },
      { name: 'cached', of: (day) => day.cached_tokens, wide: true },
      { name: 'out', of: (day) => day.completion_tokens, wide: true },
      { name: 'usd', of: (day) => (day.cost_usd > 0 ? day.cost_usd.toFixed(4) : undefined) },
      { name: 'attempts by provider', of: providers, wide: true },
    ],
    'nothing was used in these days',
  );
}

const MEMBERS = {
  'tokens-per-day': 'tokens_per_day',
  'cost-per-day': 'cost_usd_per_day',
  'requests-per-minute': 'requests_per_minute',
} as const;

/** `yard tenant quota`: shows the quotas; with flags, changes those and keeps the others. */
export async function quota(invocation: Invocation): Promise<void> {
  const session = await invocation.session();
  const changes: Partial<Quotas> = {};
  for (const [flag, member] of Object.entries(MEMBERS)) {
    const value = invocation.text(flag);
    if (value !== undefined) changes[member] = value === 'none' ? null : limit(flag, value);
  }
  const changed = Object.keys(changes).length > 0;
  const quotas = changed
    ? await session.api.tenants.setQuotas(session.tenant, {
        ...(await session.lookup.tenants.quotas(session.tenant)),
        ...changes,
      })
    : await session.api.tenants.quotas(session.tenant);
  await invocation.output.object(quotas, () =>
    fields(Object.values(MEMBERS).map((member) => [member.replaceAll('_', ' '), quotas[member] ?? 'no limit'])),
  );
}

function limit(flag: string, text: string): number {
  const value = Number(text);
  if (text.trim() === '' || !Number.isFinite(value) || value < 0)
    throw new UsageError(
      `--${flag} must be a number of at least 0, or "none" for no limit (got "${text.slice(0, 60)}")`,
    );
  return value;
}
