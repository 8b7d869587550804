import { Inject, Injectable, type BeforeApplicationShutdown, type OnApplicationBootstrap } from '@nestjs/common';
import { type Bus, type Worker } from '@yardmaster/bus';
import { Runs } from '@yardmaster/contracts';
import { BUS } from '@yardmaster/service-kit';
import { DispatcherConfig } from '../config.js';
import { RunService } from './run.service.js';

/** Pulls runs from the queue, as many as there are free slots. */
@Injectable()
export class RunWorker implements OnApplicationBootstrap, BeforeApplicationShutdown {
  private worker: Worker<typeof Runs.work.message> | undefined;

  constructor(
    @Inject(BUS) private readonly bus: Bus,
    private readonly config: DispatcherConfig,
    private readonly runs: RunService,
  ) {}

  onApplicationBootstrap(): void {
    this.worker = this.bus.work(Runs.work, (message, context) => this.runs.work(message, context), {
      slots: this.config.slots,
      ackWaitMs: this.config.ackWaitMs,
      ceilingMs: this.config.runTimeoutMs + 600_000,
      // The run record counts attempts without progress and ends the run itself; a message is never lost to a count.
      maxAttempts: Number.MAX_SAFE_INTEGER,
      backoffMs: { base: 500, cap: 15_000 },
    });
  }

  /** Runs are handed back at their next durable step; what is being answered or run right now is waited for. */
  async beforeApplicationShutdown(): Promise<void> {
    this.runs.stop();
    await this.worker?.stop();
  }
}
