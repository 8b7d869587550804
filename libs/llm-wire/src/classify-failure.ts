import { networkErrorCode, readErrorFacts, type ErrorFacts } from './error-facts.js';
import { readOverflow, type OverflowNumbers } from './overflow-numbers.js';
import { readRetryAfter } from './retry-after.js';

/** What the failover engine does next. */
export type FailureClass =
  'retry' | 'rotate_key_then_retry' | 'context_overflow' | 'next_model' | 'model_output' | 'next_provider';

/** What happened, finer than the class: `auth` and `plan_limit` disable a key for every model, others do not. */
export type FailureReason =
  | 'network'
  | 'timeout'
  | 'server'
  | 'truncated'
  | 'throttled'
  | 'plan_limit'
  | 'auth'
  | 'model'
  | 'overflow'
  | 'model_output'
  | 'content_filter'
  | 'not_found'
  | 'rejected';

export interface FailureVerdict {
  class: FailureClass;
  reason: FailureReason;
  /** Only with `retry` and `rotate_key_then_retry`: the provider's own hint, at most 30 s. */
  retryAfterMs?: number;
  /** Only with `context_overflow`: the numbers that the provider named. */
  overflow?: OverflowNumbers;
  /** HTTP status, 0 when there was no response. */
  status: number;
  /** The provider's code, for logs. */
  code?: string;
  /** The provider's text, at most 2 KiB: for logs only, after redaction, never for callers. */
  text?: string;
}

export interface Failure {
  /** 0 or absent: no HTTP response. */
  status?: number;
  headers?: Headers | Map<string, string> | Record<string, string | string[] | undefined>;
  /** Text of the body, or a parsed event of a stream. */
  body?: unknown;
  /** What was thrown, when there was no response. */
  error?: unknown;
  /** Milliseconds since the epoch; needed for dates in headers. */
  now?: number;
  /** Catalogue kind or configured name. */
  provider?: string;
}

/** Whoever iterates over headers. */
interface Headers {
  forEach(callback: (value: string, name: string) => void): void;
}

const PLAN_CODES = new Set(
  (
    'insufficient_quota exceeded_current_quota_error billing_hard_limit_reached billing_not_active insufficient_balance ' +
    'insufficient_credits insufficient_user_quota payment_required arrearage quota_exhausted billing_error ' +
    'credit_balance_too_low usage_limit_reached usage_limit_exceeded usage_not_included free_quota_exhausted ' +
    'allocationquota.freetieronly account_deactivated spend_limit_exceeded'
  ).split(' '),
);
const THROTTLE_CODES =
  /^(429|.*rate_?limit.*|.*throttl.*|resource_exhausted|too_?many_?requests|.*requests_limit.*|token_quota_exceeded|too_many_tokens_error|limit_requests|limit_burst_rate|concurrency_limit.*)$/;
const OVERFLOW_CODES = new Set(
  (
    'context_length_exceeded exceed_context_size_error context_window_exceeded model_context_window_exceeded ' +
    'context_length_error max_context_length_exceeded prompt_too_long input_too_long context_overflow'
  ).split(' '),
);
const MODEL_CODES = new Set(
  (
    'model_not_found deploymentnotfound model_not_available model_not_supported unsupported_model model_deprecated ' +
    'model_decommissioned model_not_exist invalid_model unknown_model modelnotfound model_terms_required ' +
    'model_not_open modelnotopen model_disabled no_such_model modelerror.notfound'
  ).split(' '),
);
const AUTH_CODES =
  /^(invalid_api_key|api_key_invalid|authentication_error|permission_error|permission_denied|unauthenticated|unauthorized|invalid_authentication.*|access_denied|account_suspended|key_expired|401)$/;

// Z.ai's business codes, from the code field only. Some other vendors use the same four digits for other things.
const ZAI_PLAN = new Set('1110 1112 1113 1304 1308 1309 1310 1316 1317'.split(' '));
const ZAI_THROTTLE = new Set('1302 1303 1305 1312 1313'.split(' '));
const ZAI_MODEL = new Set('1211 1212 1221 1222 1311'.split(' '));
const ZAI_RETRY = new Set('1120 1230 1234 500'.split(' '));
const NOT_ZAI = /mistral|minimax|azure|baichuan|dashscope|qwen/i;

