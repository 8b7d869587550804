import { createHash } from 'node:crypto';
import type { TenantId } from '@yardmaster/contracts';
import type { StoreContext } from './history.js';
import { type ConversationRef, keys } from './keys.js';
import { command } from './redis-connection.js';

/** What a conversation knows of its tools: which set stands in front of its prompt, and what its models were told since. */
export interface ConversationTools {
  /** Key of the pinned set; undefined when none is pinned. */
  pinned: string | undefined;
  /** Hashes by name of the tools that the models of this conversation were last told of. */
  told: Record<string, string>;
  /** Names of the tools that were loaded by a search, in the order of the first load. */
  loaded: string[];
}

const FIELD = { pinned: 'tools', told: 'tools_told', loaded: 'tools_loaded' } as const;

/**
 * Sets of tools as they were when a conversation began, stored by their content: what stands in front of a prompt must
 * not move when the registry changes, whichever router draws it. Conversations with the same tools share one.
 */
export class ToolSets {
  /** Keys whose time was extended not long ago, with the time. */
  private readonly fresh = new Map<string, number>();

  constructor(private readonly store: StoreContext) {}

  async of(ref: ConversationRef): Promise<ConversationTools> {
    const [pinned, told, loaded] = await command(
      this.store.redis.hmget(keys.meta(ref), FIELD.pinned, FIELD.told, FIELD.loaded),
    );
    return {
      pinned: pinned || undefined,
      told: JSON.parse(told || '{}') as Record<string, string>,
      loaded: JSON.parse(loaded || '[]') as string[],
    };
  }

  /** Stores a set and makes it the conversation's; answers its key. */
  async pin(ref: ConversationRef, setJson: string, told: Record<string, string>): Promise<string> {
    const key = keys.toolSet(ref.tenant, createHash('sha256').update(setJson).digest('hex'));
    await command(this.store.redis.set(key, setJson, 'PX', this.store.retention.historyTtlMs));
    this.fresh.set(key, Date.now());
    await command(this.store.redis.hset(keys.meta(ref), FIELD.pinned, key, FIELD.told, JSON.stringify(told)));
    return key;
  }

  /** Keeps a pinned set as long as the conversation that uses it; asks Redis at most once an hour a key. */
  async keep(key: string): Promise<void> {
    const now = Date.now();
    if (now - (this.fresh.get(key) ?? 0) < 3_600_000) return;
    if (this.fresh.size > 10_000) this.fresh.clear();
    this.fresh.set(key, now);
    await command(this.store.redis.pexpire(key, this.store.retention.historyTtlMs));
  }

  /** What the models of this conversation know now. */
  async told(ref: ConversationRef, told: Record<string, string>): Promise<void> {
    await command(this.store.redis.hset(keys.meta(ref), FIELD.told, JSON.stringify(told)));
  }

  /** Notes tools that were loaded; a compaction drops their definitions from the history, and they are shown again. */
  async loaded(ref: ConversationRef, names: readonly string[]): Promise<void> {
    const { loaded } = await this.of(ref);
    const all = [...new Set([...loaded, ...names])];
    if (all.length > loaded.length)
      await command(this.store.redis.hset(keys.meta(ref), FIELD.loaded, JSON.stringify(all)));
  }

  /** The next run pins the tools as they are then. */
  async unpin(ref: ConversationRef): Promise<void> {
    await command(this.store.redis.hdel(keys.meta(ref), FIELD.pinned, FIELD.told));
  }

  /** The set under a key of this tenant; undefined when it has expired. */
  async load(tenant: TenantId, key: string): Promise<string | undefined> {
    if (!key.startsWith(keys.toolSet(tenant, ''))) return undefined;
    return (await command(this.store.redis.get(key))) ?? undefined;
  }
}
