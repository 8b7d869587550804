/**
 * Retries are at most a share of the requests to a provider, so that a provider in trouble is not asked several times as
 * much as usual. A small store lets rare requests be retried.
 */
export class RetryBudgets {
  private readonly tokens = new Map<string, number>();
  private readonly share: number;
  private readonly burst: number;

  constructor(share = 0.2, burst = 10) {
    this.share = share;
    this.burst = burst;
  }

  /** A first try was sent. */
  requested(provider: string): void {
    this.tokens.set(provider, Math.min(this.burst, this.left(provider) + this.share));
  }

  /** Takes one retry; false if the budget is used up. */
  take(provider: string): boolean {
    const left = this.left(provider);
    if (left < 1) return false;
    this.tokens.set(provider, left - 1);
    return true;
  }

  left(provider: string): number {
    return this.tokens.get(provider) ?? this.burst;
  }
}
