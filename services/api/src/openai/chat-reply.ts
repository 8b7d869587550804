import type { ServerResponse } from 'node:http';
import { newId, type YardError } from '@yardmaster/contracts';
import { toOpenAiError } from '../http/problem.js';
import { SSE_HEADERS } from '../runs/event-stream.js';

export interface ChatUsage {
  promptTokens: number;
  completionTokens: number;
  cachedTokens?: number;
  reasoningTokens?: number;
}

export interface ChatCall {
  id: string;
  name: string;
  arguments: string;
}

const usageView = (usage: ChatUsage) => ({
  prompt_tokens: usage.promptTokens,
  completion_tokens: usage.completionTokens,
  total_tokens: usage.promptTokens + usage.completionTokens,
  prompt_tokens_details: { cached_tokens: usage.cachedTokens ?? 0 },
  completion_tokens_details: { reasoning_tokens: usage.reasoningTokens ?? 0 },
});

const callView = (call: ChatCall) => ({
  id: call.id,
  type: 'function',
  function: { name: call.name, arguments: call.arguments },
});

/** One answer of the chat completions API, whole or in chunks. */
export class ChatReply {
  readonly id = `chatcmpl-${newId().replaceAll('-', '')}`;
  private readonly created = Math.floor(Date.now() / 1000);
  private calls = 0;

  constructor(public model: string) {}

  whole(answer: {
    text: string;
    reasoning: string;
    calls: ChatCall[];
    finishReason: string;
    usage: ChatUsage;
    extra?: Record<string, unknown>;
  }) {
    return {
      id: this.id,
      object: 'chat.completion',
      created: this.created,
      model: this.model,
      choices: [
        {
          index: 0,
          message: {
            role: 'assistant',
            content: answer.text === '' && answer.calls.length > 0 ? null : answer.text,
            refusal: null,
            ...(answer.reasoning !== '' && { reasoning_content: answer.reasoning }),
            ...(answer.calls.length > 0 && { tool_calls: answer.calls.map(callView) }),
          },
          finish_reason: answer.finishReason,
          logprobs: null,
        },
      ],
      usage: usageView(answer.usage),
      ...answer.extra,
    };
  }

  /** Begins a stream of chunks on this connection. */
  begin(response: ServerResponse): void {
    response.writeHead(200, SSE_HEADERS);
    this.send(response, { delta: { role: 'assistant', content: '' } });
  }

  text(response: ServerResponse, content: string): void {
    this.send(response, { delta: { content } });
  }

  reasoning(response: ServerResponse, text: string): void {
    this.send(response, { delta: { reasoning_content: text } });
  }

  call(response: ServerResponse, call: ChatCall): void {
    this.send(response, { delta: { tool_calls: [{ index: this.calls++, ...callView(call) }] } });
  }

  end(response: ServerResponse, finishReason: string, usage: ChatUsage | undefined): void {
    this.send(response, { delta: {}, finish_reason: finishReason });
    if (usage !== undefined) this.write(response, { choices: [], usage: usageView(usage) });
    response.end('data: [DONE]\n\n');
  }

  /** The status has been sent: the error is a chunk, as OpenAI's clients expect it. */
  fail(response: ServerResponse, error: YardError, traceId: string): void {
    response.end(`data: ${JSON.stringify(toOpenAiError(error, traceId))}\n\n`);
  }

  private send(response: ServerResponse, choice: { delta: Record<string, unknown>; finish_reason?: string }): void {
    this.write(response, { choices: [{ index: 0, finish_reason: null, logprobs: null, ...choice }] });
  }

  private write(response: ServerResponse, chunk: Record<string, unknown>): void {
    const head = { id: this.id, object: 'chat.completion.chunk', created: this.created, model: this.model };
    response.write(`data: ${JSON.stringify({ ...head, ...chunk })}\n\n`);
  }
}

/** What OpenAI's clients understand of a finish reason. */
export const finishReasonOf = (reason: string, calls: number) =>
  calls > 0 ? 'tool_calls' : ['stop', 'length', 'content_filter'].includes(reason) ? reason : 'stop';
