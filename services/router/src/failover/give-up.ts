import { YardError } from '@yardmaster/contracts';
import type { AttemptRecord } from './frame.js';

/** Why nothing is left to try, beside what the attempts say. */
export interface GiveUp {
  because:
    | 'deadline'
    | 'exhausted'
    | 'broken'
    | 'overflow'
    | 'content_filter'
    | 'model_output'
    | 'no_candidate'
    | 'unsendable';
  /** Earliest moment at which something may be tried again. */
  retryAt: number | undefined;
  /** Texts of candidates that could not take the request at all. */
  refusals: readonly string[];
}

/** The one error of a request that nobody answered: says what happened at whom, and when to come back. No provider text. */
export function giveUpError(why: GiveUp, attempts: readonly AttemptRecord[], now: number): YardError {
  const retryAfterMs =
    why.retryAt === undefined || !Number.isFinite(why.retryAt) ? undefined : Math.max(0, Math.ceil(why.retryAt - now));
  const details = { attempts: attempts.map(publicAttempt) };
  const story = tell(attempts, retryAfterMs);
  switch (why.because) {
    case 'no_candidate':
      return new YardError(
        'INVALID',
        'YM-LLM-NO-PROVIDER',
        'No provider is configured for this model. Add one, or name another model.',
      );
    case 'unsendable':
      return new YardError(
        'INVALID',
        'YM-LLM-UNSENDABLE',
        `No provider can take this request: ${[...new Set(why.refusals)].join('; ')}.`,
        { details },
      );
    case 'deadline':
      return new YardError('TIMEOUT', 'YM-LLM-TIMEOUT', `No complete answer before the deadline. ${story}`, {
        details,
      });
    case 'broken':
      return new YardError(
        'UNAVAILABLE',
        'YM-LLM-BROKEN',
        `The answer broke off after a part of it was shown. ${story}`,
        { details },
      );
    case 'overflow':
      return new YardError(
        'INVALID',
        'YM-LLM-CONTEXT',
        `The request does not fit the context window of any model in the chain, and nothing is left to cut. Shorten the last message or configure a model with a larger window. ${story}`,
        { details },
      );
    case 'content_filter':
      return new YardError(
        'DENIED',
        'YM-LLM-CONTENT-FILTER',
        `The provider refused the content of the request. ${story}`,
        { details },
      );
    case 'model_output':
      return new YardError(
        'UNAVAILABLE',
        'YM-LLM-MODEL-OUTPUT',
        'The model wrote a tool call that its server could not read.',
        { details },
      );
    case 'exhausted': {
      const throttled =
        attempts.length > 0
          ? attempts.every((attempt) => attempt.outcome === 'rotate_key_then_retry' || attempt.reason === 'plan_limit')
          : retryAfterMs !== undefined;
      const options = retryAfterMs === undefined ? { details } : { details, retryAfterMs };
      return throttled
        ? new YardError('EXHAUSTED', 'YM-LLM-EXHAUSTED', `No provider answered. ${story}`, options)
        : new YardError('UNAVAILABLE', 'YM-LLM-EXHAUSTED', `No provider answered. ${story}`, options);
    }
  }
}

function publicAttempt(attempt: AttemptRecord): Record<string, unknown> {
  const { provider, model, keyId, outcome, reason, status, durationMs } = attempt;
  return {
    provider,
    model,
    key: keyId,
    class: outcome,
    ...(reason === undefined ? {} : { reason }),
    status,
    ms: durationMs,
  };
}

const WORDS: Record<string, string> = {
  throttled: 'rate limit',
  plan_limit: 'quota or balance used up',
  auth: 'key refused',
  network: 'not reachable',
  timeout: 'too slow',
  first_token: 'no first token in time',
  idle: 'fell silent',
  total: 'took too long',
  truncated: 'answer cut off',
  server: 'server error',
  empty: 'empty answer',
  model: 'model not available',
  overflow: 'context window exceeded',
  content_filter: 'content refused',
  not_found: 'no such route',
  rejected: 'request refused',
};

/** `openai/gpt-x: rate limit (429) 3 times; local/qwen: not reachable.` */
function tell(attempts: readonly AttemptRecord[], retryAfterMs: number | undefined): string {
  const counts = new Map<string, number>();
  for (const attempt of attempts) {
    const status = attempt.status >= 300 ? ` (${attempt.status})` : '';
    const words = WORDS[attempt.reason ?? ''] ?? attempt.outcome;
    const line = `${attempt.provider}/${attempt.model}: ${words}${status}`;
    counts.set(line, (counts.get(line) ?? 0) + 1);
  }
  const lines = [...counts].map(([line, count]) => (count === 1 ? line : `${line} ${count} times`));
  const wait = retryAfterMs === undefined ? '' : ` Try again in ${Math.ceil(retryAfterMs / 1000)} s.`;
  return lines.length === 0 ? `All providers are cooling down.${wait}` : `${lines.join('; ')}.${wait}`;
}
