import type { MessageInitShape } from '@bufbuild/protobuf';
import type { AttemptSchema, ChatEndSchema, UsageSchema } from '@yardmaster/contracts';
import type { Usage } from '@yardmaster/llm-wire';
import type { AttemptRecord, ChatResult } from '../failover/frame.js';

/** The engine's result in the form that travels. */
export function toChatEnd(result: ChatResult): MessageInitShape<typeof ChatEndSchema> {
  const { marks } = result;
  return {
    finishReason: result.finishReason,
    text: result.text,
    reasoning: result.reasoning,
    calls: result.calls.map((call, index) => ({ index, ...call })),
    usage: toUsage(result.usage, result.costUsd),
    provider: result.provider,
    model: result.model,
    dialect: result.dialect,
    thinkingBlocksJson: result.thinkingBlocks.length === 0 ? '' : JSON.stringify(result.thinkingBlocks),
    marks: {
      textFromReasoning: marks.textFromReasoning ?? false,
      inlineThink: marks.inlineThink ?? false,
      responsesFallback: marks.responsesFallback ?? false,
      turnsCut: marks.turnsCut ?? 0,
      thinkPrefilled: marks.thinkPrefilled ?? false,
      textFallback: marks.textFallback ?? '',
      ...(marks.maxTokensLoweredTo === undefined ? {} : { maxOutputTokensLoweredTo: marks.maxTokensLoweredTo }),
      attempts: result.attempts.map(toAttempt),
    },
  };
}

export function toAttempt(record: AttemptRecord): MessageInitShape<typeof AttemptSchema> {
  return {
    provider: record.provider,
    model: record.model,
    keyHash: record.keyId,
    outcome: record.outcome,
    status: record.status,
    durationMs: Math.round(record.durationMs),
    usage: toUsage(record.usage, record.costUsd),
  };
}

export function toUsage(usage: Usage | null, costUsd: number | undefined): MessageInitShape<typeof UsageSchema> {
  return {
    promptTokens: usage?.prompt_tokens ?? 0,
    completionTokens: usage?.completion_tokens ?? 0,
    cachedTokens: usage?.cached_tokens ?? 0,
    reasoningTokens: usage?.reasoning_tokens ?? 0,
    costUsd: costUsd ?? 0,
  };
}
