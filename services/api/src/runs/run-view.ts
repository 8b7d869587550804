import type { RunRecord } from '@yardmaster/conversation';

const time = (ms: number | undefined) => (ms === undefined ? null : new Date(ms).toISOString());

/** A run as callers see it. */
export function runView(record: RunRecord) {
  return {
    id: record.id,
    object: 'run',
    state: record.state,
    conversation_id: record.conversation,
    agent: record.agent ?? null,
    model: record.model ?? null,
    ...(record.output === undefined ? {} : { output: record.output }),
    ...(record.error === undefined ? {} : { error: record.error }),
    ...(record.reason === undefined ? {} : { reason: record.reason }),
    ...(record.cancelReason === undefined ? {} : { cancel_reason: record.cancelReason }),
    usage: {
      prompt_tokens: record.promptTokens,
      completion_tokens: record.completionTokens,
      cached_tokens: record.cachedTokens,
      total_tokens: record.promptTokens + record.completionTokens,
      cost_usd: record.costUsd,
    },
    steps: record.steps,
    created_at: time(record.createdMs),
    started_at: time(record.startedMs),
    updated_at: time(record.updatedMs),
    ended_at: time(record.endedMs),
    metadata: record.metadataJson === undefined ? {} : (JSON.parse(record.metadataJson) as Record<string, unknown>),
  };
}

export type RunView = ReturnType<typeof runView>;
