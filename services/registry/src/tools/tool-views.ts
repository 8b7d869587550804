import type { KvSnapshot } from '@yardmaster/bus';
import type { TenantId, Tool } from '@yardmaster/contracts';
import { catalogueOf, ToolSearch, viewOf } from '@yardmaster/tool-render';

/** Key prefix of tools that every tenant sees; tenant ids never begin with an underscore. */
export const SHARED = '_';

/** Tools in the views, and in the search indexes, that are kept; one in an index takes about 1.3 KB. */
const KEPT = { views: 200_000, indexes: 20_000 } as const;

/** What a tenant sees. */
export interface ToolView {
  /** By name; the tenant's own hide shared ones of the same name, also when they are retired. */
  readonly tools: ReadonlyMap<string, Tool>;
  readonly byAlias: ReadonlyMap<string, Tool>;
}

/**
 * What each tenant sees of the bucket. Made when it is asked for, kept until one of its tools changes, and dropped when
 * there is too much of it: the tenants that ask now are few of those that there are.
 */
export class ToolViews {
  /** Every tool by its owner (a tenant, or all of them) and its name. */
  private readonly owners = new Map<string, Map<string, Tool>>();
  private readonly views = new RecentlyUsed<ToolView>(KEPT.views);
  private readonly indexes = new RecentlyUsed<ToolSearch>(KEPT.indexes);

  /** Takes over what became of these keys of the bucket. */
  update(bucket: Pick<KvSnapshot<Tool>, 'get'>, changed: Iterable<string>): void {
    for (const key of changed) {
      const owner = key.slice(0, key.indexOf('.'));
      const name = key.slice(owner.length + 1);
      const tool = bucket.get(key);
      const own = this.owners.get(owner) ?? new Map<string, Tool>();
      if (tool === undefined) own.delete(name);
      else own.set(name, tool);
      if (own.size === 0) this.owners.delete(owner);
      else this.owners.set(owner, own);
      if (owner === SHARED) {
        this.views.clear();
        this.indexes.clear();
      } else {
        this.views.delete(owner);
        this.indexes.delete(owner);
      }
    }
  }

  of(tenant: TenantId): ToolView {
    return this.views.get(tenant) ?? this.makeView(tenant);
  }

  /** The search over what is active. */
  index(tenant: TenantId): ToolSearch {
    return this.indexes.get(tenant) ?? this.makeIndex(tenant);
  }

  private makeView(tenant: TenantId): ToolView {
    const tools = new Map(this.owners.get(SHARED));
    for (const [name, tool] of this.owners.get(tenant) ?? []) tools.set(name, tool);
    const byAlias = new Map<string, Tool>();
    for (const [name, tool] of tools) {
      if (tool.state === 'retired') tools.delete(name);
      else for (const alias of tool.aliases) byAlias.set(alias, tool);
    }
    return this.views.add(tenant, { tools, byAlias }, tools.size);
  }

  private makeIndex(tenant: TenantId): ToolSearch {
    const active = [...this.of(tenant).tools.values()].filter(
      ({ state, kind }) => state === 'active' && kind !== 'meta',
    );
    return this.indexes.add(tenant, new ToolSearch(catalogueOf(active.map(viewOf))), active.length);
  }
}

/**
 * Values by key; together they weigh `most` at most, or it is a single one. Those that were asked for since room was last
 * made stay before those that were not: to note that costs nothing, an exact order would.
 */
class RecentlyUsed<V> {
  private readonly values = new Map<string, { value: V; weight: number; used: boolean }>();
  private weight = 0;

  constructor(private readonly most: number) {}

  get(key: string): V | undefined {
    const known = this.values.get(key);
    if (known === undefined) return undefined;
    known.used = true;
    return known.value;
  }

  /** Adds a value that is not there, and answers it. */
  add(key: string, value: V, itsWeight: number): V {
    // What weighs nothing takes memory too.
    const weight = 1 + itsWeight;
    for (const [oldest, entry] of this.values) {
      if (this.weight + weight <= this.most) break;
      this.delete(oldest);
      // Once more at the end of the row, where it comes up again if all others were used too.
      if (entry.used) this.insert(oldest, { ...entry, used: false });
    }
    this.insert(key, { value, weight, used: false });
    return value;
  }

  delete(key: string): void {
    this.weight -= this.values.get(key)?.weight ?? 0;
    this.values.delete(key);
  }

  clear(): void {
    this.values.clear();
    this.weight = 0;
  }

  private insert(key: string, entry: { value: V; weight: number; used: boolean }): void {
    this.values.set(key, entry);
    this.weight += entry.weight;
  }
}
