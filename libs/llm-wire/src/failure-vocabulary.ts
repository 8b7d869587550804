import type { FailureClass, FailureReason } from './failure-verdict.js';

// The codes and words by which providers say what went wrong. Codes are compared in lower case.

export const PLAN_CODES = new Set(
  (
    'insufficient_quota exceeded_current_quota_error billing_hard_limit_reached billing_not_active insufficient_balance ' +
    'insufficient_credits insufficient_user_quota payment_required arrearage quota_exhausted billing_error ' +
    'credit_balance_too_low usage_limit_reached usage_limit_exceeded usage_not_included free_quota_exhausted ' +
    'allocationquota.freetieronly account_deactivated spend_limit_exceeded'
  ).split(' '),
);
export const THROTTLE_CODES =
  /^(429|.*rate_?limit.*|.*throttl.*|resource_exhausted|too_?many_?requests|.*requests_limit.*|token_quota_exceeded|too_many_tokens_error|limit_requests|limit_burst_rate|concurrency_limit.*)$/;
export const OVERFLOW_CODES = new Set(
  (
    'context_length_exceeded exceed_context_size_error context_window_exceeded model_context_window_exceeded ' +
    'context_length_error max_context_length_exceeded prompt_too_long input_too_long context_overflow'
  ).split(' '),
);
export const MODEL_CODES = new Set(
  (
    'model_not_found deploymentnotfound model_not_available model_not_supported unsupported_model model_deprecated ' +
    'model_decommissioned model_not_exist invalid_model unknown_model modelnotfound model_terms_required ' +
    'model_not_open modelnotopen model_disabled no_such_model modelerror.notfound'
  ).split(' '),
);
export const AUTH_CODES =
  /^(invalid_api_key|api_key_invalid|authentication_error|permission_error|permission_denied|unauthenticated|unauthorized|invalid_authentication.*|access_denied|account_suspended|key_expired|401)$/;

// Z.ai's business codes, from the code field only. Some other vendors use the same four digits for other things.
export const ZAI_PLAN = new Set('1110 1112 1113 1304 1308 1309 1310 1316 1317'.split(' '));
export const ZAI_THROTTLE = new Set('1302 1303 1305 1312 1313'.split(' '));
export const ZAI_MODEL = new Set('1211 1212 1221 1222 1311'.split(' '));
export const ZAI_RETRY = new Set('1120 1230 1234 500'.split(' '));
export const NOT_ZAI = /mistral|minimax|azure|baichuan|dashscope|qwen/i;

