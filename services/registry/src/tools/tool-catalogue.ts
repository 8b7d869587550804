import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import { Inject, Injectable, type OnModuleInit } from '@nestjs/common';
import { type Bus, type KvSnapshot } from '@yardmaster/bus';
import { BUCKETS, BUILT_IN_TOOLS, type TenantId, type Tool, ToolSchema, YardError } from '@yardmaster/contracts';
import { BUS } from '@yardmaster/service-kit';
import { catalogueOf, ToolSearch, viewOf } from '@yardmaster/tool-render';
import { gateSchema, nearestName } from '@yardmaster/tool-schema';
import { toolHash } from './tool-hash.js';

/** Key prefix of tools that every tenant sees; tenant ids never begin with an underscore. */
const SHARED = '_';

interface View {
  revision: number;
  tools: ReadonlyMap<string, Tool>;
  byAlias: ReadonlyMap<string, Tool>;
  index: ToolSearch | undefined;
}

/** Views of tenants that are kept at a time. */
const VIEWS_KEPT = 1000;

/** Every registered tool, read from the watched bucket and written to it; the bucket is the truth. */
@Injectable()
export class ToolCatalogue implements OnModuleInit {
  private snapshot!: KvSnapshot<Tool>;
  private readonly views = new Map<string, View>();

  constructor(@Inject(BUS) private readonly bus: Bus) {}

  async onModuleInit(): Promise<void> {
    this.snapshot = await this.bus.watch(BUCKETS.tools, (bytes) => fromBinary(ToolSchema, bytes));
    // Starts its worker, so that the first definition has all of the time that a definition may take.
    await gateSchema({ type: 'object' });
    await this.seedBuiltIns();
  }

  get revision(): number {
    return this.snapshot.revision;
  }

  /** The tools that `tenant` sees, by name; its own hide shared ones of the same name, also when they are retired. */
  visible(tenant: TenantId): ReadonlyMap<string, Tool> {
    return this.view(tenant).tools;
  }

  /** The tool by its name or an alias. */
  find(tenant: TenantId, name: string): Tool | undefined {
    const { tools, byAlias } = this.view(tenant);
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

  /** The search over what is active; built when it is first asked for after a change. */
  index(tenant: TenantId): ToolSearch {
    const view = this.view(tenant);
    return (view.index ??= new ToolSearch(
      catalogueOf(
        [...view.tools.values()].filter((tool) => tool.state === 'active' && tool.kind !== 'meta').map(viewOf),
        view.revision,
      ),
    ));
  }

  private view(tenant: TenantId): View {
    const revision = this.snapshot.revision;
    const known = this.views.get(tenant);
    if (known?.revision === revision) return known;
    const tools = new Map<string, Tool>();
    const own = new Set<string>();
    for (const [key, tool] of this.snapshot.current) {
      const owner = key.slice(0, key.indexOf('.'));
      if (owner === tenant) own.add(tool.name);
      else if (owner !== SHARED || own.has(tool.name)) continue;
      if (tool.state === 'retired') tools.delete(tool.name);
      else tools.set(tool.name, tool);
    }
    const byAlias = new Map<string, Tool>();
    for (const tool of tools.values()) for (const alias of tool.aliases) byAlias.set(alias, tool);
    const view: View = { revision, tools, byAlias, index: undefined };
    if (this.views.size >= VIEWS_KEPT) this.views.clear();
    this.views.set(tenant, view);
    return view;
  }

  /** Stores a new version of a tenant's tool; the version counts from 1. Concurrent writers: one wins, the other CONFLICTs. */
  async put(tenant: TenantId, tool: Tool): Promise<Tool> {
    const kv = this.bus.kv(BUCKETS.tools);
    const key = `${tenant}.${tool.name}`;
    const existing = await kv.get(key);
    const before = existing === undefined ? undefined : fromBinary(ToolSchema, existing.value);
    const next = create(ToolSchema, {
      ...tool,
      // A tenant cannot vouch for what a tool says about itself: its annotations only ever raise the level of approval.
      annotationsTrusted: false,
      tenant,
      state: tool.state || 'active',
      version: (before?.version ?? 0) + 1,
    });
    next.hash = toolHash(next);
    if (before !== undefined && sameDefinition(before, next)) return before;
    const bytes = toBinary(ToolSchema, next);
    if (existing === undefined) await kv.create(key, bytes);
    else await kv.update(key, bytes, existing.revision);
    return next;
  }

  /** The shared tool of exactly this name. */
  shared(name: string): Tool | undefined {
    return this.snapshot.current.get(`${SHARED}.${name}`);
  }

  /** Shared tools that belong to MCP servers. */
  ofServers(): Tool[] {
    return [...this.snapshot.current.values()].filter((tool) => tool.tenant === '' && tool.server !== '');
  }

  /** Stores a tool that every tenant sees; writes nothing when it is the same. Concurrent writers: one CONFLICTs. */
  async putShared(tool: Tool): Promise<void> {
    const kv = this.bus.kv(BUCKETS.tools);
    const key = `${SHARED}.${tool.name}`;
    const existing = await kv.get(key);
    const before = existing === undefined ? undefined : fromBinary(ToolSchema, existing.value);
    const next = create(ToolSchema, { ...tool, tenant: '', version: (before?.version ?? 0) + 1, hash: toolHash(tool) });
    if (before !== undefined && sameDefinition(before, next)) return;
    const bytes = toBinary(ToolSchema, next);
    if (existing === undefined) await kv.create(key, bytes);
    else await kv.update(key, bytes, existing.revision);
  }

  async deleteShared(name: string): Promise<void> {
    await this.bus.kv(BUCKETS.tools).delete(`${SHARED}.${name}`);
  }

  /** Removes a tenant's own tool. Throws NOT_FOUND when it has none of that name (shared tools cannot be removed by a tenant). */
  async delete(tenant: TenantId, name: string): Promise<void> {
    const kv = this.bus.kv(BUCKETS.tools);
    const key = `${tenant}.${name}`;
    // Only names that can be registered are keys; the snapshot may lag, so it is the bucket that is asked.
    if (!/^[\w-]+$/.test(name) || (await kv.get(key)) === undefined)
      throw new YardError(
        'NOT_FOUND',
        'YM-TOOL-UNKNOWN',
        `The tenant has no tool "${name.slice(0, 128)}" of its own.`,
        {
          details: { name: name.slice(0, 128) },
        },
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
