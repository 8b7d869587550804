import { jetstream } from '@nats-io/jetstream';
import { Kvm, type KvWatchEntry } from '@nats-io/kv';
import type { NatsConnection, QueuedIterator } from '@nats-io/transport-node';
import type { BucketName } from '@yardmaster/contracts';
import type { Log } from './log.js';

/** A bucket as it is now; `current` is never changed, each change makes a new map. */
export interface KvSnapshot<T> {
  readonly current: ReadonlyMap<string, T>;
  /** Revision of the last change that is in `current`. */
  readonly revision: number;
  /** Called after every change, with the new map. Answers a function that ends it. */
  onChange(listener: (current: ReadonlyMap<string, T>) => void): () => void;
  stop(): void;
}

/** Follows a bucket; resolves when everything that is in it now has been read. */
export class KvWatch<T> implements KvSnapshot<T> {
  current: ReadonlyMap<string, T> = new Map();
  revision = 0;
  readonly #nc: NatsConnection;
  readonly #log: Log;
  readonly #bucket: BucketName;
  readonly #decode: (value: Uint8Array, key: string) => T;
  readonly #listeners = new Set<(current: ReadonlyMap<string, T>) => void>();
  #next: Map<string, T> | undefined;
  #iterator: QueuedIterator<KvWatchEntry> | undefined;
  #stopped = false;

  constructor(nc: NatsConnection, log: Log, bucket: BucketName, decode: (value: Uint8Array, key: string) => T) {
    this.#nc = nc;
    this.#log = log;
    this.#bucket = bucket;
    this.#decode = decode;
  }

  async start(): Promise<this> {
    const iterator = await this.#open();
    await new Promise<void>((resolve, reject) => void this.#follow(iterator, resolve).catch(reject));
    return this;
  }

  onChange(listener: (current: ReadonlyMap<string, T>) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  stop(): void {
    this.#stopped = true;
    this.#iterator?.stop();
  }

  /**
   * A restarted server has forgotten the watch's consumer, and the client notices by missed heartbeats only, a minute
   * later: so the bucket is read anew at once.
   */
  reconnected(): void {
    this.#iterator?.stop();
  }

  async #open(): Promise<QueuedIterator<KvWatchEntry>> {
    const kv = await new Kvm(jetstream(this.#nc)).open(this.#bucket);
    this.#iterator = await kv.watch();
    return this.#iterator;
  }

  async #follow(first: QueuedIterator<KvWatchEntry>, ready: () => void): Promise<void> {
    let iterator = first;
    for (;;) {
      try {
        await this.#read(iterator, ready);
      } catch (error) {
        this.#log.warn({ bucket: this.#bucket, err: error }, 'watching a bucket failed');
      }
      for (let tries = 0; ; tries++) {
        if (this.#stopped || this.#nc.isClosed()) return ready();
        // A server that has just started may not have the stream yet.
        if (tries > 0) await new Promise((resolve) => setTimeout(resolve, Math.min(250 * 2 ** tries, 5_000)).unref());
        try {
          iterator = await this.#open();
          break;
        } catch (error) {
          this.#log.warn({ bucket: this.#bucket, err: error }, 'a bucket cannot be watched');
        }
      }
    }
  }

  async #read(iterator: QueuedIterator<KvWatchEntry>, ready: () => void): Promise<void> {
    // A fresh reading begins with everything: what it does not mention is gone.
    const seen = new Map<string, T>();
    const { pending } = await firstInfo(iterator);
    let initial = pending;
    const complete = () => {
      this.#next = seen;
      this.#publish();
      ready();
    };
    if (initial === 0) complete();
    for await (const entry of iterator) {
      const target = initial > 0 ? seen : (this.#next ??= new Map(this.current));
      this.#apply(target, entry);
      if (initial > 0) {
        if (--initial === 0 || entry.isUpdate) {
          initial = 0;
          complete();
        }
      } else if (iterator.getPending() === 0) this.#publish();
    }
  }

  #apply(map: Map<string, T>, entry: KvWatchEntry): void {
    this.revision = Math.max(this.revision, entry.revision);
    if (entry.operation !== 'PUT') return void map.delete(entry.key);
    try {
      map.set(entry.key, this.#decode(entry.value, entry.key));
    } catch (error) {
      // The last value that could be read stays: one bad write must not take a provider or a tenant away.
      this.#log.error(
        { bucket: this.#bucket, key: entry.key, revision: entry.revision, err: error },
        'an entry cannot be read',
      );
    }
  }

  #publish(): void {
    if (this.#next === undefined) return;
    this.current = this.#next;
    this.#next = undefined;
    for (const listener of this.#listeners) {
      try {
        listener(this.current);
      } catch (error) {
        this.#log.error({ bucket: this.#bucket, err: error }, 'a listener of a bucket failed');
      }
    }
  }
}

/** The client keeps the watch's consumer in the iterator; its count says when the first reading is complete. */
async function firstInfo(iterator: QueuedIterator<KvWatchEntry>): Promise<{ pending: number }> {
  const consumer = (iterator as unknown as { _data?: { info(cached?: boolean): Promise<{ num_pending: number }> } })
    ._data;
  return { pending: (await consumer?.info(true))?.num_pending ?? 0 };
}
