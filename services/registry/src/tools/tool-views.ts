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
    return this.views.get(tenant, () => {
      const tools = new Map(this.owners.get(SHARED));
      for (const [name, tool] of this.owners.get(tenant) ?? []) tools.set(name, tool);
      const byAlias = new Map<string, Tool>();
      for (const [name, tool] of tools) {
        if (tool.state === 'retired') tools.delete(name);
        else for (const alias of tool.aliases) byAlias.set(alias, tool);
      }
      return { value: { tools, byAlias }, weight: tools.size };
    });
  }

  /** The search over what is active. */
  index(tenant: TenantId): ToolSearch {
    return this.indexes.get(tenant, () => {
      const active = [...this.of(tenant).tools.values()].filter(
        ({ state, kind }) => state === 'active' && kind !== 'meta',
      );
      return { value: new ToolSearch(catalogueOf(active.map(viewOf))), weight: active.length };
    });
  }
}

/** Values by key, those that were used last; together they weigh `most` at most, or it is a single one. */
class RecentlyUsed<V> {
  private readonly values = new Map<string, { value: V; weight: number }>();
  private weight = 0;

  constructor(private readonly most: number) {}

  /** The value of a key, made when it is not there. */
  get(key: string, make: () => { value: V; weight: number }): V {
    const known = this.values.get(key);
    if (known !== undefined) {
      this.values.delete(key);
      this.values.set(key, known);
      return known.value;
    }
    const made = make();
    // What weighs nothing takes memory too.
    const entry = { value: made.value, weight: 1 + made.weight };
    for (const oldest of this.values.keys()) {
      if (this.weight + entry.weight <= this.most) break;
      this.delete(oldest);
    }
    this.values.set(key, entry);
    this.weight += entry.weight;
    return entry.value;
  }

  delete(key: string): void {
    this.weight -= this.values.get(key)?.weight ?? 0;
    this.values.delete(key);
  }

  clear(): void {
    this.values.clear();
    this.weight = 0;
  }
}
