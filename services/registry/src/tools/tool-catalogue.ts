import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import { Inject, Injectable, type OnModuleInit } from '@nestjs/common';
import { type Bus, Encoded, type KvSnapshot } from '@yardmaster/bus';
import { BUCKETS, BUILT_IN_TOOLS, type TenantId, type Tool, ToolSchema, YardError } from '@yardmaster/contracts';
import { BUS } from '@yardmaster/service-kit';
import type { ToolSearch } from '@yardmaster/tool-render';
import { gateSchema, nearestName } from '@yardmaster/tool-schema';
import { toolHash } from './tool-hash.js';
import { SHARED, ToolViews } from './tool-views.js';

/** Every registered tool, read from the watched bucket and written to it; the bucket is the truth. */
@Injectable()
export class ToolCatalogue implements OnModuleInit {
  private snapshot!: KvSnapshot<Tool>;
  private readonly views = new ToolViews();
  /** Tools as they are answered. */
  private readonly encoded = new WeakMap<Tool, Encoded<typeof ToolSchema>>();

  constructor(@Inject(BUS) private readonly bus: Bus) {}

  async onModuleInit(): Promise<void> {
    this.snapshot = await this.bus.watch(BUCKETS.tools, (bytes) => fromBinary(ToolSchema, bytes), { sweep: true });
    this.views.update(this.snapshot, this.snapshot.current.keys());
    this.snapshot.onChange((snapshot, changed) => this.views.update(snapshot, changed));
    // Starts its worker, so that the first definition has all of the time that a definition may take.
    await gateSchema({ type: 'object' });
    await this.seedBuiltIns();
  }

  get revision(): number {
    return this.snapshot.revision;
  }

  /** The tools that `tenant` sees, by name; its own hide shared ones of the same name, also when they are retired. */
  visible(tenant: TenantId): ReadonlyMap<string, Tool> {
    return this.views.of(tenant).tools;
  }

  /** The tool by its name or an alias. */
  find(tenant: TenantId, name: string): Tool | undefined {
    const { tools, byAlias } = this.views.of(tenant);
    return tools.get(name) ?? byAlias.get(name);
  }

  /** The tool by its name or an alias. Throws NOT_FOUND with the nearest name. */
  get(tenant: TenantId, name: string): Tool {
    const tool = this.find(tenant, name);
    if (tool !== undefined) return tool;
    const tools = this.visible(tenant);
    const nearest = nearestName(name, tools.keys());
    throw new YardError(
      'NOT_FOUND',
      'YM-TOOL-UNKNOWN',
      `There is no tool "${name.slice(0, 128)}".${nearest === undefined ? '' : ` Did you mean "${nearest}"?`}`,
      {
        details: {
          name: name.slice(0, 128),
          nearest: nearest ?? null,
          known: [...tools.keys()]
            .filter((known) => !known.startsWith('__'))
            .sort()
            .slice(0, 40),
        },
      },
    );
  }

  /** The tool as the answer to a look-up; encoded once, since few definitions change between two look-ups. */
  answer(tool: Tool): Encoded<typeof ToolSchema> {
    let answer = this.encoded.get(tool);
    if (answer === undefined) this.encoded.set(tool, (answer = Encoded.of(ToolSchema, tool)));
    return answer;
  }

  /** The search over what is active; built when it is first asked for after a change. */
  index(tenant: TenantId): ToolSearch {
    return this.views.index(tenant);
  }

  /** Stores a new version of a tenant's tool; the version counts from 1. Concurrent writers: one wins, the other CONFLICTs. */
  async put(tenant: TenantId, tool: Tool): Promise<Tool> {
    const kv = this.bus.kv(BUCKETS.tools);
    const key = `${tenant}.${tool.name}`;
    const { value, revision } = await kv.state(key);
    const before = value === undefined ? undefined : fromBinary(ToolSchema, value);
    const next = create(ToolSchema, {
      ...tool,
      // A tenant cannot vouch for what a tool says about itself: its annotations only ever raise the level of approval.
      annotationsTrusted: false,
      // What belongs to an MCP server is registered by whoever follows that server, and by nobody else.
      server: '',
      serverTool: '',
      tenant,
      state: tool.state || 'active',
      version: (before?.version ?? 0) + 1,
    });
    next.hash = toolHash(next);
    if (before !== undefined && before.server !== '')
      throw new YardError(
        'CONFLICT',
        'YM-MCP-TOOL',
        `"${tool.name}" belongs to the MCP server "${before.server}", which says what it is. Choose another name.`,
      );
    if (before !== undefined && sameDefinition(before, next)) return before;
    await kv.update(key, toBinary(ToolSchema, next), revision);
    return next;
  }

