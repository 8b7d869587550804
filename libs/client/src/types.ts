import type { ErrorClass, Role } from '@yardmaster/contracts';

/** The API's objects, as they travel: names and values unchanged. */
export type RunState =
  'queued' | 'running' | 'waiting_approval' | 'cancelling' | 'completed' | 'failed' | 'cancelled' | 'incomplete';

export type TerminalState = 'completed' | 'failed' | 'cancelled' | 'incomplete';

export const isTerminal = (state: RunState): state is TerminalState =>
  state === 'completed' || state === 'failed' || state === 'cancelled' || state === 'incomplete';

export interface Usage {
  prompt_tokens: number;
  completion_tokens: number;
  cached_tokens: number;
  total_tokens: number;
  cost_usd: number;
}

export interface Run {
  id: string;
  object: 'run';
  state: RunState;
  conversation_id: string;
  agent: string | null;
  model: string | null;
  output?: string;
  error?: { class: ErrorClass; code: string; message: string; details?: Record<string, unknown> };
  /** Why it is incomplete. */
  reason?: string;
  cancel_reason?: string;
  usage: Usage;
  steps: number;
  created_at: string | null;
  started_at: string | null;
  updated_at: string | null;
  ended_at: string | null;
  metadata: Record<string, unknown>;
}

export type ContentPart =
  { type: 'text'; text: string } | { type: 'image_url'; image_url: { url: string; detail?: string } };

export interface StartRunRequest {
  input: string | ContentPart[];
  conversation_id?: string;
  agent?: string;
  model?: string;
  system?: string;
  temperature?: number;
  max_output_tokens?: number;
  tool_choice?: 'auto' | 'none' | 'required' | { name: string };
  response_format?: Record<string, unknown>;
  tools?: string[];
  tool_dispatcher?: 'auto' | 'native' | 'xml';
  render?: string;
  limits?: { max_iterations?: number; max_tokens?: number; max_cost_usd?: number; timeout_s?: number };
  on_busy?: 'enqueue' | 'reject' | 'interrupt';
  workspace?: string;
  metadata?: Record<string, unknown>;
}

/** An event of a run; one without `id` is not stored (text as it is written, output as it comes). */
export interface RunEvent {
  id?: number;
  type: string;
  run_id: string;
  at: string;
  data: Record<string, unknown>;
}

export interface Page<T> {
  items: T[];
  next_cursor: string | null;
}

export interface Approval {
  run_id: string;
  call: string;
  tool: string;
  arguments: unknown;
  args_hash: string;
  effect: 'read' | 'idempotent' | 'unsafe';
  state: 'waiting' | 'approved' | 'denied';
  reason: string | null;
  decided_by: string | null;
  expires_at: string | null;
}

export interface Decision {
  decision: 'approve' | 'deny';
  /** Of the approval that was read: the decision is about exactly these arguments. */
  args_hash: string;
  reason?: string;
  remember?: 'call' | 'session' | 'always';
}

export interface Conversation {
  id: string;
  object: 'conversation';
  created_at: string;
  messages: number;
  bytes: number;
  active_run: string | null;
  compacted_up_to: number | null;
}

/** A message of the history in its stored form. */
export type ConversationItem = { seq: number; type: string } & Record<string, unknown>;

export interface Tool {
  name: string;
  description: string;
  parameters: Record<string, unknown>;
  kind: string;
  effect: 'read' | 'idempotent' | 'unsafe';
  category: 'read' | 'write' | 'execute' | 'network';
  timeout_ms: number;
  state: 'active' | 'deprecated' | 'retired';
  version: number;
  hash: string;
  shared: boolean;
  aliases: string[];
  search_hints: string[];
  always_ask: boolean;
  /** What the tool says of itself; empty when it says nothing. */
  annotations: Record<string, boolean>;
  /** JSON Schema of structured results. */
  output_schema: Record<string, unknown> | null;
  /** What the executor is told with each call; null for tools of MCP servers too. */
  dispatch: Record<string, unknown> | null;
  /** The MCP server that it belongs to. */
  server: string | null;
}

