import type { ErrorClass } from '@yardmaster/contracts';

export interface ErrorEntry {
  class: ErrorClass;
  /** What happened. */
  means: string;
  /** What to do about it. */
  remedy: string;
}

/** Codes that callers of the API can meet. */
export const ERROR_CATALOGUE: Readonly<Record<string, ErrorEntry>> = {
  'YM-UNAUTHENTICATED': {
    class: 'DENIED',
    means: 'The request had no API key, or one that is not valid (any more).',
    remedy:
      'Send "Authorization: Bearer ym_<tenant>_<id>_<secret>". A local stack prints its key and keeps it in .yard/dev.json.',
  },
  'YM-ROLE': {
    class: 'DENIED',
    means: 'The key is valid, and may not do this.',
    remedy: 'Use a key with the role that the answer names, or ask an administrator of the tenant for one.',
  },
  'YM-RATE': {
    class: 'EXHAUSTED',
    means: 'The tenant has sent more requests than it may.',
    remedy: 'Wait as long as Retry-After says.',
  },
  'YM-BUDGET': {
    class: 'EXHAUSTED',
    means:
      'The tenant has used up the tokens or the cost that it may use in a day (of UTC). Nothing was sent to a provider.',
    remedy: 'Wait as long as Retry-After says, or raise the quota: PUT /v1/tenants/{tenant}/quotas.',
  },
  'YM-HOST': {
    class: 'INVALID',
    means: 'The Host header names none of the names of this server.',
    remedy: 'Use a name of YM_API_HOSTS, or add this one to it.',
  },
  'YM-STREAMS': {
    class: 'EXHAUSTED',
    means: 'The tenant has as many event streams open at this replica as it may.',
    remedy: 'Close some; GET /v1/runs/{id}/events with Accept: application/json needs none.',
  },
  'YM-REQ-INVALID': {
    class: 'INVALID',
    means: 'Members of the request are missing, unknown or out of range; all of them are listed in "errors".',
    remedy: 'Correct what the pointers name. The schema of every route is in /openapi.json.',
  },
  'YM-BODY-SIZE': {
    class: 'INVALID',
    means: 'The body is larger than the route takes (1 MiB unless said otherwise).',
    remedy: 'Put large material into the workspace and let the agent read it.',
  },
  'YM-MEDIA-TYPE': { class: 'INVALID', means: 'The body is not JSON.', remedy: 'Send Content-Type: application/json.' },
  'YM-CONTENT-ENCODING': {
    class: 'INVALID',
    means: 'The body is compressed; it is not unpacked, because a few bytes can become gigabytes.',
    remedy: 'Send it as it is.',
  },
  'YM-JSON-SYNTAX': {
    class: 'INVALID',
    means: 'The body is not valid JSON.',
    remedy: 'Correct it at the position that is named.',
  },
  'YM-JSON-DEPTH': {
    class: 'INVALID',
    means: 'The JSON is nested too deep.',
    remedy: 'Flatten it: 64 levels are the limit.',
  },
  'YM-JSON-KEYS': { class: 'INVALID', means: 'The JSON has too many members.', remedy: '10000 are the limit.' },
  'YM-JSON-SIZE': { class: 'INVALID', means: 'The JSON is too large.', remedy: 'Send less.' },
  'YM-JSON-UTF8': { class: 'INVALID', means: 'The body is not UTF-8.', remedy: 'Encode it as UTF-8.' },
  'YM-JSON-NUMBER': { class: 'INVALID', means: 'A number is too large to be kept.', remedy: 'Send it as text.' },
  'YM-JSON-PROTO': { class: 'INVALID', means: 'A member is named __proto__.', remedy: 'Name it otherwise.' },
  'YM-CURSOR': {
    class: 'INVALID',
    means: 'The cursor is not one that a list answered.',
    remedy: 'Start the list without a cursor.',
  },
  'YM-ROUTE-UNKNOWN': { class: 'NOT_FOUND', means: 'There is no such route.', remedy: 'See /docs.' },
  'YM-RUN-UNKNOWN': {
    class: 'NOT_FOUND',
    means: 'There is no such run, or it belongs to another tenant, or it is older than 30 days.',
    remedy: 'List the runs: GET /v1/runs.',
  },
  'YM-CONVERSATION-UNKNOWN': {
    class: 'NOT_FOUND',
    means: 'There is no such conversation; conversations are kept for 7 days after their last use.',
    remedy: 'List them: GET /v1/conversations, or start a run without conversation_id.',
  },
  'YM-AGENT-UNKNOWN': {
    class: 'NOT_FOUND',
    means: 'No agent of this name is configured.',
    remedy: 'Use one of "known", or add it to the file of YM_CONFIG.',
  },
  'YM-MODEL-UNKNOWN': {
    class: 'NOT_FOUND',
    means: 'No provider serves this model.',
    remedy: 'Use one of "known": GET /v1/models.',
  },
  'YM-TOOL-UNKNOWN': {
    class: 'NOT_FOUND',
    means: 'No tool of this name is registered.',
    remedy: 'Use one of "known", or register it: PUT /v1/tools/{name}.',
  },
  'YM-KEY-UNKNOWN': {
    class: 'NOT_FOUND',
    means: 'The tenant has no such API key.',
    remedy: 'List them: GET /v1/tenants/{tenant}/keys.',
  },
  'YM-TENANT-UNKNOWN': {
    class: 'NOT_FOUND',
    means: 'This key sees no such tenant.',
    remedy: 'Use the tenant of your key: GET /v1/me.',
  },
  'YM-APPROVAL-UNKNOWN': {
    class: 'NOT_FOUND',
    means: 'That call of the run asks for no approval.',
    remedy: 'List them: GET /v1/runs/{id}/approvals.',
  },
  'YM-CODE-UNKNOWN': { class: 'NOT_FOUND', means: 'There is no such error code.', remedy: 'Check its spelling.' },
  'YM-CONVERSATION-BUSY': {
    class: 'CONFLICT',
    means: 'Another run has the conversation; there is one at a time.',
    remedy: 'Wait for it, cancel it, or start the run with on_busy "enqueue" or "interrupt".',
  },
  'YM-RUN-ENDED': {
    class: 'CONFLICT',
    means: 'The run is not in a state in which this can be done.',
    remedy: 'Read the run again.',
  },
  'YM-APPROVAL-DECIDED': {
    class: 'CONFLICT',
    means: 'Someone decided on that call before.',
    remedy: 'Read the run again; the first decision counts.',
  },
  'YM-APPROVAL-ARGS': {
    class: 'CONFLICT',
    means: 'The decision is about other arguments than the call has.',
    remedy: 'Read the approval again and decide with its args_hash.',
  },
  'YM-SEQ-CONFLICT': {
    class: 'CONFLICT',
    means: 'The conversation has changed since it was read.',
    remedy: 'Read it again and repeat.',
  },
  'YM-IDEMPOTENCY-MISMATCH': {
    class: 'INVALID',
    means: 'The Idempotency-Key stands for another body.',
    remedy: 'Use a new key for a new request.',
  },
  'YM-STEER-FULL': {
    class: 'EXHAUSTED',
    means: 'Too many messages wait for the agent to read them.',
    remedy: 'Wait for its next step.',
  },
  'YM-CONVERSATION-FULL': {
    class: 'EXHAUSTED',
    means: 'The conversation has reached its size limit.',
    remedy: 'Start a new one.',
  },
  'YM-NO-RESPONDERS': {
    class: 'UNAVAILABLE',
    means: 'The service that would answer this is not running.',
    remedy: 'Look at the services: yard dev status, or the pods of the installation.',
  },
  'YM-TIMEOUT': {
    class: 'TIMEOUT',
    means: 'The answer did not come in time; the request may have had its effect.',
    remedy: 'Repeat it if that does no harm; starting a run is safe with an Idempotency-Key.',
  },
  'YM-STORE-UNREACHABLE': {
    class: 'UNAVAILABLE',
    means: 'Redis cannot be reached.',
    remedy: 'Repeat the request; look at Redis when it goes on.',
  },
  'YM-STORE-UNREADY': {
    class: 'UNAVAILABLE',
    means: 'Redis has restarted and its functions are not loaded yet.',
    remedy: 'Repeat the request; the loader runs at every start of Redis.',
  },
  'YM-STORE-TIMEOUT': { class: 'TIMEOUT', means: 'Redis did not answer in time.', remedy: 'Repeat the request.' },
  'YM-LLM-EXHAUSTED': {
    class: 'UNAVAILABLE',
    means: 'No provider answered; the attempts are in the details.',
    remedy: 'GET /v1/providers shows which one is free when; POST /v1/providers/plan shows why.',
  },
  'YM-STREAM-RESTARTED': {
    class: 'UNAVAILABLE',
    means: 'The provider failed in the middle of its answer, which cannot be taken back here.',
    remedy: 'Repeat the request.',
  },
  'YM-INTERNAL': {
    class: 'INTERNAL',
    means: 'A fault of Yardmaster.',
    remedy: 'Report it with the trace_id; the log has the details under it.',
  },
  state_lost: {
    class: 'CONFLICT',
    means:
      'Redis lost writes of the run (a power loss, or no append-only file), so it was ended instead of going on with a shortened history.',
    remedy: 'Start the run again; the conversation goes on with what was kept.',
  },
};
