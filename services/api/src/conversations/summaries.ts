import { Inject, Injectable } from '@nestjs/common';
import { type Bus } from '@yardmaster/bus';
import { newId, Router, YardError } from '@yardmaster/contracts';
import type { ConversationRef } from '@yardmaster/conversation';
import { BUS } from '@yardmaster/service-kit';
import { ApiConfig } from '../config.js';
import { readCalls } from '../openai/read-calls.js';

const INSTRUCTION =
  'Summarise the conversation above for whoever goes on with it: the task, what was decided, what was done and found, ' +
  'names of files and values that matter, and what is open. Answer with the summary only.';

/** Summaries of conversations, written by a model. */
@Injectable()
export class Summaries {
  constructor(
    @Inject(BUS) private readonly bus: Bus,
    private readonly config: ApiConfig,
  ) {}

  /** A summary of everything up to a sequence. Throws what the router throws, UNAVAILABLE when the model said nothing. */
  async write(ref: ConversationRef, upToSeq: number, model: string | undefined): Promise<string> {
    const requestId = newId();
    const request = {
      requestId,
      conversationId: ref.conversation,
      upToSeq: BigInt(upToSeq),
      model: model ?? '',
      tailMessagesJson: JSON.stringify([{ type: 'chat', role: 'user', content: INSTRUCTION }]),
    };
    const timeoutMs = this.config.modelTimeoutMs;
    for await (const { kind } of this.bus.stream(Router.chat, ref.tenant, request, { requestId, timeoutMs }))
      if (kind.case === 'end') {
        const text = readCalls(kind.value, []).text.trim();
        if (text !== '') return text;
      }
    throw new YardError('UNAVAILABLE', 'YM-SUMMARY-EMPTY', 'The model wrote no summary; send one as "summary".');
  }
}
