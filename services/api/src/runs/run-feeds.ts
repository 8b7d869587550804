import { Inject, Injectable, type OnModuleDestroy } from '@nestjs/common';
import { type Bus } from '@yardmaster/bus';
import type { TenantId } from '@yardmaster/contracts';
import { BUS, type Logger, LOGGER } from '@yardmaster/service-kit';
import { RunFeed } from './run-feed.js';

/** A feed is kept this long after its last reader left: readers come back. */
const LINGER_MS = 10_000;

/** The feeds of the runs that somebody watches here. */
@Injectable()
export class RunFeeds implements OnModuleDestroy {
  private readonly feeds = new Map<string, { feed: RunFeed; users: number; leaving?: NodeJS.Timeout }>();

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
