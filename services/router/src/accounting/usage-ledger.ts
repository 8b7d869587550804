import type { TenantId } from '@yardmaster/contracts';
import { usageDay } from '@yardmaster/conversation';
import type { AttemptRecord } from '../failover/frame.js';

export type Amounts = Record<string, number>;

/** Where the counters are kept. */
export interface UsageStore {
  addUsage(tenant: TenantId, window: string, amounts: Amounts): Promise<Amounts>;
}

/** Every provider has counters of its own beside those of the tenant: `p:<provider>:tokens`. */
export const providerField = (provider: string, what: 'attempts' | 'tokens' | 'cost_usd') => `p:${provider}:${what}`;

/** Tokens that count against a quota. */
export const tokensOf = (amounts: Amounts) => (amounts['prompt_tokens'] ?? 0) + (amounts['completion_tokens'] ?? 0);

interface Pending {
  tenant: TenantId;
  day: string;
  amounts: Amounts;
}

/**
 * What tenants have used and the store does not know yet. Attempts of one moment are written together: a write for each
 * would cost more than the rest of a short request. What cannot be written is kept and written later.
 */
export class UsageLedger {
  private readonly pending = new Map<string, Pending>();
  private timer: NodeJS.Timeout | undefined;
  private flushing: Promise<void> | undefined;

  constructor(
    private readonly store: UsageStore,
    private readonly isReachable: () => boolean,
    private readonly waitMs = 100,
    private readonly now: () => number = Date.now,
  ) {}

  attempted(tenant: TenantId, record: AttemptRecord): void {
    const { usage, costUsd = 0, provider } = record;
    const prompt = usage?.prompt_tokens ?? 0;
    const completion = usage?.completion_tokens ?? 0;
    this.add(tenant, {
      attempts: 1,
      failed_attempts: record.outcome === 'ok' ? 0 : 1,
      prompt_tokens: prompt,
      completion_tokens: completion,
      cached_tokens: usage?.cached_tokens ?? 0,
      reasoning_tokens: usage?.reasoning_tokens ?? 0,
      cost_usd: costUsd,
      [providerField(provider, 'attempts')]: 1,
      [providerField(provider, 'tokens')]: prompt + completion,
      [providerField(provider, 'cost_usd')]: costUsd,
    });
  }

  requested(tenant: TenantId): void {
    this.add(tenant, { requests: 1 });
  }

  /** What of this day is not in the store yet. */
  unwritten(tenant: TenantId): Amounts {
    return this.pending.get(keyOf(tenant, usageDay(this.now())))?.amounts ?? {};
  }

  /** Writes everything now; what fails stays for the next time. */
  flush(): Promise<void> {
    clearTimeout(this.timer);
    this.timer = undefined;
    return (this.flushing ??= this.write().finally(() => {
      this.flushing = undefined;
      if (this.pending.size > 0) this.schedule();
    }));
  }

  private async write(): Promise<void> {
    // A command to an absent Redis would wait in a queue, and count as written.
    if (!this.isReachable()) return;
    for (const [key, { tenant, day, amounts }] of [...this.pending]) {
      this.pending.delete(key);
      try {
        await this.store.addUsage(tenant, day, amounts);
      } catch {
        this.add(tenant, amounts, day);
      }
    }
  }

  private add(tenant: TenantId, amounts: Amounts, day = usageDay(this.now())): void {
    const key = keyOf(tenant, day);
    let entry = this.pending.get(key);
    if (entry === undefined) this.pending.set(key, (entry = { tenant, day, amounts: {} }));
    for (const [name, amount] of Object.entries(amounts))
      if (amount !== 0) entry.amounts[name] = (entry.amounts[name] ?? 0) + amount;
    this.schedule();
  }

  private schedule(): void {
    this.timer ??= setTimeout(() => void this.flush(), this.waitMs).unref();
  }
}

const keyOf = (tenant: TenantId, day: string) => `${tenant} ${day}`;
