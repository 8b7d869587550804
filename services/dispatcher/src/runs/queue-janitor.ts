import { fromBinary } from '@bufbuild/protobuf';
import { Inject, Injectable } from '@nestjs/common';
import { type Bus } from '@yardmaster/bus';
import { ConversationStore, isTerminal } from '@yardmaster/conversation';
import { messages, RunMessageSchema, Runs, STREAMS, subjects, tenantId, ToolCallSchema } from '@yardmaster/contracts';
import { BUS, LOGGER, type Logger } from '@yardmaster/service-kit';

const MOST_AT_ONCE = 500;

/**
 * Clears the work queues of messages that were done already. After a crash nats-server 2.9 puts acknowledged messages
 * back into a queue: they are never delivered again, but they count for their tenant's share. Gone is what the
 * consumer's ack floor covers, a call whose result is stored, and a message of a run that is over.
 */
@Injectable()
export class QueueJanitor {
  constructor(
    @Inject(BUS) private readonly bus: Bus,
    @Inject(LOGGER) private readonly log: Logger,
    private readonly store: ConversationStore,
  ) {}

  async sweep(): Promise<void> {
    for (const stream of [Runs.work.stream, ...(await this.bus.streamsOf('ym.tool.>'))]) await this.clear(stream);
  }

  private async clear(stream: string): Promise<void> {
    const {
      first,
      messages: held,
      known,
      ackedUpTo,
      deliveredUpTo,
    } = await this.bus.queueState(stream, Runs.work.consumer);
    if (held <= known) return;
    let removed = 0;
    for (let from = first, looked = 0; from <= deliveredUpTo && looked < MOST_AT_ONCE; looked++) {
      const message = await this.bus.nextMessage(stream, from);
      if (message === undefined || message.sequence > deliveredUpTo) break;
      from = message.sequence + 1;
      if (message.sequence > ackedUpTo && !(await this.isDone(stream, message))) continue;
      if (await this.bus.deleteMessage(stream, message.sequence)) removed++;
    }
    if (removed > 0)
      this.log.warn({ stream, removed }, 'messages that were done already lay in a queue and were removed');
  }

  /** What cannot be read or found is left alone: whoever gets it delivered decides. */
  private async isDone(stream: string, { subject, data }: { subject: string; data: Uint8Array }): Promise<boolean> {
    try {
      const tenant = tenantId(subject.split('.')[3] ?? '');
      if (stream === Runs.work.stream) {
        const { runId } = fromBinary(RunMessageSchema, data);
        return isTerminal((await this.store.getRun(tenant, runId)).state);
      }
      const { runId, callId, nonce } = fromBinary(ToolCallSchema, data);
      const result = subjects.result(tenant, runId, callId, nonce);
      return (await this.bus.getStored(STREAMS.results.name, result, messages.result)) !== undefined;
    } catch {
      return false;
    }
  }
}
