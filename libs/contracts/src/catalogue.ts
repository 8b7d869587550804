import type { DescMessage } from '@bufbuild/protobuf';
import { AuditRecordSchema, EmptySchema, StreamControlSchema } from './gen/yardmaster/common/v1/common_pb.js';
import {
  CallEmbedRequestSchema,
  CallEmbedResponseSchema,
  ClaimSchema,
  ToolCallSchema,
  ToolOutputSchema,
  ToolResultSchema,
} from './gen/yardmaster/executor/v1/executor_pb.js';
import { ViewRequestSchema, ViewResponseSchema } from './gen/yardmaster/fleet/v1/fleet_pb.js';
import {
  DeleteToolRequestSchema,
  GetToolRequestSchema,
  ListToolsRequestSchema,
  ListToolsResponseSchema,
  McpServersRequestSchema,
  McpServersResponseSchema,
  PutToolRequestSchema,
  ResolveRequestSchema,
  ResolveResponseSchema,
  SearchToolsRequestSchema,
  SearchToolsResponseSchema,
  ToolSchema,
  ValidateRequestSchema,
  ValidateResponseSchema,
} from './gen/yardmaster/registry/v1/registry_pb.js';
import {
  ChatFrameSchema,
  ChatRequestSchema,
  EmbedRequestSchema,
  EmbedResponseSchema,
  PlanRequestSchema,
  PlanResponseSchema,
  ProvidersRequestSchema,
  ProvidersResponseSchema,
} from './gen/yardmaster/router/v1/router_pb.js';
import { RunCommandSchema, RunEventSchema, RunEventsSchema, RunMessageSchema } from './gen/yardmaster/run/v1/run_pb.js';
import { subjectToken, type TenantId } from './ids.js';

/** Services that answer requests; also the names of their queue groups and NATS users. */
export const SERVICES = ['api', 'dispatcher', 'router', 'registry', 'fleet'] as const;
export type ServiceName = (typeof SERVICES)[number];

/** A question on core NATS: `ym.rpc.<service>.<operation>.<tenant>`, one answer or an error within the deadline. */
export interface Rpc<Q extends DescMessage = DescMessage, A extends DescMessage = DescMessage> {
  kind: 'rpc';
  service: ServiceName;
  operation: string;
  request: Q;
  response: A;
}

/** A question whose answer is a stream of frames (`StreamFrame` on the caller's inbox). */
export interface StreamedRpc<Q extends DescMessage = DescMessage, F extends DescMessage = DescMessage> {
  kind: 'streamed-rpc';
  service: ServiceName;
  operation: string;
  request: Q;
  frame: F;
}

/** A message of a work queue: done at least once, or in the dead letters. */
export interface Work<M extends DescMessage = DescMessage> {
  kind: 'work';
  stream: string;
  /** The durable consumer that all workers of the stream share. */
  consumer: string;
  /** Subject filter of everything in the stream. */
  subjects: string[];
  message: M;
}

const rpc = <Q extends DescMessage, A extends DescMessage>(
  service: ServiceName,
  operation: string,
  request: Q,
  response: A,
): Rpc<Q, A> => ({
  kind: 'rpc',
  service,
  operation,
  request,
  response,
});

export const Router = {
  chat: {
    kind: 'streamed-rpc',
    service: 'router',
    operation: 'chat',
    request: ChatRequestSchema,
    frame: ChatFrameSchema,
  } satisfies StreamedRpc<typeof ChatRequestSchema, typeof ChatFrameSchema>,
  plan: rpc('router', 'plan', PlanRequestSchema, PlanResponseSchema),
  providers: rpc('router', 'providers', ProvidersRequestSchema, ProvidersResponseSchema),
  embed: rpc('router', 'embed', EmbedRequestSchema, EmbedResponseSchema),
} as const;

export const Dispatcher = {
  /** Asked by executors, for a call that they were given: see `mayEmbed`. */
  embed: rpc('dispatcher', 'embed', CallEmbedRequestSchema, CallEmbedResponseSchema),
} as const;

export const Registry = {
  list: rpc('registry', 'list', ListToolsRequestSchema, ListToolsResponseSchema),
  get: rpc('registry', 'get', GetToolRequestSchema, ToolSchema),
  put: rpc('registry', 'put', PutToolRequestSchema, ToolSchema),
  delete: rpc('registry', 'delete', DeleteToolRequestSchema, EmptySchema),
  resolve: rpc('registry', 'resolve', ResolveRequestSchema, ResolveResponseSchema),
  search: rpc('registry', 'search', SearchToolsRequestSchema, SearchToolsResponseSchema),
  validate: rpc('registry', 'validate', ValidateRequestSchema, ValidateResponseSchema),
  mcpServers: rpc('registry', 'mcp-servers', McpServersRequestSchema, McpServersResponseSchema),
} as const;