  /** Everybody's tools that belong to MCP servers. */
  ofAllServers(): Tool[] {
    return [...this.snapshot.current.values()].filter((tool) => tool.server !== '');
  }

  /** The tools of one MCP server, those of a tenant or (`undefined`) those that every tenant sees. */
  ofServer(scope: TenantId | undefined, server: string): Tool[] {
    return this.ofAllServers().filter((tool) => tool.tenant === (scope ?? '') && tool.server === server);
  }

  /**
   * `tool` as it was when its hash was `hash`: itself, or what the bucket has, where another replica may have written what
   * is not seen here yet. Undefined when its definition is another one now.
   */
  async withHash(tool: Tool, hash: string): Promise<Tool | undefined> {
    if (tool.hash === hash) return tool;
    const stored = await this.bus.kv(BUCKETS.tools).get(`${tool.tenant || SHARED}.${tool.name}`);
    const now = stored === undefined ? undefined : fromBinary(ToolSchema, stored.value);
    return now?.hash === hash ? now : undefined;
  }

  /** The tenant's own tool of this name, unless it belongs to an MCP server. */
  ownWithoutServer(tenant: TenantId, name: string): Tool | undefined {
    const tool = this.snapshot.get(`${tenant}.${name}`);
    return tool?.server === '' ? tool : undefined;
  }

  /**
   * Stores a tool of an MCP server, for a tenant or for all; writes nothing when it is the same. Concurrent writers: one
   * CONFLICTs.
   */
  async putOfServer(scope: TenantId | undefined, tool: Tool): Promise<void> {
    const kv = this.bus.kv(BUCKETS.tools);
    const key = `${scope ?? SHARED}.${tool.name}`;
    const { value, revision } = await kv.state(key);
    const before = value === undefined ? undefined : fromBinary(ToolSchema, value);
    const next = create(ToolSchema, {
      ...tool,
      tenant: scope ?? '',
      version: (before?.version ?? 0) + 1,
      hash: toolHash(tool),
    });
    if (before !== undefined && sameDefinition(before, next)) return;
    await kv.update(key, toBinary(ToolSchema, next), revision);
  }

  async deleteOfServer(scope: TenantId | undefined, name: string): Promise<void> {
    await this.bus.kv(BUCKETS.tools).delete(`${scope ?? SHARED}.${name}`);
  }

  /** Removes a tenant's own tool. Throws NOT_FOUND when it has none of that name (shared tools cannot be removed by a tenant). */
  async delete(tenant: TenantId, name: string): Promise<void> {
    const kv = this.bus.kv(BUCKETS.tools);
    const key = `${tenant}.${name}`;
    // Only names that can be registered are keys; the snapshot may lag, so it is the bucket that is asked.
    const existing = /^[\w-]+$/.test(name) ? await kv.get(key) : undefined;
    if (existing === undefined)
      throw new YardError(
        'NOT_FOUND',
        'YM-TOOL-UNKNOWN',
        `The tenant has no tool "${name.slice(0, 128)}" of its own.`,
        {
          details: { name: name.slice(0, 128) },
        },
      );
    const { server } = fromBinary(ToolSchema, existing.value);
    if (server !== '')
      throw new YardError(
        'CONFLICT',
        'YM-MCP-TOOL',
        `"${name}" belongs to the MCP server "${server}" and goes with it. To keep it from models, deny it in the tenant's approvals.`,
      );
    await kv.delete(key);
  }

  /** Writes the built-in tools where they are missing or have changed with this version of Yardmaster. */
  private async seedBuiltIns(): Promise<void> {
    const kv = this.bus.kv(BUCKETS.tools);
    for (const tool of BUILT_IN_TOOLS) {
      const entry = create(ToolSchema, {
        name: tool.name,
        description: tool.description,
        parametersJson: JSON.stringify(tool.parameters),
        kind: tool.kind,
        effect: tool.effect,
        category: tool.category,
        timeoutMs: tool.timeoutMs,
        state: 'active',
        version: 1,
        searchHints: tool.searchHints ?? [],
      });
      entry.hash = toolHash(entry);
      const key = `${SHARED}.${tool.name}`;
      const existing = await kv.get(key);
      if (existing !== undefined) {
        const before = fromBinary(ToolSchema, existing.value);
        if (sameDefinition(before, entry)) continue;
        entry.version = before.version + 1;
      }
      await kv.put(key, toBinary(ToolSchema, entry));
    }
  }
}

/** Does the new version say the same as the old one, to the letter? Then it is none. */
function sameDefinition(before: Tool, next: Tool): boolean {
  const bytes = (tool: Tool) => Buffer.from(toBinary(ToolSchema, create(ToolSchema, { ...tool, version: 0 })));
  return bytes(before).equals(bytes(next));
}
