import type { BucketName } from '@yardmaster/contracts';
import type { Log } from './log.js';
import type { Store } from './stored.js';

export interface SweepOptions {
  /** Marks younger than this stay: whoever follows the bucket must have had the time to see them. */
  olderThanMs: number;
  everyMs: number;
}

export const SWEEP: SweepOptions = { olderThanMs: 900_000, everyMs: 300_000 };

/**
 * A deleted key leaves a mark in its bucket for ever, which costs the server memory and is read by everybody who begins
 * to follow the bucket. So whoever deletes keys also removes old marks; several processes may do that for one bucket.
 */
export class KvSweeper {
  readonly #store: Store;
  readonly #log: Log;
  readonly #bucket: BucketName;
  readonly #olderThanMs: number;
  readonly #timer: NodeJS.Timeout;
  /** Keys whose last entry is a mark. */
  readonly #marks = new Map<string, { revision: number; at: number }>();
  #newest = 0;
  #round: Promise<void> | undefined;
  #stopped = false;

  constructor(store: Store, log: Log, bucket: BucketName, { olderThanMs, everyMs }: SweepOptions) {
    this.#store = store;
    this.#log = log;
    this.#bucket = bucket;
    this.#olderThanMs = olderThanMs;
    this.#timer = setInterval(() => {
      this.#round ??= this.#sweep()
        .catch((error: unknown) => log.warn({ bucket, err: error }, 'the marks of deleted keys cannot be removed'))
        .finally(() => (this.#round = undefined));
    }, everyMs);
    this.#timer.unref();
  }

  /** Every entry of the bucket goes through here, in the order of its revisions. */
  see(key: string, revision: number, deletedAt: Date | undefined): void {
    this.#newest = Math.max(this.#newest, revision);
    if (deletedAt === undefined) this.#marks.delete(key);
    else this.#marks.set(key, { revision, at: deletedAt.getTime() });
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    clearInterval(this.#timer);
    await this.#round;
  }

  async #sweep(): Promise<void> {
    const before = Date.now() - this.#olderThanMs;
    let removed = 0;
    for (const [key, { revision, at }] of this.#marks) {
      if (this.#stopped) break;
      // The newest entry stays, whatever it is: a revision that goes back would make followers keep what is gone.
      if (at > before || revision === this.#newest) continue;
      // Not by a purge of the key: it may have been written again meanwhile, and nats-server 2.9 has followers of the
      // bucket skip what it had not sent them yet.
      if (await this.#store.delete(`KV_${this.#bucket}`, revision)) removed++;
      if (this.#marks.get(key)?.revision === revision) this.#marks.delete(key);
    }
    if (removed > 0) this.#log.info({ bucket: this.#bucket, removed }, 'the marks of deleted keys are removed');
  }
}
