// Failures of providers, and the class that each must get.
import { classifyFailure, type Failure } from '@yardmaster/llm-wire';
import type { Suite, Verdict } from '../suite.ts';

interface ErrorCase {
  id: string;
  provider: string;
  status: number;
  headers: Record<string, string>;
  body: unknown;
  error?: unknown;
  now?: string | number;
  expected: { class: string; retry_after_ms?: number; accept?: string[] };
}

export const suite: Suite = function* (content) {
  for (const one of content as ErrorCase[]) yield judge(one);
};

function judge(one: ErrorCase): Verdict {
  const failure: Failure = { status: one.status, headers: one.headers, body: one.body, provider: one.provider };
  if (one.error !== undefined) failure.error = one.error;
  if (one.now !== undefined) failure.now = typeof one.now === 'number' ? one.now : Date.parse(one.now);
  const verdict = classifyFailure(failure);
  const got = { class: verdict.class, retry_after_ms: verdict.retryAfterMs };
  const allowed = one.expected.accept ?? [one.expected.class];
  if (!allowed.includes(verdict.class)) {
    return { id: one.id, ok: false, expected: one.expected, got, why: `class must be one of ${allowed.join(', ')}` };
  }
  const waits = verdict.class === 'retry' || verdict.class === 'rotate_key_then_retry';
  if (waits && verdict.retryAfterMs !== one.expected.retry_after_ms) {
    return { id: one.id, ok: false, expected: one.expected, got, why: 'the wait that the provider asks for differs' };
  }
  return { id: one.id, ok: true };
}
