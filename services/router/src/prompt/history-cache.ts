import type { ConversationMessage } from '@yardmaster/contracts';

/** One item of the history as it goes into a request: the JSON of its wire messages, joined by commas ('' for none). */
export interface RenderedItem {
  seq: number;
  json: string;
  /** Does a user's turn begin here? Only before such an item may a history be cut. */
  startsTurn: boolean;
  /** What it was drawn from. */
  source: string;
}

export interface StoredItem {
  seq: number;
  json: string;
}

/** The JSON of the wire messages of one item, joined by commas. */
type Render = (item: ConversationMessage) => string;

/**
 * Rendered items by (conversation, provider, model, dialect), least recently used first out: a turn renders what is new
 * only, and the bytes of the prefix stay what they were, which is what providers' prompt caches go by.
 */
export class HistoryCache {
  private readonly entries = new Map<string, readonly RenderedItem[]>();

  constructor(private readonly capacity: number) {}

  /** The items, which ascend, in rendered form; those that left the window are forgotten. */
  render(key: string, items: readonly StoredItem[], render: Render): readonly RenderedItem[] {
    const known = this.entries.get(key) ?? [];
    this.entries.delete(key);
    let at = 0;
    const rendered = items.map((item) => {
      while (at < known.length && known[at]!.seq < item.seq) at++;
      const before = known[at];
      // A store that lost its last writes may hold something else under a number that was used before.
      return before?.seq === item.seq && before.source === item.json ? before : renderItem(item, render);
    });
    if (this.capacity > 0) {
      this.entries.set(key, rendered);
      if (this.entries.size > this.capacity) this.entries.delete(this.entries.keys().next().value!);
    }
    return rendered;
  }

  get size(): number {
    return this.entries.size;
  }
}

export function renderItem({ seq, json }: StoredItem, render: Render): RenderedItem {
  const item = JSON.parse(json) as ConversationMessage;
  return {
    seq,
    json: render(item),
    startsTurn: item.type === 'chat' && item.role === 'user',
    source: json,
  };
}
