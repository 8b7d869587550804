import { networkErrorCode, readErrorFacts, type ErrorFacts } from './error-facts.js';
import type { Failure, FailureClass, FailureReason, FailureVerdict, HeaderSource } from './failure-verdict.js';
import {
  AUTH_CODES,
  AUTH_TEXT,
  CERTIFICATE,
  FILTER_TEXT,
  HOPELESS_NETWORK,
  INCAPABLE_TEXT,
  MINIMAX,
  MODEL_CODES,
  MODEL_OUTPUT_TEXT,
  MODEL_TEXT,
  NOT_ZAI,
  OVERFLOW_CODES,
  OVERFLOW_TEXT,
  PLAN_CODES,
  PLAN_TEXT,
  RATE_WORDS,
  REJECTED_CODES,
  SHORT_WINDOW,
  THROTTLE_CODES,
  THROTTLE_TEXT,
  ZAI_MODEL,
  ZAI_PLAN,
  ZAI_RETRY,
  ZAI_THROTTLE,
} from './failure-vocabulary.js';
import { readOverflow } from './overflow-numbers.js';
import { readRetryAfter } from './retry-after.js';

/**
 * Says what a failure means for the next step. Never throws, whatever the body.
 * Checks in order: the model's output, overflow, plan limit, throttling, transient, model, the rest.
 */
export function classifyFailure(failure: Failure): FailureVerdict {
  const status = failure.status ?? 0;
  if (status === 0 && failure.error !== undefined) return classifyNetwork(failure.error);
  const facts = readErrorFacts(failure.body);
  const headers = headerMap(failure.headers);
  const [failureClass, reason] = judge(status, facts, failure.provider ?? '');
  const verdict: FailureVerdict = { class: failureClass, reason, status };
  const code = facts.codes[0] ?? (facts.baseCode === undefined ? undefined : String(facts.baseCode));
  if (code !== undefined) verdict.code = code;
  if (facts.text !== '') verdict.text = facts.text.slice(0, 2048);
  if (failureClass === 'retry' || failureClass === 'rotate_key_then_retry') {
    const wait = readRetryAfter(headers, facts, failure.now ?? 0);
    if (wait !== undefined) verdict.retryAfterMs = wait;
  } else if (failureClass === 'context_overflow') {
    verdict.overflow = readOverflow(facts);
  }
  return verdict;
}

function classifyNetwork(error: unknown): FailureVerdict {
  const code = networkErrorCode(error);
  const verdict: FailureVerdict = { class: 'retry', reason: 'network', status: 0 };
  if (code !== undefined) verdict.code = code;
  if (code !== undefined && /TIMEOUT|ETIMEDOUT/.test(code)) verdict.reason = 'timeout';
  const { class: guardClass, message } = (error ?? {}) as { class?: unknown; message?: unknown };
  const refused = guardClass === 'DENIED';
  if (refused && typeof message === 'string') verdict.text = message;
  if (refused || (code !== undefined && (CERTIFICATE.test(code) || HOPELESS_NETWORK.test(code)))) {
    // A certificate, or an address that our own guard refused, does not get better by asking again.
    return { ...verdict, class: 'next_provider', reason: 'rejected' };
  }
  return verdict;
}

type Judgement = readonly [FailureClass, FailureReason];

function judge(httpStatus: number, facts: ErrorFacts, provider: string): Judgement {
  // Gateways answer 200 and put the upstream's status into the body.
  const inside = httpStatus === 0 || (httpStatus >= 200 && httpStatus < 300);
  const status = inside ? (facts.innerStatus ?? 0) : httpStatus;
  const zai = NOT_ZAI.test(provider) ? [] : facts.codes;
  const text = facts.text;
  const is429 = status === 429;

  if (facts.baseCode !== undefined) {
    if (facts.baseCode === 2013 && isOverflowText(text)) return ['context_overflow', 'overflow'];
    const known = MINIMAX[facts.baseCode];
    if (known !== undefined) return known;
  }
  if (isModelOutput(status, inside, facts)) return ['model_output', 'model_output'];
  if (!is429 && status !== 402 && isOverflow(facts, zai, inside)) return ['context_overflow', 'overflow'];
  if (zai.some((code) => ZAI_MODEL.has(code)) && status < 500) return ['next_model', 'model'];
  if (isPlanLimit(status, inside, facts, zai, provider)) return ['next_provider', 'plan_limit'];
  if (is429 || (inside && isThrottled(status, facts, zai))) return ['rotate_key_then_retry', 'throttled'];
  if (status === 408) return ['retry', 'timeout'];
  if (status >= 500 && isIncapable(facts)) return ['next_model', 'model'];
  if (status >= 500) return ['retry', 'server'];
  if (status === 401) return ['next_provider', 'auth'];
  if (zai.some((code) => ZAI_RETRY.has(code)) && inside) return ['retry', 'server'];
  if (isModel(status, facts)) return ['next_model', 'model'];
  if (facts.codes.some((code) => AUTH_CODES.test(code)) || AUTH_TEXT.test(text)) return ['next_provider', 'auth'];
  if (facts.codes.some((code) => FILTER_TEXT.test(code)) || FILTER_TEXT.test(text))
    return ['next_provider', 'content_filter'];
  if (inside && status === 0 && !facts.codes.some((code) => REJECTED_CODES.test(code))) return ['retry', 'server'];
  if (status === 404) return ['next_provider', 'not_found'];
  return ['next_provider', 'rejected'];
}