export const Fleet = {
  view: rpc('fleet', 'view', ViewRequestSchema, ViewResponseSchema),
} as const;

export const Runs = {
  /** Starts and resumes share one stream and one consumer, so a run is worked on in one place. */
  work: {
    kind: 'work',
    stream: 'YM_RUN',
    consumer: 'work',
    subjects: ['ym.run.start.*', 'ym.run.resume.*.*'],
    message: RunMessageSchema,
  } satisfies Work<typeof RunMessageSchema>,
} as const;

/** The work queue of one executor kind: its own stream, so that a login can be limited to it. */
export function toolWork(kind: string): Work<typeof ToolCallSchema> {
  const token = subjectToken(kind);
  return {
    kind: 'work',
    stream: toolStream(token),
    consumer: 'work',
    subjects: [`ym.tool.${token}.*`],
    message: ToolCallSchema,
  };
}

/** Executor kinds whose calls may ask for vectors: the file tools, which rank places by them, in any isolation class. */
export const mayEmbed = (kind: string): boolean => kind === 'files' || kind.startsWith('files-');

/** `shell-gvisor` -> `YM_TOOL_SHELL_GVISOR` */
export function toolStream(kind: string): string {
  return `YM_TOOL_${subjectToken(kind).toUpperCase().replaceAll('-', '_')}`;
}

/** Every subject of the system, built here and nowhere else. Ids are checked tokens, so the builders are injective. */
export const subjects = {
  rpc: (operation: Pick<Rpc, 'service' | 'operation'>, tenant: TenantId | '*') =>
    `ym.rpc.${operation.service}.${operation.operation}.${tenant}`,
  runStart: (tenant: TenantId) => `ym.run.start.${tenant}`,
  runResume: (tenant: TenantId, run: string) => `ym.run.resume.${tenant}.${subjectToken(run)}`,
  tool: (kind: string, tenant: TenantId) => `ym.tool.${subjectToken(kind)}.${tenant}`,
  result: (tenant: TenantId, run: string, call: string, nonce: string) =>
    `ym.res.${tenant}.${subjectToken(run)}.${subjectToken(call)}.${subjectToken(nonce)}`,
  /** `nonceHash` is the first 16 hex digits of the nonce's SHA-256: claims are readable by executors. */
  claim: (tenant: TenantId, run: string, call: string, nonceHash: string, attempt: number) =>
    `ym.claim.${tenant}.${subjectToken(run)}.${subjectToken(call)}.${subjectToken(nonceHash)}.${attempt}`,
  event: (tenant: TenantId, run: string) => `ym.evt.${tenant}.${subjectToken(run)}`,
  command: (tenant: TenantId, run: string) => `ym.cmd.${tenant}.${subjectToken(run)}`,
  delta: (tenant: TenantId, run: string) => `ym.delta.${tenant}.${subjectToken(run)}`,
  cancel: (tenant: TenantId, run: string) => `ym.cancel.${tenant}.${subjectToken(run)}`,
  control: (tenant: TenantId, request: string) => `ym.ctl.${tenant}.${subjectToken(request)}`,
  audit: (tenant: TenantId) => `ym.audit.${tenant}`,
  deadLetter: (stream: string, tenant: string) => `ym.dlq.${subjectToken(stream)}.${subjectToken(tenant)}`,
} as const;

/** The messages that travel on subjects outside rpc and work. */
export const messages = {
  /** `ym.evt`: stored, numbered. */
  events: RunEventsSchema,
  /** `ym.delta`: spoken, unnumbered. */
  event: RunEventSchema,
  command: RunCommandSchema,
  control: StreamControlSchema,
  audit: AuditRecordSchema,
  result: ToolResultSchema,
  claim: ClaimSchema,
  toolOutput: ToolOutputSchema,
} as const;

const HOUR_S = 3600;

