import { asObject } from './json-value.js';
import type { Usage } from './wire-types.js';

function count(...values: unknown[]): number | undefined {
  for (const value of values) if (typeof value === 'number' && Number.isFinite(value) && value >= 0) return value;
  return undefined;
}

/** The token counts of a chat or Responses usage object, under one set of names; null when it holds none. */
export function readUsage(value: unknown): Usage | null {
  const usage = asObject(value);
  if (usage === undefined) return null;
  const promptDetails = asObject(usage['prompt_tokens_details']) ?? asObject(usage['input_tokens_details']);
  const outputDetails = asObject(usage['completion_tokens_details']) ?? asObject(usage['output_tokens_details']);
  const prompt = count(usage['prompt_tokens'], usage['input_tokens']);
  const completion = count(usage['completion_tokens'], usage['output_tokens']);
  const total = count(usage['total_tokens']);
  if (prompt === undefined && completion === undefined && total === undefined) return null;
  return build(
    prompt ?? Math.max(0, (total ?? 0) - (completion ?? 0)),
    completion ?? Math.max(0, (total ?? 0) - (prompt ?? 0)),
    total,
    count(
      promptDetails?.['cached_tokens'],
      usage['cached_tokens'],
      usage['prompt_cache_hit_tokens'],
      usage['cache_read_input_tokens'],
      usage['num_cached_tokens'],
    ),
    count(promptDetails?.['cache_write_tokens'], usage['cache_creation_input_tokens']),
    count(outputDetails?.['reasoning_tokens'], usage['reasoning_tokens'], usage['thinking_tokens']),
  );
}

/** Anthropic counts cache reads and writes beside `input_tokens`; here the prompt is all of them. */
export function readAnthropicUsage(value: unknown, before: Usage | null): Usage | null {
  const usage = asObject(value);
  if (usage === undefined) return before;
  const read = count(usage['cache_read_input_tokens']) ?? before?.cached_tokens ?? 0;
  const write = count(usage['cache_creation_input_tokens']) ?? before?.cache_write_tokens ?? 0;
  const fresh = count(usage['input_tokens']);
  const prompt =
    fresh === undefined
      ? (before?.prompt_tokens ?? 0)
      : // `message_delta` of some servers repeats input_tokens as 0.
        Math.max(fresh + read + write, before?.prompt_tokens ?? 0);
  const completion = count(usage['output_tokens']) ?? before?.completion_tokens ?? 0;
  return build(prompt, completion, undefined, read, write, undefined);
}

/** The last message of llama.cpp's `/completion`. */
export function readCompletionUsage(body: Record<string, unknown>): Usage | null {
  const timings = asObject(body['timings']);
  const prompt = count(body['tokens_evaluated'], timings?.['prompt_n']);
  const completion = count(body['tokens_predicted'], timings?.['predicted_n']);
  if (prompt === undefined && completion === undefined) return null;
  return build(prompt ?? 0, completion ?? 0, undefined, count(timings?.['cache_n']), undefined, undefined);
}

function build(
  prompt: number,
  completion: number,
  total: number | undefined,
  cached: number | undefined,
  cacheWrite: number | undefined,
  reasoning: number | undefined,
): Usage {
  const usage: Usage = {
    prompt_tokens: prompt,
    completion_tokens: completion,
    total_tokens: total ?? prompt + completion,
  };
  if (cached !== undefined) usage.cached_tokens = cached;
  if (cacheWrite !== undefined) usage.cache_write_tokens = cacheWrite;
  if (reasoning !== undefined) usage.reasoning_tokens = reasoning;
  return usage;
}
