/** A moment before which something must not be used, and why. */
export interface BoardEntry {
  id: string;
  /** Milliseconds since the epoch. */
  until: number;
  reason: string;
}

/** Other replicas: what is written here reaches them, what they write comes back through `DeadlineBoard.merge`. */
export interface BoardSharing {
  publish(entry: BoardEntry): void;
}

/**
 * Deadlines by id (keys that cool, breakers that are open), read from a local copy at every choice and shared with other
 * replicas. A deadline only grows, whoever writes it and in whatever order the messages come; only `clear` ends it early.
 */
export class DeadlineBoard {
  private readonly entries = new Map<string, BoardEntry>();
  private readonly sharing: BoardSharing | undefined;

  constructor(sharing?: BoardSharing) {
    this.sharing = sharing;
  }

  /** The entry that still holds at `now`. */
  active(id: string, now: number): BoardEntry | undefined {
    const entry = this.entries.get(id);
    if (entry === undefined) return undefined;
    if (entry.until > now) return entry;
    this.entries.delete(id);
    return undefined;
  }

  extend(id: string, until: number, reason: string): void {
    const entry = { id, until, reason };
    if (this.merge(entry)) this.sharing?.publish(entry);
  }

  /** Takes over what another replica wrote; true if that changed anything. */
  merge(entry: BoardEntry): boolean {
    const known = this.entries.get(entry.id);
    if (known !== undefined && known.until >= entry.until) return false;
    this.entries.set(entry.id, { ...entry });
    return true;
  }

  /** Ends a deadline here, for good reason (a probe succeeded). */
  clear(id: string): void {
    this.entries.delete(id);
  }

  /** All entries that hold at `now`, for displays. */
  list(now: number): BoardEntry[] {
    return [...this.entries.values()].filter((entry) => entry.until > now);
  }
}
