import { command } from './redis-connection.js';
import {
  type HistoryItem,
  itemOf,
  MOST_CHARS,
  type Newest,
  PAGE,
  presentable,
  readNewest,
  type StoreContext,
} from './history.js';
import { type ConversationRef, keys } from './keys.js';

export interface WindowCacheOptions {
  /** Most conversations kept. */
  conversations: number;
  /** Most characters kept, of all of them together. */
  chars: number;
  /** Most items of a window, the newest ones. */
  limit: number;
}

export type WindowCacheRequest = ConversationRef & { upToSeq: number };

/**
 * Windows of conversations, least recently used first out: who asks for the same conversation again gets from Redis only
 * what was written since. The items of a conversation never change, so what is known stays true, but for a Redis that
 * lost its last writes: the last known item is read again each time, and whoever sees the connection end forgets all.
 */
export class WindowCache {
  private readonly entries = new Map<string, Newest & { chars: number }>();
  private chars = 0;

  constructor(
    private readonly store: StoreContext,
    private readonly options: WindowCacheOptions,
  ) {}

  /** The same as `window`. The items are shared between answers: they are not to be changed. */
  async window(request: WindowCacheRequest): Promise<HistoryItem[]> {
    const key = keys.history(request);
    const known = this.entries.get(key);
    const newest =
      (known === undefined ? undefined : await this.goOn(request, known)) ??
      (await readNewest(this.store, { ...request, limit: this.options.limit }));
    // An older part than is known, or one before the summary, is not what the next request goes on from.
    const last = newest.items.at(-1)?.seq ?? 0;
    if (last >= (this.entries.get(key)?.items.at(-1)?.seq ?? 0) && isPlain(newest)) this.keep(key, newest);
    return presentable(newest);
  }

  clear(): void {
    this.entries.clear();
    this.chars = 0;
  }

  /** What is known and what came after it; undefined when it has to be read from the beginning. */
  private async goOn(request: WindowCacheRequest, known: Newest): Promise<Newest | undefined> {
    const last = known.items.at(-1);
    if (last === undefined || last.seq > request.upToSeq) return undefined;
    const [meta, entries] = await Promise.all([
      command(this.store.redis.hmget(keys.meta(request), 'sumto')),
      command(this.store.redis.xrange(keys.history(request), `${last.seq}-0`, `${request.upToSeq}-0`, 'COUNT', PAGE)),
    ]);
    const [overlap, ...added] = entries.map(itemOf);
    const isSame = overlap?.seq === last.seq && overlap.json === last.json;
    if (!isSame || entries.length === PAGE || (meta[0] || null) !== known.summarisedUpTo) {
      this.drop(keys.history(request));
      return undefined;
    }
    return added.length === 0 ? known : { ...known, items: this.newestOf([...known.items, ...added]) };
  }

  private newestOf(items: HistoryItem[]): HistoryItem[] {
    let start = items.length;
    for (let chars = 0; start > 0 && items.length - start < this.options.limit; start--) {
      chars += items[start - 1]!.json.length;
      if (chars > MOST_CHARS && start < items.length) break;
    }
    return start === 0 ? items : items.slice(start);
  }

  private keep(key: string, newest: Newest): void {
    this.drop(key);
    const chars = newest.items.reduce((sum, { json }) => sum + json.length, newest.summary?.json.length ?? 0);
    this.entries.set(key, { ...newest, chars });
    this.chars += chars;
    while (this.entries.size > this.options.conversations || this.chars > this.options.chars)
      this.drop(this.entries.keys().next().value!);
  }

  private drop(key: string): void {
    this.chars -= this.entries.get(key)?.chars ?? 0;
    this.entries.delete(key);
  }
}

/** Is the summary, if there is one, part of what was read? */
const isPlain = ({ summary, summarisedUpTo }: Newest) =>
  summarisedUpTo === null ? summary === undefined : summary !== undefined;
