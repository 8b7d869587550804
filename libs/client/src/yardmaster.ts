import type { Role } from '@yardmaster/contracts';
import { type CallOptions, type ClientOptions, Http } from './http.js';
import { paged } from './paging.js';
import { Runs, signalOf } from './runs.js';
import type {
  ApiKey,
  Conversation,
  ConversationItem,
  ErrorMeaning,
  McpServer,
  Me,
  Page,
  Plan,
  PlanRequest,
  Provider,
  PutMcpServer,
  PutTool,
  Quotas,
  Tool,
  UsageOfDay,
  Fleet,
} from './types.js';

interface PageRequest {
  limit?: number;
  cursor?: string;
}

const at = (path: string, ...ids: string[]) => [path, ...ids.map(encodeURIComponent)].join('/');

/** The API of one Yardmaster, as one key sees it. */
export class Yardmaster {
  readonly runs: Runs;
  readonly conversations: Conversations;
  readonly tools: Tools;
  readonly mcpServers: McpServers;
  readonly providers: Providers;
  readonly keys: Keys;
  readonly tenants: Tenants;
  private readonly http: Http;

  constructor(options: ClientOptions) {
    this.http = new Http(options);
    this.runs = new Runs(this.http);
    this.conversations = new Conversations(this.http);
    this.tools = new Tools(this.http);
    this.mcpServers = new McpServers(this.http);
    this.providers = new Providers(this.http);
    this.keys = new Keys(this.http);
    this.tenants = new Tenants(this.http);
  }

  /** Whose key is this, and how many runs are in which state? */
  me(options?: CallOptions): Promise<Me> {
    return this.http.json({ method: 'GET', path: '/v1/me', ...signalOf(options) });
  }

  async models(options?: CallOptions): Promise<{ id: string; owned_by: string }[]> {
    const request = { method: 'GET', path: '/v1/models', ...signalOf(options) } as const;
    return (await this.http.json<{ data: { id: string; owned_by: string }[] }>(request)).data;
  }

  /** Executors, llama.cpp pods, and what was decided about them and why. */
  fleet(options?: CallOptions): Promise<Fleet> {
    return this.http.json({ method: 'GET', path: '/v1/fleet', ...signalOf(options) });
  }

  /** What an error code means and what to do. Throws NOT_FOUND. */
  explain(code: string, options?: CallOptions): Promise<ErrorMeaning> {
    return this.http.json({ method: 'GET', path: at('/errors', code), ...signalOf(options) });
  }

  /** Is the server ready? Answers what is not. */
  async ready(options?: CallOptions): Promise<{ status: string; failed: Record<string, string> }> {
    return this.http.json({ method: 'GET', path: '/readyz', ...signalOf(options) });
  }
}

export class Conversations {
  constructor(private readonly http: Http) {}

  create(options?: CallOptions): Promise<Conversation> {
    return this.http.json({ method: 'POST', path: '/v1/conversations', body: {}, ...signalOf(options) });
  }

  get(id: string, options?: CallOptions): Promise<Conversation> {
    return this.http.json({ method: 'GET', path: at('/v1/conversations', id), ...signalOf(options) });
  }

  page(query: PageRequest = {}, options?: CallOptions): Promise<Page<Conversation>> {
    return this.http.json({ method: 'GET', path: '/v1/conversations', query: { ...query }, ...signalOf(options) });
  }

  list(options?: CallOptions): AsyncGenerator<Conversation, void, void> {
    return paged((cursor) => this.page(cursor === undefined ? {} : { cursor }, options));
  }

  /** Throws CONFLICT while a run has it. */
  delete(id: string, options?: CallOptions): Promise<void> {
    return this.http.json({ method: 'DELETE', path: at('/v1/conversations', id), ...signalOf(options) });
  }

  /** All messages, oldest first. */
  messages(id: string, options?: CallOptions): AsyncGenerator<ConversationItem, void, void> {
    const path = `${at('/v1/conversations', id)}/messages`;
    return paged((after) => this.http.json({ method: 'GET', path, query: { after }, ...signalOf(options) }));
  }

  /** Lets a summary stand for everything up to a message; a model writes it when none is given. */
  compact(
    id: string,
    request: { up_to_seq: number; summary?: string; model?: string },
    options?: CallOptions,
  ): Promise<Conversation & { summary: string }> {
    const path = `${at('/v1/conversations', id)}/compact`;
    return this.http.json({ method: 'POST', path, body: request, ...signalOf(options) });
  }
}

export class Tools {
  constructor(private readonly http: Http) {}

  page(query: PageRequest = {}, options?: CallOptions): Promise<Page<Tool>> {
    return this.http.json({ method: 'GET', path: '/v1/tools', query: { ...query }, ...signalOf(options) });
  }

  list(options?: CallOptions): AsyncGenerator<Tool, void, void> {
    return paged((cursor) => this.page(cursor === undefined ? {} : { cursor }, options));
  }

  get(name: string, options?: CallOptions): Promise<Tool> {
    return this.http.json({ method: 'GET', path: at('/v1/tools', name), ...signalOf(options) });
  }

