import type { ErrorClass } from './yard-error.js';

export interface ErrorEntry {
  class: ErrorClass;
  /** What happened. */
  means: string;
  /** What to do about it. */
  remedy: string;
  /** Who can do that; by the class where nothing is said. */
  by?: Fixer;
}

export type Fixer = 'caller' | 'administrator' | 'operator' | 'developers';

const FIXER_OF_CLASS: Readonly<Record<ErrorClass, Fixer>> = {
  INVALID: 'caller',
  DENIED: 'administrator',
  NOT_FOUND: 'caller',
  CONFLICT: 'caller',
  EXHAUSTED: 'caller',
  TIMEOUT: 'operator',
  UNAVAILABLE: 'operator',
  INTERNAL: 'developers',
};

const FIXER_WORDS: Readonly<Record<Fixer, string>> = {
  caller: 'whoever sent the request',
  administrator: 'an administrator of the tenant',
  operator: 'whoever operates this Yardmaster',
  developers: 'the developers of Yardmaster',
};

/** Who can fix it, in words. */
export const fixerOf = (entry: ErrorEntry): string => FIXER_WORDS[entry.by ?? FIXER_OF_CLASS[entry.class]];

/** Every code that an error or a log line of Yardmaster can carry. */
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
    by: 'administrator',
  },
  'YM-HOST': {
    class: 'INVALID',
    means: 'The Host header names none of the names of this server.',
    remedy: 'Use a name of YM_API_HOSTS, or add this one to it.',
    by: 'operator',
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
  'YM-JSON-TEXT': {
    class: 'INVALID',
    means: 'A text has half of a surrogate pair: it was cut in the middle of a character.',
    remedy: 'Cut texts between characters, or replace the half by \\ufffd.',
  },
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
  'YM-APPROVALS-UNREADABLE': {
    class: 'CONFLICT',
    means: 'What is stored as the approval policy of the tenant is none, so nothing is approved.',
    remedy: 'Set it again: PUT /v1/tenants/{tenant}/approvals.',
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
  'YM-UNREACHABLE': {
    class: 'UNAVAILABLE',
    means: 'No connection to the API could be made.',
    remedy:
      'Check the address; start a local stack with: npm start. yard context show says where the address came from.',
  },
  'YM-RUN-UNSETTLED': {
    class: 'UNAVAILABLE',
    means: 'The events of a run have ended and its record has not.',
    remedy: 'Read the run again in a moment; the dispatcher settles it.',
  },
  'YM-RUN-GAVE-UP': {
    class: 'INTERNAL',
    means: 'The run was taken up several times and never got a step further.',
    remedy: 'See the log lines of the dispatcher for this run, then start the run again.',
    by: 'operator',
  },
  'YM-RUN-SPEC': {
    class: 'INTERNAL',
    means: 'What the run was asked to do cannot be read from its record.',
    remedy: 'Start the run again; if it happens again, report it with the log lines of the dispatcher.',
    by: 'operator',
  },
  'YM-STATE-LOST': {
    class: 'CONFLICT',
    means: 'Redis lost writes of the conversation (a power loss, or no append-only file).',
    remedy:
      'Start the run again; the conversation goes on with what was kept. Redis needs "appendonly yes" and "maxmemory-policy noeviction".',
    by: 'operator',
  },
  'YM-FENCED': {
    class: 'CONFLICT',
    means: 'Another dispatcher has taken the conversation over while this one worked on it.',
    remedy: 'Nothing: the other one goes on.',
    by: 'operator',
  },
  'YM-NOT-FOUND': {
    class: 'NOT_FOUND',
    means: 'There is no such run or conversation.',
    remedy: 'List them: yard run list, yard conversation list.',
  },
  'YM-ID': {
    class: 'INVALID',
    means: 'The text is no id of a run or conversation.',
    remedy: 'Use an id that the API answered.',
  },
  'YM-TENANT-ID': {
    class: 'INVALID',
    means: 'The text is no tenant id.',
    remedy: 'Use small letters, digits and hyphens, at most 40.',
  },
  'YM-SUBJECT-TOKEN': {
    class: 'INVALID',
    means: 'A name has characters that cannot be part of a subject.',
    remedy: 'Use letters, digits, - and _.',
  },
  'YM-BODY-GONE': {
    class: 'NOT_FOUND',
    means: 'The body of a request that was put aside has expired before it was read.',
    remedy: 'Send the request again.',
  },
  'YM-SUMMARY-EMPTY': {
    class: 'UNAVAILABLE',
    means: 'The model was asked for a summary and wrote none.',
    remedy: 'Send the summary yourself, or name another model.',
    by: 'caller',
  },
  'YM-TOOL-INVALID': {
    class: 'INVALID',
    means: 'The definition of the tool breaks rules; all of them are named.',
    remedy: 'Correct what is named; yard tool put --help has the members.',
  },
  'YM-MCP-UNKNOWN': {
    class: 'NOT_FOUND',
    means: 'The tenant neither has nor sees an MCP server of this id.',
    remedy: 'Look at GET /v1/mcp-servers (yard mcp list).',
  },
  'YM-MCP-ID': {
    class: 'INVALID',
    means: 'A text cannot be the id of an MCP server.',
    remedy: 'Use 1 to 20 of a-z, 0-9 and -, with no - at the ends.',
  },
  'YM-MCP-ID-TAKEN': {
    class: 'CONFLICT',
    means: 'The platform has an MCP server of this id.',
    remedy: 'Choose another id.',
  },
  'YM-MCP-TOO-MANY': {
    class: 'EXHAUSTED',
    means: 'The tenant has as many MCP servers of its own as it may have.',
    remedy: 'Remove one: yard mcp remove ID.',
  },
  'YM-MCP-TOOL': {
    class: 'CONFLICT',
    means:
      'A tool belongs to an MCP server: what the server lists decides what it is, and it goes when the server goes.',
    remedy:
      'Choose another name for a tool of your own; to keep it from models, deny it in the approvals of the tenant.',
  },
  'YM-MCP-CREDENTIAL': {
    class: 'DENIED',
    means: 'The tenant has no credential for an MCP server that needs one of its own. Nothing was run.',
    remedy:
      'Store it as the message says: in mcp_servers.<id>.credentials.<tenant>, or as the file <tenant>.<name> in YM_REGISTRY_MCP_CREDENTIALS.',
    by: 'operator',
  },
  'YM-MCP-CREDENTIAL-UNREADABLE': {
    class: 'UNAVAILABLE',
    means: 'The credential for an MCP server is named, and cannot be read or used.',
    remedy: 'Check the variable or the file that the configuration names: one word of ASCII, readable by the registry.',
  },
  'YM-MCP-CONFIG': {
    class: 'INVALID',
    means: 'The configuration of an MCP server does not go together.',
    remedy: 'Correct what the message names (docs/configuration.md).',
    by: 'operator',
  },
  'YM-MCP-SANDBOX': {
    class: 'UNAVAILABLE',
    means: 'An MCP server over stdio is not started, because no sandbox can be made for it here.',
    remedy:
      'Run it elsewhere with streamable HTTP and give its url; or install bubblewrap 0.8 or newer and allow user namespaces. YM_REGISTRY_MCP_SANDBOX=off runs such servers with the rights of the registry.',
  },
  'YM-MCP-UNREACHABLE': {
    class: 'UNAVAILABLE',
    means: 'An MCP server cannot be reached, or does not list its tools as it should. It is tried again.',
    remedy: 'yard mcp get ID says what went wrong last; yard mcp test ID tries at once.',
  },
  'YM-TOOL-TIMEOUT': {
    class: 'TIMEOUT',
    means: 'The tool ran longer than it may.',
    remedy: 'Ask for less at once, or raise timeout_ms of the tool.',
    by: 'caller',
  },
  'YM-QUEUE-FULL': {
    class: 'EXHAUSTED',
    means: 'The tenant has as many messages in a work queue as it may.',
    remedy: 'Wait until runs end; yard queue list shows the queues.',
  },
  'YM-ARGUMENTS': {
    class: 'INVALID',
    means: 'The arguments of a call are no JSON.',
    remedy: 'Send a JSON object.',
  },
  'YM-LLM-NO-PROVIDER': {
    class: 'INVALID',
    means: 'No provider is configured for this model.',
    remedy: 'Add one to the configuration, or name another model: yard model list.',
    by: 'operator',
  },
  'YM-LLM-NO-CANDIDATE': {
    class: 'INVALID',
    means: 'Providers are configured, and none can take this request; the reasons are in the details.',
    remedy: 'yard provider plan shows each provider with its reason.',
  },
  'YM-LLM-NOT-READY': {
    class: 'UNAVAILABLE',
    means: 'The pods that serve this model load it, end, or do not answer. Nothing was sent.',
    remedy:
      'Wait as long as Retry-After says: loading takes minutes. GET /v1/fleet has the state of every pod with its reason.',
  },
  'YM-FLEET-AWAY': {
    class: 'UNAVAILABLE',
    means: 'No fleet service answers, although one has been at work here.',
    remedy: 'Look at the pods of the Deployment fleet. Models and executors go on as they are until it is back.',
  },
  'YM-LLM-NO-EMBEDDINGS': {
    class: 'INVALID',
    means: 'No model was named for embeddings, and the configuration names none.',
    remedy: 'Set routing.embedding_model, or a provider with embeddings: true that serves one model.',
    by: 'operator',
  },
  'YM-EMBED-CALL': {
    class: 'DENIED',
    means: 'An executor asked for embeddings for a call that this tenant does not have under way.',
    remedy: 'None for the call: it goes on without them. Seen often, look at what that executor does.',
    by: 'operator',
  },
  'YM-EMBED-LIMIT': {
    class: 'EXHAUSTED',
    means: 'An executor asked for more embeddings than one call, or all calls together, may have.',
    remedy: 'None: the call goes on without them.',
    by: 'operator',
  },
  'YM-EMBED-TEXTS': {
    class: 'INVALID',
    means: 'An executor asked for embeddings of no text, too many texts or too long ones.',
    remedy: 'Send fewer and shorter texts.',
    by: 'developers',
  },
  'YM-LLM-NO-VISION': {
    class: 'INVALID',
    means: 'The request has images, and no provider in its chain can see them. Nothing was sent.',
    remedy: 'Use a model with vision, or leave the images out.',
  },
  'YM-LLM-UNSENDABLE': {
    class: 'INVALID',
    means: 'The request has something that no provider in its chain can be sent.',
    remedy: 'Change what the message names, or choose other providers.',
  },
  'YM-LLM-TIMEOUT': {
    class: 'TIMEOUT',
    means: 'No provider gave a complete answer before the deadline; the attempts are in the details.',
    remedy: 'Try again, ask for less, or raise the time-outs of the providers.',
  },
  'YM-LLM-BROKEN': {
    class: 'UNAVAILABLE',
    means: 'A provider failed in the middle of its answer, after a part of it was shown.',
    remedy: 'Repeat the request.',
  },
  'YM-LLM-CONTEXT': {
    class: 'INVALID',
    means: 'The request does not fit the context window of any model in the chain, and nothing is left to cut.',
    remedy:
      'Shorten the last message, compact the conversation (yard conversation compact), or use a model with a larger window.',
  },
  'YM-LLM-CONTENT-FILTER': {
    class: 'DENIED',
    means: 'The provider refused the content of the request.',
    remedy: 'Change the request; other providers may judge otherwise.',
    by: 'caller',
  },
  'YM-LLM-MODEL-OUTPUT': {
    class: 'UNAVAILABLE',
    means: 'The model wrote something that its own server could not read, such as a broken tool call.',
    remedy: 'Try again, use another model, or set tool_dispatcher to "xml".',
  },
  'YM-BAD-MESSAGES': {
    class: 'INVALID',
    means: 'A request to the router has no list of messages.',
    remedy: 'Report it with the log lines around it.',
    by: 'developers',
  },
  'YM-URL-REFUSED': {
    class: 'DENIED',
    means: 'An address may not be called: it leads to a private network, has a forbidden scheme, or has no DNS entry.',
    remedy: 'Use a public address, or allow it in the policy of the operator (docs/configuration.md).',
    by: 'operator',
  },
  'YM-STREAM-CUT': {
    class: 'UNAVAILABLE',
    means: 'The answer of the model broke off.',
    remedy: 'Send the request again.',
  },
  'YM-STREAM-FRAME': {
    class: 'INTERNAL',
    means: 'A streamed answer had a part that cannot be read.',
    remedy: 'Check that all services have the same version, then report it.',
  },
  'YM-STREAM-GAP': {
    class: 'UNAVAILABLE',
    means: 'A streamed answer lost a part on its way.',
    remedy: 'Nothing: it is asked for again; look at NATS when it goes on.',
  },
  'YM-STREAM-SILENT': {
    class: 'UNAVAILABLE',
    means: 'A service that was answering has gone silent.',
    remedy: 'Nothing: it is asked again; look at the service when it goes on.',
  },
  'YM-READER-GONE': {
    class: 'UNAVAILABLE',
    means: 'Who asked for a streamed answer is gone.',
    remedy: 'Nothing: the work on it was ended.',
  },
  'YM-CANCELLED': {
    class: 'UNAVAILABLE',
    means: 'The work was ended because it was cancelled.',
    remedy: 'Nothing.',
    by: 'caller',
  },
  'YM-SHUTDOWN': {
    class: 'UNAVAILABLE',
    means: 'The service that answered is shutting down.',
    remedy: 'Nothing: another one takes over.',
  },
  'YM-REQUEST-ID': {
    class: 'INVALID',
    means: 'A streamed question came without its id, or with one that is in use.',
    remedy: 'Report it with the log lines around it.',
    by: 'developers',
  },
  'YM-BAD-ERROR': {
    class: 'INTERNAL',
    means: 'A service answered with an error that cannot be read.',
    remedy: 'Check that all services have the same version, then report it.',
  },
  'YM-UNDECODABLE': {
    class: 'INVALID',
    means: 'A message is not what its subject says.',
    remedy: 'Check that all services have the same version.',
    by: 'operator',
  },
  'YM-UNKNOWN-WORK': {
    class: 'INVALID',
    means: 'A message is in a work queue that nobody works on like that.',
    remedy: 'Check that all services have the same version.',
    by: 'operator',
  },
  'YM-DUPLICATE-HANDLER': {
    class: 'INVALID',
    means: 'Two handlers of a service serve the same subject.',
    remedy: 'Remove one of them.',
    by: 'developers',
  },
  'YM-MESSAGE-TOO-LARGE': {
    class: 'INVALID',
    means: 'A message is larger than NATS takes.',
    remedy: 'Raise max_payload of NATS, or ask for less at once.',
    by: 'operator',
  },
  'YM-BUS-CLOSED': {
    class: 'UNAVAILABLE',
    means: 'The connection to NATS is closed.',
    remedy: 'Nothing while a service shuts down; else look at NATS.',
  },
  'YM-INBOX': {
    class: 'DENIED',
    means: 'NATS refuses the login its own inbox.',
    remedy: 'Generate the configuration of NATS again: yard setup files.',
    by: 'operator',
  },
  'YM-NATS-LOGIN': {
    class: 'DENIED',
    means: 'NATS refuses the login.',
    remedy: 'Check YM_NATS_USER and YM_NATS_PASSWORD_FILE against the configuration of NATS.',
    by: 'operator',
  },
  'YM-NATS-DENIED': {
    class: 'DENIED',
    means: 'The login may not publish on that subject.',
    remedy: 'Generate the configuration of NATS again: yard setup files.',
    by: 'operator',
  },
  'YM-NATS-URL': {
    class: 'INVALID',
    means: 'The address of NATS cannot be used.',
    remedy: 'Correct YM_NATS_URL: nats://host:4222.',
    by: 'operator',
  },
  'YM-NATS-TOO-OLD': {
    class: 'INVALID',
    means: 'The nats-server is older than the oldest that works.',
    remedy: 'Update nats-server.',
    by: 'operator',
  },
  'YM-NO-STREAM': {
    class: 'UNAVAILABLE',
    means: 'No stream takes messages of that subject.',
    remedy: 'Run the set-up: yard setup bootstrap.',
  },
  'YM-TOPOLOGY': {
    class: 'UNAVAILABLE',
    means: 'Streams could not be set up.',
    remedy: 'Check that JetStream is on and the login is the set-up login.',
  },
  'YM-STORE': {
    class: 'UNAVAILABLE',
    means: 'JetStream refused or did not confirm a message.',
    remedy: 'Repeat the request; look at JetStream (disk, limits) when it goes on.',
  },
  'YM-SEQUENCE': {
    class: 'CONFLICT',
    means: 'A stream has gone on since it was read.',
    remedy: 'Nothing: it is read again.',
    by: 'operator',
  },
  'YM-KV-KEY': {
    class: 'INVALID',
    means: 'A name cannot be a key of a bucket.',
    remedy: 'Use letters, digits and - / _ = .',
  },
  'YM-SLOTS': {
    class: 'INVALID',
    means: 'A worker was given no number of slots.',
    remedy: 'Correct the setting that is named: a whole number of at least 1.',
    by: 'operator',
  },
  'YM-WORK-CEILING': {
    class: 'TIMEOUT',
    means: 'A piece of work took longer than any may, and was ended.',
    remedy: 'Look at what it waited for in the log lines of the service.',
  },
  'YM-CALL-IDENTITY': {
    class: 'INVALID',
    means: 'A tool call names no run, call or nonce that can be used.',
    remedy: 'Report it with the log lines around it.',
    by: 'developers',
  },
  'YM-SHELL-CONFIG': {
    class: 'INVALID',
    means: 'A setting of the shell executor is missing or wrong.',
    remedy: 'Correct the variable that is named.',
    by: 'operator',
  },
  'YM-SHELL-CONTAINMENT': {
    class: 'UNAVAILABLE',
    means: 'The sandbox for commands did not hold in its own tests, so no command is run.',
    remedy: 'Install bubblewrap and allow unprivileged user namespaces; yard doctor shows what fails.',
  },
  'YM-SHELL-RUNNER': {
    class: 'UNAVAILABLE',
    means: 'The process that runs commands did not start.',
    remedy: 'The message has its last words.',
  },
  'YM-SHELL-NOT-READY': {
    class: 'UNAVAILABLE',
    means: 'The sandbox is still being tested.',
    remedy: 'Nothing: the call is made again.',
  },
  'YM-SHELL-INTERRUPTED': {
    class: 'UNAVAILABLE',
    means: 'The process that runs commands ended during a command: what the command did is not known.',
    remedy: 'Look at the workspace before the command is run again.',
    by: 'caller',
  },
  'YM-SHELL-NO-JOB': {
    class: 'NOT_FOUND',
    means: 'There is no such background job of this tenant.',
    remedy: 'Start it again.',
  },
  'YM-SHELL-QUOTA': {
    class: 'EXHAUSTED',
    means: 'The tenant has as many commands running and waiting as it may.',
    remedy: 'Wait for one to end.',
  },
  'YM-SHELL-JOBS': {
    class: 'EXHAUSTED',
    means: 'The tenant has as many background jobs as it may.',
    remedy: 'Stop one with shell_job.',
  },
  'YM-SHELL-DRAINING': {
    class: 'UNAVAILABLE',
    means: 'The shell executor is shutting down.',
    remedy: 'Nothing: another one takes over.',
  },
  'YM-SHELL-REQUEST': {
    class: 'INVALID',
    means: 'A request to the runner of the shell executor is not valid.',
    remedy: 'Report it with the log lines around it.',
    by: 'developers',
  },
  'YM-SHELL-PROTOCOL': {
    class: 'INTERNAL',
    means: 'The runner of the shell executor answered something unexpected.',
    remedy: 'Report it with the log lines around it.',
  },
  'YM-SHELL-INTERNAL': {
    class: 'INTERNAL',
    means: 'A fault in the runner of the shell executor.',
    remedy: 'Report it with the log lines around it.',
  },
  'YM-FILES-ROOT': {
    class: 'UNAVAILABLE',
    means: 'The folder of all workspaces cannot be opened.',
    remedy: 'Check YM_WORKSPACES of the files executor.',
  },
  'YM-FILES-INVALID-INPUT': {
    class: 'INVALID',
    means: 'The arguments of a file tool do not fit together.',
    remedy: 'Change what the message names.',
  },
  'YM-FILES-PATH': {
    class: 'INVALID',
    means: 'The path cannot be used.',
    remedy: 'Give a path relative to the workspace.',
  },
  'YM-FILES-OUTSIDE': {
    class: 'DENIED',
    means: 'The path leads out of the workspace.',
    remedy: 'Give a path inside it; links that lead out are not followed.',
    by: 'caller',
  },
  'YM-FILES-NOT-FOUND': {
    class: 'NOT_FOUND',
    means: 'There is no such file or folder in the workspace.',
    remedy: 'List what is there: the tool file_list.',
  },
  'YM-FILES-EXISTS': {
    class: 'CONFLICT',
    means: 'Something is there already.',
    remedy: 'Take another name, or say that it may be overwritten.',
  },
  'YM-FILES-STALE': {
    class: 'CONFLICT',
    means: 'The file has changed since it was read.',
    remedy: 'Read it again, then repeat the change.',
  },
  'YM-FILES-UNCLEAR': {
    class: 'CONFLICT',
    means: 'The text to replace is not in the file, or is there several times.',
    remedy: 'Read the file again and give more of the text, or a line_hint.',
  },
  'YM-FILES-IS-FOLDER': {
    class: 'INVALID',
    means: 'The path is a folder, and a file is needed.',
    remedy: 'Name a file in it.',
  },
  'YM-FILES-NOT-A-FILE': {
    class: 'INVALID',
    means: 'The path is neither a file nor a folder (a device, a socket).',
    remedy: 'Name a file.',
  },
  'YM-FILES-BINARY': {
    class: 'INVALID',
    means: 'The file is not text.',
    remedy: 'Look at it with shell tools.',
  },
  'YM-FILES-NOT-UTF8': {
    class: 'INVALID',
    means: 'The file is text in another encoding than UTF-8.',
    remedy: 'Convert it with shell tools.',
  },
  'YM-FILES-TOO-LARGE': {
    class: 'INVALID',
    means: 'The file is larger than the tools take.',
    remedy: 'Read or change a part of it, or use shell tools.',
  },
  'YM-FILES-TOO-DEEP': {
    class: 'INVALID',
    means: 'The folders are nested deeper than the tools go.',
    remedy: 'Name a folder further down.',
  },
  'YM-FILES-READ-ONLY': {
    class: 'DENIED',
    means: 'The file may not be changed.',
    remedy: 'Work on a copy, or ask for the right to write.',
    by: 'operator',
  },
  'YM-FILES-QUOTA': {
    class: 'EXHAUSTED',
    means: 'The workspace has as much in it as it may.',
    remedy: 'Delete what is not needed, or raise the quota.',
  },
  'YM-FILES-DISK-FULL': {
    class: 'EXHAUSTED',
    means: 'The disk of the workspaces is full.',
    remedy: 'Make room on it.',
    by: 'operator',
  },
  'YM-SETUP-KEY': {
    class: 'INVALID',
    means: 'The key that was to be imported does not have the form of a key.',
    remedy: 'Give a file with a key as yard key create prints it.',
    by: 'operator',
  },
  state_lost: {
    class: 'CONFLICT',
    means:
      'Redis lost writes of the run (a power loss, or no append-only file), so it was ended instead of going on with a shortened history.',
    remedy: 'Start the run again; the conversation goes on with what was kept.',
  },
  'YM-CALL-INTERRUPTED': {
    class: 'UNAVAILABLE',
    means: 'A tool call was started four times, and each time its executor ended before it could answer.',
    remedy:
      'Look at the log of the executor and at what the call does to it; the call is kept in the dead letters of its queue.',
  },
};
