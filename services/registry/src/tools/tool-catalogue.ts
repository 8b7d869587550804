import { createHash } from 'node:crypto';
import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import { Inject, Injectable, type OnApplicationBootstrap } from '@nestjs/common';
import { type Bus, type KvSnapshot } from '@yardmaster/bus';
import { BUCKETS, BUILT_IN_TOOLS, type TenantId, type Tool, ToolSchema, YardError } from '@yardmaster/contracts';
import { nearestName } from '@yardmaster/tool-schema';
import { BUS } from '@yardmaster/service-kit';

/** Key prefix of tools that every tenant sees; tenant ids never begin with an underscore. */
const SHARED = '_';

/** What the hash of a tool covers: a grant given for one definition must not hold for another. */
export function toolHash(tool: Tool): string {
  const parts = [
    tool.name,
    tool.description,
    tool.parametersJson,
    tool.kind,
    tool.effect,
    tool.category,
    String(tool.timeoutMs),
    tool.dispatchJson,
  ];
  return createHash('sha256').update(JSON.stringify(parts)).digest('hex');
}

/** Every registered tool, read from the watched bucket and written to it; the bucket is the truth. */
@Injectable()
export class ToolCatalogue implements OnApplicationBootstrap {
  private snapshot!: KvSnapshot<Tool>;
  private readonly views = new Map<string, { revision: number; tools: ReadonlyMap<string, Tool> }>();

  constructor(@Inject(BUS) private readonly bus: Bus) {}

  async onApplicationBootstrap(): Promise<void> {
    this.snapshot = await this.bus.watch(BUCKETS.tools, (bytes) => fromBinary(ToolSchema, bytes));
    await this.seedBuiltIns();
  }

  get revision(): number {
    return this.snapshot.revision;
  }

  /** The tools that `tenant` sees, by name; its own hide shared ones of the same name. Cached until the bucket changes. */
  visible(tenant: TenantId): ReadonlyMap<string, Tool> {
    const revision = this.snapshot.revision;
    const cached = this.views.get(tenant);
    if (cached?.revision === revision) return cached.tools;
    const tools = new Map<string, Tool>();
    for (const [key, tool] of this.snapshot.current) {
      const owner = key.slice(0, key.indexOf('.'));
      if (tool.state === 'retired' || (owner !== SHARED && owner !== tenant)) continue;
      if (owner === tenant || !tools.has(tool.name)) tools.set(tool.name, tool);
    }
    if (this.views.size > 1000) this.views.clear();
    this.views.set(tenant, { revision, tools });
    return tools;
  }

  /** The tool by its name or an alias. Throws NOT_FOUND with the nearest name. */
  get(tenant: TenantId, name: string): Tool {
    const tools = this.visible(tenant);
    const tool = tools.get(name) ?? [...tools.values()].find((candidate) => candidate.aliases.includes(name));
    if (tool !== undefined) return tool;
    const nearest = nearestName(name, tools.keys());
    throw new YardError(
      'NOT_FOUND',
      'YM-TOOL-UNKNOWN',
      `There is no tool "${name}".${nearest === undefined ? '' : ` Did you mean "${nearest}"?`}`,
      {
        details: {
          name,
          nearest: nearest ?? null,
          known: [...tools.keys()]
            .filter((known) => !known.startsWith('__'))
            .sort()
            .slice(0, 40),
        },
      },
    );
  }

  /** Stores a new version of a tenant's tool; the version counts from 1. Concurrent writers: one wins, the other CONFLICTs. */
  async put(tenant: TenantId, tool: Tool): Promise<Tool> {
    const kv = this.bus.kv(BUCKETS.tools);
    const key = `${tenant}.${tool.name}`;
    const existing = await kv.get(key);
    const before = existing === undefined ? undefined : fromBinary(ToolSchema, existing.value);
    const next = create(ToolSchema, {
      ...tool,
      tenant,
      state: tool.state || 'active',
      version: (before?.version ?? 0) + 1,
    });
    next.hash = toolHash(next);
    if (before !== undefined && before.hash === next.hash && before.state === next.state && sameHints(before, next))
      return before;
    const bytes = toBinary(ToolSchema, next);
    if (existing === undefined) await kv.create(key, bytes);
    else await kv.update(key, bytes, existing.revision);
    return next;
  }

  /** Removes a tenant's own tool. Throws NOT_FOUND when it has none of that name (shared tools cannot be removed by a tenant). */
  async delete(tenant: TenantId, name: string): Promise<void> {
    const kv = this.bus.kv(BUCKETS.tools);
    const key = `${tenant}.${name}`;
    if ((await kv.get(key)) === undefined)
      throw new YardError('NOT_FOUND', 'YM-TOOL-UNKNOWN', `The tenant has no tool "${name}" of its own.`, {
        details: { name },
      });
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
        if (before.hash === entry.hash && sameHints(before, entry)) continue;
        entry.version = before.version + 1;
      }
      await kv.put(key, toBinary(ToolSchema, entry));
    }
  }
}

function sameHints(a: Tool, b: Tool): boolean {
  return (
    a.searchHints.join('\n') === b.searchHints.join('\n') &&
    a.aliases.join('\n') === b.aliases.join('\n') &&
    a.alwaysAsk === b.alwaysAsk
  );
}