  put(name: string, tool: PutTool, options?: CallOptions): Promise<Tool> {
    return this.http.json({ method: 'PUT', path: at('/v1/tools', name), body: tool, ...signalOf(options) });
  }

  delete(name: string, options?: CallOptions): Promise<void> {
    return this.http.json({ method: 'DELETE', path: at('/v1/tools', name), ...signalOf(options) });
  }

  async search(query: string, limit?: number, options?: CallOptions): Promise<{ score: number; tool: Tool }[]> {
    const request = {
      method: 'GET',
      path: '/v1/tools/search',
      query: { q: query, limit },
      ...signalOf(options),
    } as const;
    return (await this.http.json<Page<{ score: number; tool: Tool }>>(request)).items;
  }

  /** Would these arguments be accepted? */
  validate(
    name: string,
    args: Record<string, unknown>,
    options?: CallOptions,
  ): Promise<{ ok: true; arguments: Record<string, unknown> } | { ok: false; message: string }> {
    const path = `${at('/v1/tools', name)}/validate`;
    return this.http.json({ method: 'POST', path, body: { arguments: args }, repeatable: true, ...signalOf(options) });
  }
}

export class McpServers {
  constructor(private readonly http: Http) {}

  page(query: PageRequest = {}, options?: CallOptions): Promise<Page<McpServer>> {
    return this.http.json({ method: 'GET', path: '/v1/mcp-servers', query: { ...query }, ...signalOf(options) });
  }

  list(options?: CallOptions): AsyncGenerator<McpServer, void, void> {
    return paged((cursor) => this.page(cursor === undefined ? {} : { cursor }, options));
  }

  get(id: string, options?: CallOptions): Promise<McpServer> {
    return this.http.json({ method: 'GET', path: at('/v1/mcp-servers', id), ...signalOf(options) });
  }

  /** Adds a server of the tenant, or changes it; its tools come a moment later (`test` waits for them). */
  put(id: string, server: PutMcpServer, options?: CallOptions): Promise<Partial<McpServer>> {
    return this.http.json({ method: 'PUT', path: at('/v1/mcp-servers', id), body: server, ...signalOf(options) });
  }

  delete(id: string, options?: CallOptions): Promise<void> {
    return this.http.json({ method: 'DELETE', path: at('/v1/mcp-servers', id), ...signalOf(options) });
  }

  /** Connects now and lists anew. */
  test(id: string, options?: CallOptions): Promise<McpServer> {
    const path = `${at('/v1/mcp-servers', id)}/test`;
    return this.http.json({ method: 'POST', path, body: {}, repeatable: true, ...signalOf(options) });
  }
}

export class Providers {
  constructor(private readonly http: Http) {}

  list(options?: CallOptions): Promise<{ default_model: string | null; items: Provider[] }> {
    return this.http.json({ method: 'GET', path: '/v1/providers', ...signalOf(options) });
  }

  /** Where would this request go, and why? */
  plan(request: PlanRequest, options?: CallOptions): Promise<Plan> {
    const path = '/v1/providers/plan';
    return this.http.json({ method: 'POST', path, body: request, repeatable: true, ...signalOf(options) });
  }
}

export class Keys {
  constructor(private readonly http: Http) {}

  async list(tenant: string, options?: CallOptions): Promise<ApiKey[]> {
    const request = { method: 'GET', path: `${at('/v1/tenants', tenant)}/keys`, ...signalOf(options) } as const;
    return (await this.http.json<Page<ApiKey>>(request)).items;
  }

  /** The key's text is in this answer and nowhere else. */
  create(
    tenant: string,
    request: { name: string; roles?: Role[]; expires_in_s?: number },
    options?: CallOptions,
  ): Promise<ApiKey & { key: string }> {
    const path = `${at('/v1/tenants', tenant)}/keys`;
    return this.http.json({ method: 'POST', path, body: request, ...signalOf(options) });
  }

  revoke(tenant: string, id: string, options?: CallOptions): Promise<void> {
    const path = `${at('/v1/tenants', tenant)}/keys/${encodeURIComponent(id)}`;
    return this.http.json({ method: 'DELETE', path, ...signalOf(options) });
  }
}

export class Tenants {
  constructor(private readonly http: Http) {}

  /** What was used, newest day first; `days` counts today. */
  async usage(tenant: string, days = 1, options?: CallOptions): Promise<UsageOfDay[]> {
    const path = `${at('/v1/tenants', tenant)}/usage`;
    const request = { method: 'GET', path, query: { days }, ...signalOf(options) } as const;
    return (await this.http.json<Page<UsageOfDay>>(request)).items;
  }

  quotas(tenant: string, options?: CallOptions): Promise<Quotas> {
    return this.http.json({ method: 'GET', path: `${at('/v1/tenants', tenant)}/quotas`, ...signalOf(options) });
  }

  /** Sets all quotas: members that are absent or null are no longer limited. */
  setQuotas(tenant: string, quotas: Partial<Quotas>, options?: CallOptions): Promise<Quotas> {
    const path = `${at('/v1/tenants', tenant)}/quotas`;
    return this.http.json({ method: 'PUT', path, body: quotas, ...signalOf(options) });
  }
}
