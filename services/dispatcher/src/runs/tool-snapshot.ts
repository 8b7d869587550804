import { Inject, Injectable, type OnApplicationBootstrap } from '@nestjs/common';
import { fromBinary } from '@bufbuild/protobuf';
import { type Bus, type KvSnapshot } from '@yardmaster/bus';
import { BUCKETS, type TenantId, type Tool, ToolSchema } from '@yardmaster/contracts';
import { BUS } from '@yardmaster/service-kit';

/** Shared tools live under this key prefix; tenant ids never begin with an underscore. */
const SHARED = '_';
/** Views of tenants that are kept at a time. */
const VIEWS_KEPT = 1000;

/** The registered tools as this process sees them: a watched, immutable snapshot, so a look-up costs no message. */
@Injectable()
export class ToolSnapshot implements OnApplicationBootstrap {
  private snapshot: KvSnapshot<Tool> | undefined;
  private readonly views = new Map<string, { revision: number; tools: ReadonlyMap<string, Tool> }>();

  constructor(@Inject(BUS) private readonly bus: Bus) {}

  async onApplicationBootstrap(): Promise<void> {
    this.snapshot = await this.bus.watch(BUCKETS.tools, (bytes) => fromBinary(ToolSchema, bytes));
  }

  /** Changes with every change of any tool. */
  get revision(): number {
    return this.snapshot?.revision ?? 0;
  }

  /** The tool that `tenant` sees under `name`, or under an alias of that name. */
  find(tenant: TenantId, name: string): Tool | undefined {
    const tool = this.snapshot?.get(`${tenant}.${name}`) ?? this.snapshot?.get(`${SHARED}.${name}`);
    if (tool !== undefined) return tool.state === 'retired' ? undefined : tool;
    for (const candidate of this.all(tenant).values()) if (candidate.aliases.includes(name)) return candidate;
    return undefined;
  }

  /** All tools that `tenant` sees, by name; its own hide shared ones of the same name, also when they are retired. */
  all(tenant: TenantId): ReadonlyMap<string, Tool> {
    const revision = this.snapshot?.revision ?? 0;
    const known = this.views.get(tenant);
    if (known?.revision === revision) return known.tools;
    const found = new Map<string, Tool>();
    const own = new Set<string>();
    for (const [key, tool] of this.snapshot?.current ?? []) {
      const owner = key.slice(0, key.indexOf('.'));
      if (owner === tenant) own.add(tool.name);
      else if (owner !== SHARED || own.has(tool.name)) continue;
      if (tool.state === 'retired') found.delete(tool.name);
      else found.set(tool.name, tool);
    }
    if (this.views.size >= VIEWS_KEPT) this.views.clear();
    this.views.set(tenant, { revision, tools: found });
    return found;
  }
}
