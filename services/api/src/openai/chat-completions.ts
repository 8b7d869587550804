import { Inject, Injectable } from '@nestjs/common';
import { type Bus } from '@yardmaster/bus';
import { type ChatEnd, newId, Router, YardError } from '@yardmaster/contracts';
import { ConversationStore } from '@yardmaster/conversation';
import { BUS } from '@yardmaster/service-kit';
import { ApiConfig } from '../config.js';
import type { ApiRequest } from '../http/request.js';
import { type ChatCall, ChatReply, finishReasonOf } from './chat-reply.js';
import type { ChatRequestDto } from './chat-request.dto.js';
import { fromOpenAiMessages } from './openai-messages.js';
import { isReadAsText, readCalls } from './read-calls.js';

/** Messages above this size go through Redis: nothing on the bus is larger than it takes. */
const INLINE_BYTES = 256 * 1024;

/** What becomes of an answer: a connection that takes chunks, or nothing but the end. */
export interface ChunkSink {
  begin(model: string): void;
  text(text: string): void;
  reasoning(text: string): void;
}

/** The answer, with calls in the form of this API whatever dialect the model spoke. */
export interface ChatAnswer {
  end: ChatEnd;
  text: string;
  reasoning: string;
  calls: ChatCall[];
  /** Text that the sink has not been given, because it could have been a call. */
  unsent: string;
}

/** Chat completions: one question to the router, nothing stored. */
@Injectable()
export class ChatCompletions {
  constructor(
    @Inject(BUS) private readonly bus: Bus,
    private readonly store: ConversationStore,
    private readonly config: ApiConfig,
  ) {}

  /** Asks; passes text on as it comes. Throws the router's error, or `YM-STREAM-RESTARTED` once text was passed on. */
  async ask(request: ApiRequest, body: ChatRequestDto, signal: AbortSignal, sink?: ChunkSink): Promise<ChatAnswer> {
    const { tenant } = request.caller;
    const { system, messages } = fromOpenAiMessages(body.messages);
    const json = JSON.stringify(messages);
    const inline =
      Buffer.byteLength(json) <= INLINE_BYTES
        ? { inlineMessagesJson: json }
        : { inlineKey: await this.store.bodies.put(tenant, json) };
    const requestId = newId();
    const maxOutputTokens = body.max_completion_tokens ?? body.max_tokens;
    const frames = this.bus.stream(
      Router.chat,
      tenant,
      {
        requestId,
        ...inline,
        system,
        model: body.model,
        providers: body.providers ?? [],
        inlineToolsJson: body.tools?.length ? JSON.stringify(body.tools) : '',
        toolChoiceJson: body.tool_choice == null ? '' : JSON.stringify(body.tool_choice),
        responseFormatJson: body.response_format == null ? '' : JSON.stringify(body.response_format),
        ...(body.temperature != null && { temperature: body.temperature }),
        ...(body.top_p != null && { topP: body.top_p }),
        ...(maxOutputTokens != null && { maxOutputTokens }),
        ...(body.seed != null && { seed: body.seed }),
        stop: typeof body.stop === 'string' ? [body.stop] : (body.stop ?? []),
      },
      { requestId, timeoutMs: this.config.modelTimeoutMs, signal, trace: request.trace },
    );
    let sent = false;
    // An answer that is complete at once is its end frame alone: then nothing of it was passed on before.
    let begun = false;
    let reasoned = false;
    // With tools, the text of a model without a tool API can turn out to be a call: it is kept until the end.
    let hold = false;
    for await (const { kind } of frames) {
      switch (kind.case) {
        case 'start':
          hold = isReadAsText(kind.value, body.tools ?? []);
          begun = true;
          sink?.begin(kind.value.model);
          break;
        case 'delta':
          if (!hold) {
            sent ||= sink !== undefined;
            sink?.text(kind.value);
          }
          break;
        case 'reasoning':
          reasoned = true;
          sink?.reasoning(kind.value);
          break;
        case 'attemptReset':
          if (sent)
            throw new YardError(
              'UNAVAILABLE',
              'YM-STREAM-RESTARTED',
              'The provider failed in the middle of its answer; send the request again.',
            );
          break;
        case 'end': {
          const answer = readCalls(kind.value, body.tools ?? []);
          if (!begun) sink?.begin(kind.value.model);
          if (!reasoned && answer.reasoning !== '') sink?.reasoning(answer.reasoning);
          return { end: kind.value, ...answer, unsent: hold || !sent ? answer.text : '' };
        }
        case 'call':
        case 'usage':
        case undefined:
          break;
      }
    }
    throw new YardError('UNAVAILABLE', 'YM-STREAM-CUT', 'The answer of the model broke off; send the request again.');
  }

  /** The answer as one object. */
  whole(answer: ChatAnswer) {
    const { end, text, reasoning, calls } = answer;
    return new ChatReply(end.model).whole({
      text,
      reasoning,
      calls,
      finishReason: finishReasonOf(end.finishReason, calls.length),
      usage: usageOf(end),
      extra: { provider: end.provider },
    });
  }
}

export const usageOf = (end: ChatEnd) => ({
  promptTokens: end.usage?.promptTokens ?? 0,
  completionTokens: end.usage?.completionTokens ?? 0,
  cachedTokens: end.usage?.cachedTokens ?? 0,
  reasoningTokens: end.usage?.reasoningTokens ?? 0,
});
