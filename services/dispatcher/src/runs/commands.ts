import { Inject, Injectable, type OnApplicationBootstrap, type OnModuleDestroy } from '@nestjs/common';
import { Bus } from '@yardmaster/bus';
import { messages, type RunCommand, subjects, type TenantId, tenantId } from '@yardmaster/contracts';
import { BUS } from '@yardmaster/service-kit';

type Listener = (command: RunCommand) => void;

/** Commands to runs (cancel, steer) as they are spoken; the truth stays in the run record, so a missed one costs time only. */
@Injectable()
export class RunCommands implements OnApplicationBootstrap, OnModuleDestroy {
  private readonly listeners = new Map<string, Listener>();
  private stop: (() => void) | undefined;

  constructor(@Inject(BUS) private readonly bus: Bus) {}

  onApplicationBootstrap(): void {
    this.stop = this.bus.hear('ym.cmd.*.*', messages.command, (command, context) => {
      const [, , tenant = '', run = ''] = context.subject.split('.');
      this.listeners.get(subjects.command(tenantId(tenant), run))?.(command);
    });
  }

  onModuleDestroy(): void {
    this.stop?.();
  }

  /** Calls `listener` for each command to this run until the returned function is called. */
  listen(tenant: TenantId, run: string, listener: Listener): () => void {
    const key = subjects.command(tenant, run);
    this.listeners.set(key, listener);
    return () => {
      if (this.listeners.get(key) === listener) this.listeners.delete(key);
    };
  }
}
