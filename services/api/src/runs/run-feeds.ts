import { Inject, Injectable, type OnModuleDestroy } from '@nestjs/common';
import { type Bus } from '@yardmaster/bus';
import { type TenantId, YardError } from '@yardmaster/contracts';
import { BUS, type Logger, LOGGER } from '@yardmaster/service-kit';
import { RunFeed } from './run-feed.js';

/** A feed is kept this long after its last reader left: readers come back. */
const LINGER_MS = 10_000;

/** The feeds of the runs that somebody watches here. */
@Injectable()
export class RunFeeds implements OnModuleDestroy {
  private readonly feeds = new Map<string, { feed: RunFeed; users: number; leaving?: NodeJS.Timeout }>();

  private readonly open = new Map<TenantId, number>();

  constructor(
    @Inject(BUS) private readonly bus: Bus,
    @Inject(LOGGER) private readonly logger: Logger,
  ) {}

  /** Calls `use` with the run's feed, which has read everything stored until now; the feed stays while `use` runs. */
  async using<T>(tenant: TenantId, run: string, use: (feed: RunFeed) => Promise<T>): Promise<T> {
    let entry = this.feeds.get(run);
    if (entry === undefined) {
      entry = { feed: new RunFeed(this.bus, this.logger, tenant, run), users: 0 };
      this.feeds.set(run, entry);
    }
    clearTimeout(entry.leaving);
    entry.users++;
    try {
      await entry.feed.ready();
      return await use(entry.feed);
    } finally {
      if (--entry.users === 0) this.leave(run);
    }
  }

  /** Runs `use`, counted as one open stream of the tenant. Throws EXHAUSTED when there are `most` already. */
  async counted(tenant: TenantId, most: number, use: () => Promise<void>): Promise<void> {
    const open = this.open.get(tenant) ?? 0;
    if (open >= most)
      throw new YardError('EXHAUSTED', 'YM-STREAMS', `Tenant ${tenant} has ${open} event streams open here.`, {
        retryAfterMs: 5_000,
      });
    this.open.set(tenant, open + 1);
    try {
      await use();
    } finally {
      const left = this.open.get(tenant)! - 1;
      if (left === 0) this.open.delete(tenant);
      else this.open.set(tenant, left);
    }
  }

  onModuleDestroy(): void {
    for (const { feed, leaving } of this.feeds.values()) {
      clearTimeout(leaving);
      feed.close();
    }
    this.feeds.clear();
  }

  private leave(run: string): void {
    const entry = this.feeds.get(run);
    if (entry === undefined) return;
    entry.leaving = setTimeout(() => {
      this.feeds.delete(run);
      entry.feed.close();
    }, LINGER_MS);
    entry.leaving.unref();
  }
}