const MINIMAX: Record<number, readonly [FailureClass, FailureReason]> = {
  1000: ['retry', 'server'],
  1001: ['retry', 'timeout'],
  1002: ['rotate_key_then_retry', 'throttled'],
  1004: ['next_provider', 'auth'],
  1008: ['next_provider', 'plan_limit'],
  1013: ['retry', 'server'],
  1024: ['retry', 'server'],
  1026: ['next_provider', 'content_filter'],
  1027: ['next_provider', 'content_filter'],
  1033: ['retry', 'server'],
  1039: ['rotate_key_then_retry', 'throttled'],
  1041: ['rotate_key_then_retry', 'throttled'],
  2013: ['next_provider', 'rejected'],
  2045: ['rotate_key_then_retry', 'throttled'],
  2049: ['next_provider', 'auth'],
  2056: ['next_provider', 'plan_limit'],
  2061: ['next_model', 'model'],
};

const OVERFLOW_TEXT = [
  /(maximum|max) (context|prompt|model|sequence|input)[ _-]?(length|len|size)/i,
  /max_model_len|max_seq_len|longer than the (model'?s )?(maximum|max)/i,
  /context[ _](window|length|size|limit)[^.]{0,80}(exceed|too (long|large|small)|overflow|reached|insufficient|not enough)/i,
  /\b(exceed(s|ed|ing)?|over|beyond|larger than|greater than|too (long|large|big) for|outside)\b[^.]{0,60}context[ _]?(window|length|size|limit)/i,
  /context the overflows|context overflow|larger context length/i,
  /(prompt|input|message|conversation|request)s? (is|are|was) too long/i,
  /(prompt|input) too long/i,
  /(prompt|input)( length)? exceeds? (the )?(max|limit|model)/i,
  /input (token count|length)[^.]{0,60}(exceed|should be|must be)/i,
  /`?inputs`? tokens? \+ `?max_new_tokens`? must be|`?inputs`? must have (less|fewer|at most)[^.]{0,20}tokens/i,
  /longer than the model'?s? (maximum |max )?context|model('?s)? (token|context|input) limit/i,
  /too many (input |prompt )?tokens/i,
  /(input|prompt) tokens? (exceed|limit)/i,
  /reduce (the length|your (prompt|input|message)|the (prompt|input|number of (input|prompt)))/i,
];
// Words of limits that are not the window: a rate, or the cap of the output alone.
const RATE_WORDS =
  /per[ -](second|minute|min\b|hour|day)|\/ ?(s|sec|second|minute|min)\b|\b[tr]p[smhd]\b|rate.?limit|concurren/i;

const PLAN_TEXT = [
  /insufficient (account )?(balance|credits?|funds|quota)|balance (is )?(too low|insufficient|not enough|exhausted|negative|zero)|余额不足|欠费/i,
  /not enough (credits?|balance|funds)|out of (credits?|funds|quota)|(no|zero) (remaining )?(credits?|balance)\b|negative balance/i,
  /(used|consumed|exhausted|run out of)[^.]{0,30}(credits?|balance)\b|credits? (are |have been )?(exhausted|depleted|used up)/i,
  /(purchase|buy|add) (more )?credits|top[ -]?up|recharge|arrear|overdue|unpaid|failure to pay|payment (is )?required/i,
  /(spend(ing)?|budget|billing|hard|usage|monthly|weekly|daily|quota)[ -]?(hard )?(limit|cap|window|allowance)s?[^.]{0,40}(reach|exceed|exhaust|hit|used)/i,
  /(reach|exceed|exhaust|hit|used)[a-z]*[^.]{0,50}(spend(ing)?|budget|billing|usage|monthly|weekly|daily)[ -]?(hard )?(limit|cap|window|quota|allowance|included|credit)/i,
  /exceeded your (current|monthly|daily|weekly) (quota|included)|(free|trial) (tier |quota |period )?(has )?(been )?(exhausted|expired|used up)/i,
  /\b(tokens|requests|calls|messages|images)? ?per[ -]?(day|week|month)\b|\b[RT]PD\b|\/ ?(day|week|month)\b|per 86400|ByDay\b/i,
  /\d+[- ]hours? (usage|limit|window|quota)|usage limits?\b|subscription (has )?expired|(plan|package) (has )?expired/i,
];
const SHORT_WINDOW = /per[ -]?(second|minute|min)\b|\/ ?(s|sec|second|minute|min)\b|\b[TR]P[MS]\b|concurren/i;
const THROTTLE_TEXT = /rate.?limit|too many requests|throttl|requests? per (second|minute)|try again in \d|slow down/i;

