import type { ConversationStore } from '@yardmaster/conversation';
import { type BoardEntry, type BoardSharing } from '../failover/deadline-board.js';

/** How often the deadlines of other replicas are read. */
export const POLL_MS = 1_000;
/** Entries are forgotten by Redis this long after the last of them was written. */
const KEEP_MS = 3_600_000;
/** Deadlines of one board are a few per key and address; more than this is not read. */
const MOST = 10_000;

type Redis = Pick<ConversationStore['redis'], 'status' | 'zadd' | 'zrange' | 'zrem' | 'pexpire'>;

export interface DeadlineListener {
  /** An entry that stands in Redis; told at every reading, our own entries included. */
  merge(entry: BoardEntry): void;
  /** An entry was withdrawn by somebody before it ended. */
  withdrawn?(id: string): void;
}

/**
 * One board of deadlines in Redis, a sorted set of `id<TAB>reason` by the moment at which each ends. Redis keeps the later
 * of two moments (`GT`), so the order in which replicas write does not matter. What cannot be written while Redis is away
 * is kept and written when it is back; the local copy goes on meanwhile.
 */
export class SharedDeadlines implements BoardSharing {
  private readonly unsent = new Map<string, BoardEntry>();
  /** Withdrawn by us while a reading was under way, which may still see it. */
  private readonly withdrawn = new Set<string>();
  private seen = new Map<string, number>();
  private timer: NodeJS.Timeout | undefined;
  private running: Promise<void> | undefined;

  constructor(
    private readonly redis: Redis,
    private readonly key: string,
    private readonly listener: DeadlineListener,
    private readonly now: () => number = Date.now,
  ) {}

  /** Reads once, then again every second. */
  async start(): Promise<void> {
    this.timer = setInterval(() => void this.sync(), POLL_MS);
    this.timer.unref();
    await this.sync();
  }

  stop(): void {
    clearInterval(this.timer);
  }

  publish(entry: BoardEntry): void {
    this.unsent.set(entry.id, entry);
    void this.sync();
  }

  /** The deadline ended early, for good reason; others learn of it at their next reading. */
  withdraw(id: string, reason: string): void {
    this.unsent.delete(id);
    this.seen.delete(id);
    if (this.running !== undefined) this.withdrawn.add(id);
    if (this.redis.status === 'ready') void this.redis.zrem(this.key, member({ id, reason })).catch(() => undefined);
  }

  /** Writes what is waiting and reads what others wrote. Never throws: without Redis every replica goes by its own copy. */
  sync(): Promise<void> {
    // A command to an absent Redis would wait in a queue that only grows.
    if (this.redis.status !== 'ready') return Promise.resolve();
    return (this.running ??= this.exchange()
      .catch(() => undefined)
      .finally(() => {
        this.running = undefined;
        this.withdrawn.clear();
      }));
  }

  private async exchange(): Promise<void> {
    const now = this.now();
    for (const entry of this.unsent.values()) {
      if (entry.until > now) {
        await this.redis.zadd(this.key, 'GT', Math.ceil(entry.until), member(entry));
        await this.redis.pexpire(this.key, KEEP_MS);
      }
      if (this.unsent.get(entry.id) === entry) this.unsent.delete(entry.id);
    }
    const rows = await this.redis.zrange(this.key, '-inf', '+inf', 'BYSCORE', 'LIMIT', 0, MOST, 'WITHSCORES');
    const over: string[] = [];
    const seen = new Map<string, number>();
    for (let i = 0; i + 1 < rows.length; i += 2) {
      const name = rows[i]!;
      const until = Number(rows[i + 1]);
      if (until <= now) over.push(name);
      else {
        const entry = { ...readMember(name), until };
        if (this.withdrawn.has(entry.id)) continue;
        seen.set(entry.id, until);
        this.listener.merge(entry);
      }
    }
    const before = this.seen;
    this.seen = seen;
    for (const [id, until] of before) if (until > now && !seen.has(id)) this.listener.withdrawn?.(id);
    if (over.length > 0) await this.redis.zrem(this.key, ...over);
  }
}

const member = ({ id, reason }: Pick<BoardEntry, 'id' | 'reason'>): string => `${id}\t${reason}`;

function readMember(text: string): Pick<BoardEntry, 'id' | 'reason'> {
  const tab = text.lastIndexOf('\t');
  return { id: text.slice(0, tab), reason: text.slice(tab + 1) };
}