export interface McpServer {
  id: string;
  /** Of the platform's configuration; else the tenant's own. */
  shared: boolean;
  transport: 'http' | 'stdio';
  url: string | null;
  category: 'read' | 'write' | 'execute' | 'network';
  timeout_s: number;
  /** Are its annotations believed? */
  trusted: boolean;
  /** Whose credential its sessions of this tenant use. */
  credential: 'none' | 'platform' | 'tenant' | 'missing';
  state: 'connecting' | 'ready' | 'failed' | 'refused' | 'no_credential';
  problem: { code: string; message: string } | null;
  tools: string[];
  quarantined: { tool: string; reason: string }[];
  listed_at: string | null;
  protocol: string | null;
  server: string | null;
}

export interface PutMcpServer {
  url: string;
  /** The name of a credential, never the credential. */
  credential?: string;
  category?: 'read' | 'write' | 'execute' | 'network';
  timeout_s?: number;
}

/** A `Tool` as it was got is one too; its `version`, `hash`, `shared` and `server` are passed over. */
export type PutTool = Pick<Tool, 'description' | 'parameters' | 'kind' | 'effect' | 'category'> & Partial<Tool>;

export interface Provider {
  name: string;
  kind: string;
  base_url: string;
  /** The built-in scripted model. */
  demo: boolean;
  capabilities: { native_tools: boolean; vision: boolean; embeddings: boolean };
  health: string;
  until: string | null;
  keys: { hash: string; health: string; until: string | null }[];
  models: string[];
  /** One pod of the provider, where the fleet found its pods. */
  pod: string | null;
}

/** What the fleet sees and decides. */
export interface Fleet {
  /** `none`: no fleet has ever been at work here. */
  mode: 'kubernetes' | 'none';
  leader: string | null;
  written_at: string | null;
  /** Nobody leads: this is how it was. */
  stale: boolean;
  note: string | null;
  executors: {
    name: string;
    deployment: string;
    kinds: string[];
    min: number;
    max: number;
    calls_per_pod: number;
    current: number | null;
    desired: number | null;
    /** Waiting and running calls; null while nobody knows. */
    need: number | null;
    state: 'ok' | 'hold';
    reason: string;
    decided_at: string | null;
  }[];
  pods: {
    provider: string;
    name: string;
    namespace: string;
    node: string | null;
    address: string;
    state: 'ready' | 'loading' | 'draining' | 'unhealthy' | 'unchecked';
    reason: string | null;
    slots: number | null;
    /** Tokens of one slot. */
    context: number | null;
    native_tools: boolean | null;
    vision: boolean | null;
    model: string | null;
    since: string | null;
  }[];
  decisions: {
    at: string | null;
    executor: string;
    action: 'up' | 'down' | 'hold';
    from: number | null;
    to: number | null;
    reason: string;
  }[];
  watches: { namespace: string; state: string; listed_at: string | null; stale: boolean; problem: string | null }[];
}

export interface PlanRequest {
  model?: string;
  agent?: string;
  providers?: string[];
  model_fallbacks?: Record<string, string[]>;
  tools?: string[];
  tool_dispatcher?: 'auto' | 'native' | 'xml';
  images?: boolean;
  conversation_id?: string;
}

export interface Plan {
  candidates: {
    provider: string;
    model: string;
    dialect: string;
    usable: boolean;
    reason: string | null;
    origin: string | null;
  }[];
  warnings: string[];
}

export interface ApiKey {
  id: string;
  name: string;
  roles: Role[];
  created_at: string;
  expires_at: string | null;
}

/** Null: not limited, or as the server does by default. */
export interface Quotas {
  tokens_per_day: number | null;
  cost_usd_per_day: number | null;
  requests_per_minute: number | null;
}

/** What a tenant used on a day of UTC, failed attempts at providers included. */
export interface UsageOfDay extends Usage {
  day: string;
  requests: number;
  attempts: number;
  failed_attempts: number;
  reasoning_tokens: number;
  providers: Record<string, { attempts: number; tokens: number; cost_usd: number }>;
}

export interface Me {
  tenant: string;
  key: { id: string; name: string; roles: Role[] };
  runs: Record<RunState, number>;
}

export interface ErrorMeaning {
  code: string;
  class: ErrorClass;
  status: number;
  title: string;
  means: string;
  remedy: string;
}
