import { Inject, Injectable } from '@nestjs/common';
import { type Bus } from '@yardmaster/bus';
import {
  type ChatEnd,
  type ChatFrame,
  type ChatRequestSchema,
  type LiveEventType,
  messages,
  newId,
  Router,
  subjects,
  type TenantId,
  YardError,
} from '@yardmaster/contracts';
import type { MessageInitShape } from '@bufbuild/protobuf';
import { BUS } from '@yardmaster/service-kit';

export type ChatRequestInit = MessageInitShape<typeof ChatRequestSchema>;

export interface ModelCallContext {
  tenant: TenantId;
  run: string;
  step: number;
  signal: AbortSignal;
  timeoutMs: number;
}

/** One answer of a model, whatever it takes; its text is passed on to whoever listens while it is written. */
@Injectable()
export class ModelCall {
  constructor(@Inject(BUS) private readonly bus: Bus) {}

  /** Resolves with the end frame, which holds the whole answer. Throws the router's error, or TIMEOUT. */
  async ask(request: ChatRequestInit, context: ModelCallContext): Promise<ChatEnd> {
    const requestId = newId();
    const deltas = new DeltaFeed(this.bus, context);
    let end: ChatEnd | undefined;
    for await (const frame of this.bus.stream(
      Router.chat,
      context.tenant,
      { ...request, requestId, runId: context.run },
      {
        requestId,
        timeoutMs: context.timeoutMs,
        signal: context.signal,
      },
    )) {
      deltas.take(frame);
      if (frame.kind.case === 'end') end = frame.kind.value;
    }
    if (end === undefined) throw new YardError('UNAVAILABLE', 'YM-STREAM-CUT', 'The answer of the model broke off.');
    return end;
  }
}

/** Passes the answer's text on as `message.delta` events, which nobody stores; each has the offset of its text. */
class DeltaFeed {
  private readonly subject: string;
  private offset = 0;

  constructor(
    private readonly bus: Bus,
    private readonly context: ModelCallContext,
  ) {
    this.subject = subjects.delta(context.tenant, context.run);
  }

  take(frame: ChatFrame): void {
    const { step } = this.context;
    switch (frame.kind.case) {
      case 'start': {
        const { provider, model, dialect, attempt } = frame.kind.value;
        this.say('message.attempt', { step, provider, model, dialect, attempt });
        return;
      }
      case 'delta':
        this.say('message.delta', { step, offset: this.offset, text: frame.kind.value });
        this.offset += frame.kind.value.length;
        return;
      case 'reasoning':
        this.say('message.delta', { step, reasoning: frame.kind.value });
        return;
      case 'attemptReset':
        this.offset = 0;
        this.say('message.delta', { step, offset: 0, reset: true, reason: frame.kind.value.reason });
        return;
      case 'call':
      case 'usage':
      case 'end':
      case undefined:
        return;
    }
  }

  private say(type: LiveEventType, data: Record<string, unknown>): void {
    this.bus.publish(this.subject, messages.event, {
      runId: this.context.run,
      type,
      atMs: BigInt(Date.now()),
      dataJson: JSON.stringify(data),
    });
  }
}