export const MINIMAX: Record<number, readonly [FailureClass, FailureReason]> = {
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

export const OVERFLOW_TEXT = [
  /(maximum|max) (context|prompt|model|sequence|input)[ _-]?(length|len|size)/i,
  /max_model_len|max_seq_len|longer than the (model'?s )?(maximum|max)/i,
  /context[ _](window|length|size|limit)[^.]{0,80}(exceed|too (long|large|small)|overflow|reached|insufficient|not enough)/i,
  /\b(exceed(s|ed|ing)?|over|beyond|larger than|greater than|too (long|large|big) for|outside)\b[^.]{0,60}context[ _]?(window|length|size|limit)/i,
  /context the overflows|context overflow|larger context length/i,
  /(prompt|input|message|conversation|request)s? (is|are|was) too long/i,
  /(prompt|input) too long/i,
  /(prompt|input)( length)? exceeds? (the )?(max|limit|model)/i,
  /(input|prompt) (token count|length)[^.]{0,60}(exceed|should be|must be)|maximum number of (input |prompt )?tokens allowed/i,
  /`?inputs`? tokens? \+ `?max_new_tokens`? must be|`?inputs`? must have (less|fewer|at most)[^.]{0,20}tokens/i,
  /longer than the model'?s? (maximum |max )?context|model('?s)? (token|context|input) limit/i,
  /too many (input |prompt )?tokens/i,
  /(input|prompt) tokens? (exceed|limit)/i,
  // llama.cpp, of a text that is longer than the batch in which it makes a vector.
  /(input|prompt) (\(\d+ tokens\) )?is too large to process/i,
  /reduce (the length|your (prompt|input|message)|the (prompt|input|number of (input|prompt)))/i,
];
// Words of limits that are not the window: a rate, or the cap of the output alone.
export const RATE_WORDS =
  /per[ -](second|minute|min\b|hour|day)|\/ ?(s|sec|second|minute|min)\b|\b[tr]p[smhd]\b|rate.?limit|concurren/i;

export const PLAN_TEXT = [
  /insufficient (account )?(balance|credits?|funds|quota)|balance (is )?(too low|insufficient|not enough|exhausted|negative|zero)|余额不足|欠费/i,
  /not enough (credits?|balance|funds)|out of (credits?|funds|quota)|(no|zero) (remaining )?(credits?|balance)\b|negative balance/i,
  /(used|consumed|exhausted|run out of)[^.]{0,30}(credits?|balance)\b|credits? (are |have been )?(exhausted|depleted|used up)/i,
  /(purchase|buy|add) (more )?credits|top[ -]?up|recharge|arrear|overdue|unpaid|failure to pay|payment (is )?required/i,
  /(spend(ing)?|budget|billing|hard|usage|monthly|weekly|daily|quota)[ -]?(hard )?(limit|cap|window|allowance)s?[^.]{0,40}(reach|exceed|exhaust|hit|used)/i,
  /(reach|exceed|exhaust|hit|used)[a-z]*[^.]{0,50}(spend(ing)?|budget|billing|usage|monthly|weekly|daily)[ -]?(hard )?(limit|cap|window|quota|allowance|included|credit)/i,
  /exceeded your (current|monthly|daily|weekly) (quota|included)|(free|trial) (tier |quota |period )?(has )?(been )?(exhausted|expired|used up)/i,
  /\b(tokens|requests|calls|messages|images)? ?per[ -]?(day|week|month)\b|\b[RT]PD\b|\/ ?(day|week|month)\b|per 86400|ByDay\b/i,
  /\b(daily|weekly|monthly) (quota|usage|allowance|limit|cap|credits?|requests?|tokens?)\b/i,
  /\d+[- ]hours? (usage|limit|window|quota)|usage limits?\b|subscription (has )?expired|(plan|package) (has )?expired/i,
];
export const SHORT_WINDOW = /per[ -]?(second|minute|min)\b|\/ ?(s|sec|second|minute|min)\b|\b[TR]P[MS]\b|concurren/i;
export const THROTTLE_TEXT =
  /rate.?limit|too many requests|throttl|requests? per (second|minute)|try again in \d|slow down/i;

export const MODEL_TEXT = [
  // A dot ends the sentence only before white space: names such as gemini-1.5 hold dots.
  /models?\b(?:[^.\n]|\.(?=\S)){0,120}\b(not found|does not exist|doesn'?t exist|do not exist|not exist|unknown|identifier is invalid|not available|isn'?t available|unavailable for|not supported|isn'?t supported|unsupported|no longer (available|supported)|retired|deprecated|decommissioned|not (yet )?(deployed|loaded|enabled|included)|access denied|has been (removed|shut ?down|sunset))/i,
  /(unknown|invalid|unsupported|no such|unrecognized|nonexistent|not found the|not a valid) (model|deployment)\b/i,
  /^model: /im,
  /(deployment|endpoint)s? [^.\n]{0,60}(not found|does not exist|doesn'?t exist|found that support|not available)|no (allowed )?(endpoints?|providers?|models?) (are )?(found|available|loaded)/i,
  /(does not|doesn'?t|not) support (tool|function)|\btools? (is|are) (not|un)[ -]?support|(tool|function)[ -]?(use|calling|calls?|choice)`? (is |are )?(not|un)[ -]?(support|available)/i,
  /(do(es)? not|don'?t|no) (have )?access to (the )?(model|\S+ model)|plan does not include|not in(cluded in)? (your|the)( current)?( subscription)? plan/i,
  /on-demand throughput isn.t supported/i,
];
/** What a server says it has no part for, whatever status it gives that; another one may have it. */
export const INCAPABLE_TEXT = [
  /\b(image|audio|video|multimodal|vision)s? (input )?(is|are) not supported/i,
  /(this|the) (server|model|endpoint) does not support (an? )?(embeddings?|completions?|chat|reranking|image|audio|video|multimodal|infill)/i,
];
export const MODEL_OUTPUT_TEXT = [
  /failed to parse (the )?(tool|function)[ _-]?calls?/i,
  /failed to parse input at pos|error parsing (a )?(tool|function)[ _-]?call/i,
  /unparsed [\w-]+ output/i,
  /(invalid|malformed|could not parse|unable to parse) [^.\n]{0,30}(tool|function)[ _-]?call/i,
  /(tool|function)[ _-]?call [^.\n]{0,40}(parse error|could not be parsed|is not valid json|invalid json)/i,
];
export const AUTH_TEXT =
  /(incorrect|invalid|expired|missing|no|wrong)[^.\n]{0,24}(api[ -]?key|x-api-key|auth|credential|subscription key|token provided)|unauthori[sz]ed|login fail|authentication fail|api key (is )?(not valid|invalid|expired)/i;
export const FILTER_TEXT =
  /content[_ ]?(filter|policy|management)|data_inspection_failed|moderation|flagged|safety (system|policy)/i;
export const CERTIFICATE = /CERT|SELF_SIGNED|UNABLE_TO_VERIFY|ERR_TLS|ERR_SSL/;
export const HOPELESS_NETWORK =
  /^(ERR_INVALID_URL|UND_ERR_INVALID_ARG|ERR_INVALID_ARG_TYPE|ERR_INVALID_HTTP_TOKEN|ERR_INVALID_CHAR)$/;

/** Codes that say so clearly that the request itself is at fault, even without a status. */
export const REJECTED_CODES = /^(invalid_|bad_request|badrequest|unsupported_|not_found|notfound|failed_precondition)/;