const MODEL_TEXT = [
  // A dot ends the sentence only before white space: names such as gemini-1.5 hold dots.
  /models?\b(?:[^.\n]|\.(?=\S)){0,120}\b(not found|does not exist|doesn'?t exist|do not exist|not exist|unknown|identifier is invalid|not available|isn'?t available|unavailable for|not supported|isn'?t supported|unsupported|no longer (available|supported)|retired|deprecated|decommissioned|not (yet )?(deployed|loaded|enabled|included)|access denied|has been (removed|shut ?down|sunset))/i,
  /(unknown|invalid|unsupported|no such|unrecognized|nonexistent|not found the|not a valid) (model|deployment)\b/i,
  /^model: /im,
  /(deployment|endpoint)s? [^.\n]{0,60}(not found|does not exist|doesn'?t exist|found that support|not available)|no (allowed )?(endpoints?|providers?|models?) (are )?(found|available|loaded)/i,
  /(does not|doesn'?t|not) support (tool|function)|(tool|function)[ -]?(use|calling|calls?|choice)`? (is |are )?(not|un)[ -]?(support|available)/i,
  /(do(es)? not|don'?t|no) (have )?access to (the )?(model|\S+ model)|plan does not include|not in(cluded in)? (your|the)( current)?( subscription)? plan/i,
  /on-demand throughput isn.t supported/i,
];
const MODEL_OUTPUT_TEXT = [
  /failed to parse (the )?(tool|function)[ _-]?calls?/i,
  /failed to parse input at pos|error parsing (a )?(tool|function)[ _-]?call/i,
  /unparsed [\w-]+ output/i,
  /(invalid|malformed|could not parse|unable to parse) [^.\n]{0,30}(tool|function)[ _-]?call/i,
  /(tool|function)[ _-]?call [^.\n]{0,40}(parse error|could not be parsed|is not valid json|invalid json)/i,
];
const AUTH_TEXT =
  /(incorrect|invalid|expired|missing|no|wrong)[^.\n]{0,24}(api[ -]?key|x-api-key|auth|credential|subscription key|token provided)|unauthori[sz]ed|login fail|authentication fail|api key (is )?(not valid|invalid|expired)/i;
const FILTER_TEXT =
  /content[_ ]?(filter|policy|management)|data_inspection_failed|moderation|flagged|safety (system|policy)/i;
const CERTIFICATE = /CERT|SELF_SIGNED|UNABLE_TO_VERIFY|ERR_TLS|ERR_SSL/;
const HOPELESS_NETWORK =
  /^(ERR_INVALID_URL|UND_ERR_INVALID_ARG|ERR_INVALID_ARG_TYPE|ERR_INVALID_HTTP_TOKEN|ERR_INVALID_CHAR)$/;

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
  const refused = (error as { class?: unknown } | null)?.class === 'DENIED';
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
  if (status >= 500) return ['retry', 'server'];
  if (status === 401) return ['next_provider', 'auth'];
  if (zai.some((code) => ZAI_RETRY.has(code)) && inside) return ['retry', 'server'];
  if (isModel(status, facts)) return ['next_model', 'model'];
  if (facts.codes.some((code) => AUTH_CODES.test(code)) || AUTH_TEXT.test(text)) return ['next_provider', 'auth'];
  if (facts.codes.some((code) => FILTER_TEXT.test(code)) || FILTER_TEXT.test(text))
    return ['next_provider', 'content_filter'];
  if (inside && status === 0 && !facts.codes.some((code) => REJECTED_CODES.test(code))) return ['retry', 'server'];
  if (status === 404) return ['next_provider', 'not_found'];
  return ['next_provider', status === 403 ? 'auth' : 'rejected'];
}

const REJECTED_CODES = /^(invalid_|bad_request|badrequest|unsupported_|not_found|notfound|failed_precondition)/;

function isModelOutput(status: number, inside: boolean, facts: ErrorFacts): boolean {
  const unreadable = facts.codes.includes('tool_use_failed') || facts.codes.includes('malformed_function_call');
  if (unreadable && (inside || status === 400)) return true;
  return (inside || status === 500) && MODEL_OUTPUT_TEXT.some((pattern) => pattern.test(facts.text));
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
  const daily = /per[ -]?(day|week|month)\b|\b[TR]PD\b|\/ ?(day|week|month)\b|per 86400|ByDay\b/i.test(facts.text);
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
  if (headers instanceof Map || typeof (headers as Headers).forEach === 'function') {
    (headers as Headers).forEach((value, name) => map.set(name.toLowerCase(), String(value)));
    return map;
  }
  for (const [name, value] of Object.entries(headers as Record<string, unknown>)) {
    const first: unknown = Array.isArray(value) ? value[0] : value;
    if (typeof first === 'string' || typeof first === 'number') map.set(name.toLowerCase(), String(first));
  }
  return map;
}