/** A JetStream stream, in the terms of the server's configuration (durations in seconds). */
export interface StreamSpec {
  name: string;
  subjects: string[];
  retention: 'workqueue' | 'limits';
  maxAgeS: number;
  maxMsgsPerSubject?: number;
  /** The server refuses what is over the cap, per subject, whatever the writer's headers say. */
  discardNewPerSubject?: boolean;
  allowDirect?: boolean;
  maxBytes?: number;
  duplicateWindowS?: number;
  /** Nobody can delete or purge messages, whatever their login. */
  appendOnly?: boolean;
}

/** Queued and running messages that one tenant may have in one work queue. */
export const DEFAULT_TENANT_SHARE = 16;

const firstWriterWins = {
  retention: 'limits',
  maxAgeS: 24 * HOUR_S,
  maxMsgsPerSubject: 1,
  discardNewPerSubject: true,
  allowDirect: true,
} as const;

export const STREAMS = {
  runs: {
    name: 'YM_RUN',
    subjects: ['ym.run.start.*', 'ym.run.resume.*.*'],
    retention: 'workqueue',
    maxAgeS: 7 * 24 * HOUR_S,
    maxMsgsPerSubject: DEFAULT_TENANT_SHARE,
    discardNewPerSubject: true,
  },
  results: { name: 'YM_RES', subjects: ['ym.res.*.*.*.*'], ...firstWriterWins },
  claims: { name: 'YM_CLAIM', subjects: ['ym.claim.*.*.*.*.*'], ...firstWriterWins },
  events: { name: 'YM_EVT', subjects: ['ym.evt.*.*'], retention: 'limits', maxAgeS: 72 * HOUR_S, allowDirect: true },
  commands: {
    name: 'YM_CMD',
    subjects: ['ym.cmd.*.*'],
    retention: 'limits',
    maxAgeS: 24 * HOUR_S,
    maxMsgsPerSubject: 16,
    allowDirect: true,
  },
  deadLetters: {
    name: 'YM_DLQ',
    subjects: ['ym.dlq.*.*'],
    retention: 'limits',
    maxAgeS: 14 * 24 * HOUR_S,
    allowDirect: true,
  },
  /** Who decided what: written by services, read by people, changed by nobody. */
  audit: {
    name: 'YM_AUDIT',
    subjects: ['ym.audit.*'],
    retention: 'limits',
    maxAgeS: 400 * 24 * HOUR_S,
    allowDirect: true,
    appendOnly: true,
    // A decision that is written again after a crash is the same decision.
    duplicateWindowS: HOUR_S,
  },
} as const satisfies Record<string, StreamSpec>;

/** The stream of one executor kind. */
export function toolStreamSpec(kind: string, share = DEFAULT_TENANT_SHARE): StreamSpec {
  return {
    name: toolStream(kind),
    subjects: [`ym.tool.${subjectToken(kind)}.*`],
    retention: 'workqueue',
    maxAgeS: 24 * HOUR_S,
    maxMsgsPerSubject: share,
    discardNewPerSubject: true,
  };
}

/** KV buckets, watched into snapshots. */
export const BUCKETS = {
  tools: 'ym_tools',
  providers: 'ym_providers',
  fleet: 'ym_fleet',
  tenants: 'ym_tenants',
  grants: 'ym_grants',
} as const;
export type BucketName = (typeof BUCKETS)[keyof typeof BUCKETS];

/** Headers that the bus adds to every message. */
export const HEADERS = {
  /** W3C trace context. */
  trace: 'traceparent',
  /** Milliseconds that the caller still waits, relative, so that clocks need not agree. */
  deadline: 'Ym-Deadline-Ms',
  /** Id of a streamed question; renewals and cancels name it in their subject. */
  request: 'Ym-Request-Id',
  /** Protobuf-encoded `common.v1.Error` in the body of a reply. */
  error: 'Ym-Error',
  /** Name of the message type, where a subject carries more than one (`ToolOutput` on ym.delta). */
  message: 'Ym-Message',
  /** `json` when the body is the message's protobuf JSON form; absent means binary. */
  encoding: 'Ym-Encoding',
  /** Dead letters: why, from where, how often tried. */
  deadReason: 'Ym-Dead-Reason',
  deadSubject: 'Ym-Dead-Subject',
  deadSequence: 'Ym-Dead-Sequence',
  deadAttempts: 'Ym-Dead-Attempts',
} as const;

/** The executors that come with Yardmaster; others are declared. */
export const BUILT_IN_EXECUTORS = ['shell', 'files'] as const;

/** The kind of the calls that the registry runs itself, on MCP servers: every installation has its queue, and no login. */
export const MCP_KIND = 'mcp';
