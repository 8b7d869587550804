import { Inject, Injectable, type BeforeApplicationShutdown, type OnApplicationBootstrap } from '@nestjs/common';
import { type Bus } from '@yardmaster/bus';
import { ConversationStore } from '@yardmaster/conversation';
import { Runs, subjects, tenantId } from '@yardmaster/contracts';
import { BUS, LOGGER, type Logger } from '@yardmaster/service-kit';
import { DispatcherConfig } from '../config.js';
import { QueueJanitor } from './queue-janitor.js';
import { RunService } from './run.service.js';

const LEASE = 'dispatcher';
/** A queued run whose message was never published (its api died in between) is published after this long. */
const ORPHAN_AFTER_MS = 10_000;

/** What one dispatcher of all does: fires timers, admits waiting runs, and finds runs that nobody works on. */
@Injectable()
export class Leader implements OnApplicationBootstrap, BeforeApplicationShutdown {
  private timer: NodeJS.Timeout | undefined;
  private running: Promise<void> = Promise.resolve();
  private stopped = false;
  private cleanedAt = performance.now();

  constructor(
    @Inject(BUS) private readonly bus: Bus,
    @Inject(LOGGER) private readonly log: Logger,
    private readonly store: ConversationStore,
    private readonly config: DispatcherConfig,
    private readonly runs: RunService,
    private readonly janitor: QueueJanitor,
  ) {}

  onApplicationBootstrap(): void {
    const tick = () => {
      this.running = this.sweep()
        .catch((error: unknown) => this.log.warn({ err: error }, 'a sweep failed and is tried again'))
        .finally(() => {
          if (this.stopped) return;
          this.timer = setTimeout(tick, this.config.sweepMs);
          this.timer.unref();
        });
    };
    this.timer = setTimeout(tick, this.config.sweepMs * Math.random());
    this.timer.unref();
  }

  async beforeApplicationShutdown(): Promise<void> {
    this.stopped = true;
    clearTimeout(this.timer);
    await this.running;
    await this.store.leadership.resign(LEASE).catch(() => undefined);
  }

  private async sweep(): Promise<void> {
    if (!(await this.store.leadership.lead(LEASE, this.config.sweepMs * 3 + 2_000))) return;
    await this.fireTimers();
    await this.admitWaiting();
    await this.publishOrphans();
    if (performance.now() - this.cleanedAt < this.config.janitorMs) return;
    this.cleanedAt = performance.now();
    await this.janitor.sweep();
  }

  private async fireTimers(): Promise<void> {
    for (const member of await this.store.timers.due()) {
      const [kind, tenant = '', conversation = '', run = ''] = member.split('|');
      if (kind === 'approval')
        await this.bus.enqueue(subjects.runResume(tenantId(tenant), run), Runs.work.message, {
          runId: run,
          conversationId: conversation,
          reason: 'approval',
        });
      await this.store.timers.done(member);
    }
  }

  private async admitWaiting(): Promise<void> {
    for (const tenant of await this.store.admission.tenants()) {
      for (const ref of await this.store.admission.next(tenant, 16)) {
        if (!(await this.runs.publish(tenant, ref.conversation, ref.run))) break;
        await this.store.admission.admitted(tenant, ref.run);
      }
    }
  }

  /** A run is created before its message is published; whoever died in between left it here. */
  private async publishOrphans(): Promise<void> {
    for (const tenant of await this.store.admission.allTenants()) {
      const page = await this.store.listRuns(tenant, { state: 'queued', limit: 50 });
      for (const record of page.items) {
        if (record.publishedMs !== undefined || Date.now() - record.createdMs < ORPHAN_AFTER_MS) continue;
        await this.runs.publish(tenant, record.conversation, record.id);
      }
    }
  }
}