function isModelOutput(status: number, inside: boolean, facts: ErrorFacts): boolean {
  const unreadable = facts.codes.includes('tool_use_failed') || facts.codes.includes('malformed_function_call');
  if (unreadable && (inside || status === 400)) return true;
  return (inside || status === 500) && MODEL_OUTPUT_TEXT.some((pattern) => pattern.test(facts.text));
}

/** The server has no part for this: it is healthy, and asking again is no help. */
function isIncapable(facts: ErrorFacts): boolean {
  return facts.codes.includes('not_supported_error') || INCAPABLE_TEXT.some((pattern) => pattern.test(facts.text));
}

function isOverflow(facts: ErrorFacts, zai: readonly string[], inside: boolean): boolean {
  if (facts.codes.some((code) => OVERFLOW_CODES.has(code)) || zai.includes('1261') || facts.codes.includes('3051'))
    return true;
  if (facts.promptTokens !== undefined && facts.contextLimit !== undefined) return true;
  // A rate-limit code beside words about size is a limit per minute, not the window.
  if (facts.codes.some((code) => THROTTLE_CODES.test(code)) && !inside) return false;
  return isOverflowText(facts.text);
}

function isOverflowText(text: string): boolean {
  if (text === '') return false;
  if (/range of input length/i.test(text)) return true;
  if (RATE_WORDS.test(text) && !/context/i.test(text)) return false;
  return OVERFLOW_TEXT.some((pattern) => pattern.test(text));
}

function isPlanLimit(
  status: number,
  inside: boolean,
  facts: ErrorFacts,
  zai: readonly string[],
  provider: string,
): boolean {
  if (status === 402) return true;
  if (facts.quotaIds.length > 0) {
    if (facts.quotaIds.some((id) => /per(day|week|month)/i.test(id))) return true;
    if (facts.quotaIds.some((id) => /per(second|minute|hour)/i.test(id))) return false;
  }
  const dashscope = /dashscope|qwen|alibaba/i.test(provider);
  if (facts.codes.some((code) => PLAN_CODES.has(code)) && !(dashscope && facts.codes.includes('insufficient_quota')))
    return true;
  if (zai.some((code) => ZAI_PLAN.has(code))) return true;
  if (zai.some((code) => ZAI_THROTTLE.has(code))) return false;
  // With a 5xx the status says that the server is at fault; words alone do not outweigh it.
  if (status >= 500 || status === 408 || facts.text === '') return false;
  if (dashscope && status === 429 && !/free/i.test(facts.text)) return false;
  const daily =
    /per[ -]?(day|week|month)\b|\b(daily|weekly|monthly)\b|\b[TR]PD\b|\/ ?(day|week|month)\b|per 86400|ByDay\b/i.test(
      facts.text,
    );
  if (SHORT_WINDOW.test(facts.text) && !daily) return false;
  // Google uses one text for the minute and the day; without a quota id it is the shorter one.
  if (facts.codes.includes('resource_exhausted'))
    return /per[ -]?day|PerDay|spend|billing account|prepay/i.test(facts.text);
  if (status === 429 || inside || status === 400 || status === 403 || status === 412) {
    return PLAN_TEXT.some((pattern) => pattern.test(facts.text));
  }
  return PLAN_TEXT.slice(0, 4).some((pattern) => pattern.test(facts.text));
}

function isThrottled(status: number, facts: ErrorFacts, zai: readonly string[]): boolean {
  if (status !== 0 && status !== 429) return false;
  if (facts.codes.some((code) => THROTTLE_CODES.test(code)) || zai.some((code) => ZAI_THROTTLE.has(code))) return true;
  return THROTTLE_TEXT.test(facts.text);
}

function isModel(status: number, facts: ErrorFacts): boolean {
  if (facts.codes.some((code) => MODEL_CODES.has(code))) return true;
  if (facts.codes.includes('unsupported_parameter') || facts.codes.includes('unsupported_value')) return false;
  if (status === 422 && facts.codes.includes('invalid_request_error')) return false;
  return MODEL_TEXT.some((pattern) => pattern.test(facts.text));
}

/** True when a 404 speaks of a model, deployment or endpoint: then the route exists and `/v1/responses` is not tried. */
export function speaksOfModel(body: unknown): boolean {
  const facts = readErrorFacts(body);
  if (facts.codes.some((code) => MODEL_CODES.has(code) || ZAI_MODEL.has(code))) return true;
  return /\b(models?|deployments?|endpoints?)\b/i.test(facts.text);
}

function headerMap(headers: Failure['headers']): Map<string, string> {
  const map = new Map<string, string>();
  if (headers === undefined) return map;
  if (headers instanceof Map || typeof (headers as HeaderSource).forEach === 'function') {
    (headers as HeaderSource).forEach((value, name) => map.set(name.toLowerCase(), String(value)));
    return map;
  }
  for (const [name, value] of Object.entries(headers as Record<string, unknown>)) {
    const first: unknown = Array.isArray(value) ? value[0] : value;
    if (typeof first === 'string' || typeof first === 'number') map.set(name.toLowerCase(), String(first));
  }
  return map;
}
