import type { ErrorClass, TenantId } from '@yardmaster/contracts';

export const RUN_STATES = [
  'queued',
  'running',
  'waiting_approval',
  'cancelling',
  'completed',
  'failed',
  'cancelled',
  'incomplete',
] as const;
export type RunState = (typeof RUN_STATES)[number];

export const TERMINAL_STATES = ['completed', 'failed', 'cancelled', 'incomplete'] as const;
export type TerminalState = (typeof TERMINAL_STATES)[number];

export const isTerminal = (state: RunState): state is TerminalState =>
  (TERMINAL_STATES as readonly string[]).includes(state);

export interface RunError {
  class: ErrorClass;
  code: string;
  message: string;
  details?: Record<string, unknown>;
}

/** A call that was asked for and has no result in the history yet. */
export interface PendingCall {
  /** `<step>-<index>` within the run. */
  call: string;
  /** The id that the provider is shown. */
  providerId: string;
  name: string;
  argumentsJson: string;
  argsHash: string;
  /** History sequence of the assistant message that made the call. */
  historySeq: number;
  /** Part of the result's subject; reused by every re-publish. */
  nonce: string;
  effect: 'read' | 'idempotent' | 'unsafe';
  kind: string;
  toolHash?: string;
  dispatchJson?: string;
  timeoutMs?: number;
  /** Set while (and after) a person has to decide. */
  approval?: 'waiting' | 'approved' | 'denied';
  approvalReason?: string;
  approvalExpiresMs?: number;
}

/** What a person said about one call. */
export interface Decision {
  decision: 'approve' | 'deny';
  reason?: string;
  remember?: 'call' | 'session' | 'always';
  /** What a remembered yes covers: patterns by JSON pointer, or hosts; absent: what the platform thinks fits. */
  scope?: { arguments?: Record<string, string>; hosts?: string[] };
  argsHash: string;
  by: string;
  atMs: number;
}

export interface RunRecord {
  id: string;
  tenant: TenantId;
  conversation: string;
  state: RunState;
  agent: string | undefined;
  model: string | undefined;
  /** `StartRun` as protobuf JSON. Empty in lists. */
  specJson: string;
  metadataJson: string | undefined;
  steps: number;
  promptTokens: number;
  completionTokens: number;
  cachedTokens: number;
  costUsd: number;
  /** How often the last call was repeated unchanged. */
  repeats: number;
  pending: PendingCall[];
  output: string | undefined;
  error: RunError | undefined;
  /** Why the run is incomplete, or was cancelled. */
  reason: string | undefined;
  /** Number of the last event written. */
  lastEvent: number;
  /** Deliveries since the last progress; counted by `acquire`, set back by every append. */
  attempts: number;
  createdMs: number;
  updatedMs: number;
  startedMs: number | undefined;
  endedMs: number | undefined;
  cancelRequestedMs: number | undefined;
  cancelReason: string | undefined;
  /** When the run message was accepted by the queue. */
  publishedMs: number | undefined;
  /** Messages from the caller to the running agent that it has not read yet. */
  steering: { n: number; text: string }[];
  decisions: Record<string, Decision>;
  /** The agent loop's own notes (JSON), opaque here. */
  loopJson: string | undefined;
}

/** What the run's owner may set, in the script that appends. */
export interface RunUpdate {
  state?: RunState;
  steps?: number;
  promptTokens?: number;
  completionTokens?: number;
  cachedTokens?: number;
  costUsd?: number;
  repeats?: number;
  pending?: PendingCall[];
  output?: string;
  error?: RunError;
  reason?: string;
  lastEvent?: number;
  model?: string;
  /** Steering messages up to this number are in the history now. */
  steerDone?: number;
  loopJson?: string;
}

const TEXT_FIELDS = { state: 'state', output: 'output', reason: 'reason', model: 'model', loopJson: 'loop' } as const;
const NUMBER_FIELDS = {
  steps: 'steps',
  promptTokens: 'in',
  completionTokens: 'out',
  cachedTokens: 'cached',
  costUsd: 'cost',
  repeats: 'repeats',
  lastEvent: 'event',
  steerDone: 'steer_done',
} as const;
const JSON_FIELDS = { pending: 'pending', error: 'error' } as const;

/** The hash fields of an update, alternating name and value. */
export function encodeUpdate(update: RunUpdate): string[] {
  const fields: string[] = [];
  for (const [name, field] of Object.entries({ ...TEXT_FIELDS, ...NUMBER_FIELDS }) as [keyof RunUpdate, string][]) {
    const value = update[name];
    if (value !== undefined) fields.push(field, String(value));
  }
  for (const [name, field] of Object.entries(JSON_FIELDS) as [keyof RunUpdate, string][]) {
    const value = update[name];
    if (value !== undefined) fields.push(field, JSON.stringify(value));
  }
  return fields;
}

/** What lists read of a record: everything but the long texts. */
export const SUMMARY_FIELDS = [
  'id',
  'state',
  'agent',
  'model',
  'metadata',
  'steps',
  'in',
  'out',
  'cached',
  'cost',
  'error',
  'reason',
  'event',
  'attempts',
  'created',
  'updated',
  'started',
  'ended',
  'cancel',
  'cancel_reason',
  'published',
] as const;

/** A record from its hash (names and values alternating, as Redis answers); undefined when there is none. */
export function decodeRun(
  owner: { tenant: TenantId; conversation: string },
  flat: readonly string[],
): RunRecord | undefined {
  const hash = new Map<string, string>();
  for (let i = 0; i + 1 < flat.length; i += 2) hash.set(flat[i]!, flat[i + 1]!);
  const id = hash.get('id');
  const state = hash.get('state');
  if (id === undefined || state === undefined) return undefined;
  const number = (field: string) => Number(hash.get(field) ?? 0);
  const time = (field: string) => (hash.has(field) ? Number(hash.get(field)) : undefined);
  const steerDone = number('steer_done');
  const steering: RunRecord['steering'] = [];
  const decisions: Record<string, Decision> = {};
  for (const [field, value] of hash) {
    if (field.startsWith('steer:') && Number(field.slice(6)) > steerDone)
      steering.push({ n: Number(field.slice(6)), text: value });
    else if (field.startsWith('decision:')) decisions[field.slice(9)] = JSON.parse(value) as Decision;
  }
  return {
    id,
    tenant: owner.tenant,
    conversation: owner.conversation,
    state: state as RunState,
    agent: hash.get('agent'),
    model: hash.get('model'),
    specJson: hash.get('spec') ?? '',
    metadataJson: hash.get('metadata'),
    steps: number('steps'),
    promptTokens: number('in'),
    completionTokens: number('out'),
    cachedTokens: number('cached'),
    costUsd: number('cost'),
    repeats: number('repeats'),
    pending: JSON.parse(hash.get('pending') ?? '[]') as PendingCall[],
    output: hash.get('output'),
    error: hash.has('error') ? (JSON.parse(hash.get('error')!) as RunError) : undefined,
    reason: hash.get('reason'),
    lastEvent: number('event'),
    attempts: number('attempts'),
    createdMs: number('created'),
    updatedMs: number('updated'),
    startedMs: time('started'),
    endedMs: time('ended'),
    cancelRequestedMs: time('cancel'),
    cancelReason: hash.get('cancel_reason') || undefined,
    publishedMs: time('published'),
    steering: steering.sort((a, b) => a.n - b.n),
    decisions,
    loopJson: hash.get('loop'),
  };
}
