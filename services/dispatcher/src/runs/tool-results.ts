import { Inject, Injectable, type OnApplicationBootstrap, type OnModuleDestroy } from '@nestjs/common';
import { Bus } from '@yardmaster/bus';
import { messages, STREAMS, type ToolResult } from '@yardmaster/contracts';
import { BUS } from '@yardmaster/service-kit';

/**
 * Results of tool calls. One core subscription a process hears that something was stored; the stored message is what
 * counts. A wake-up can be lost (a reconnect), so waiting also looks now and then.
 */
@Injectable()
export class ToolResults implements OnApplicationBootstrap, OnModuleDestroy {
  private readonly waiting = new Map<string, () => void>();
  private stop: (() => void) | undefined;

  constructor(@Inject(BUS) private readonly bus: Bus) {}

  onApplicationBootstrap(): void {
    this.stop = this.bus.hear('ym.res.*.*.*.*', messages.result, (_result, context) =>
      this.waiting.get(context.subject)?.(),
    );
  }

  onModuleDestroy(): void {
    this.stop?.();
  }

  /** The stored result of `subject`, if there is one. */
  async stored(subject: string): Promise<ToolResult | undefined> {
    return (await this.bus.getStored(STREAMS.results.name, subject, messages.result))?.message;
  }

  /**
   * Starts listening at once (before the call is published, so that a fast result is not missed) and resolves with the
   * stored result; undefined when `signal` aborts first.
   */
  wait(subject: string, signal: AbortSignal, lookEveryMs = 5_000): Promise<ToolResult | undefined> {
    return new Promise((resolve, reject) => {
      let looking = false;
      let again = false;
      const finish = (settle: () => void) => {
        clearInterval(timer);
        signal.removeEventListener('abort', abort);
        this.waiting.delete(subject);
        settle();
      };
      const look = (heard: boolean) => {
        if (looking) {
          again ||= heard;
          return;
        }
        looking = true;
        this.lookUp(subject, heard)
          .then((result) => {
            looking = false;
            if (result !== undefined) finish(() => resolve(result));
            else if (again) {
              again = false;
              look(true);
            }
          })
          .catch((error: unknown) => {
            looking = false;
            // Nobody serves the store for the moment: the next look may find it.
            if (!(error instanceof Error)) finish(() => reject(new Error(String(error))));
          });
      };
      const timer = setInterval(() => look(false), lookEveryMs);
      const abort = () => finish(() => resolve(undefined));
      this.waiting.set(subject, () => look(true));
      if (signal.aborted) abort();
      else signal.addEventListener('abort', abort, { once: true });
    });
  }

  /** What was heard live can be faster than the store, or refused by it (a second result): so ask a few times. */
  private async lookUp(subject: string, heard: boolean): Promise<ToolResult | undefined> {
    for (let tries = 0; ; tries++) {
      const result = await this.stored(subject);
      if (result !== undefined || !heard || tries === 20) return result;
      await new Promise((resolve) => setTimeout(resolve, 1 + tries));
    }
  }
}
