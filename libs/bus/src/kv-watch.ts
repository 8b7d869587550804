import { jetstream } from '@nats-io/jetstream';
import { Kvm, type KvWatchEntry } from '@nats-io/kv';
import type { NatsConnection, QueuedIterator } from '@nats-io/transport-node';
import type { BucketName } from '@yardmaster/contracts';
import type { KvSweeper } from './kv-sweep.js';
import type { Log } from './log.js';

/** Is told of changes; `changed` are the keys that were written, deleted or read anew. */
export type KvListener<T> = (snapshot: KvSnapshot<T>, changed: ReadonlySet<string>) => void;

/** A bucket as it is now. */
export interface KvSnapshot<T> {
  /**
   * All of it; never changed once it was asked for, so the next change has to copy it. Whoever needs single keys takes
   * `get`, which makes no copies.
   */
  readonly current: ReadonlyMap<string, T>;
  /** Revision of the last change that is in it. */
  readonly revision: number;
  get(key: string): T | undefined;
  /** Called after changes; several at once when they come in a row. Answers a function that ends it. */
  onChange(listener: KvListener<T>): () => void;
  stop(): void;
}

const QUIET_MS = 1_000;

/** Follows a bucket; resolves when everything that is in it now has been read. */
export class KvWatch<T> implements KvSnapshot<T> {
  revision = 0;
  #current = new Map<string, T>();
  /** Has somebody a reference to `#current`, who may count on its never changing? */
  #handedOut = false;
  readonly #nc: NatsConnection;
  readonly #log: Log;
  readonly #bucket: BucketName;
  readonly #decode: (value: Uint8Array, key: string) => T;
  readonly #sweeper: KvSweeper | undefined;
  readonly #listeners = new Set<KvListener<T>>();
  /** Keys whose change has not been told yet. */
  #changed = new Set<string>();
  #iterator: QueuedIterator<KvWatchEntry> | undefined;
  #stopped = false;

  constructor(
    nc: NatsConnection,
    log: Log,
    bucket: BucketName,
    decode: (value: Uint8Array, key: string) => T,
    sweeper?: KvSweeper,
  ) {
    this.#nc = nc;
    this.#log = log;
    this.#bucket = bucket;
    this.#decode = decode;
    this.#sweeper = sweeper;
  }

  get current(): ReadonlyMap<string, T> {
    this.#handedOut = true;
    return this.#current;
  }

  get(key: string): T | undefined {
    return this.#current.get(key);
  }

  async start(): Promise<this> {
    const iterator = await this.#open();
    await new Promise<void>((resolve, reject) => void this.#follow(iterator, resolve).catch(reject));
    return this;
  }

  onChange(listener: KvListener<T>): () => void {
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
    const fresh = new Map<string, T>();
    let freshRevision = 0;
    let initial = await pendingOf(iterator);
    const complete = () => {
      initial = 0;
      clearInterval(quiet);
      for (const key of [...this.#current.keys(), ...fresh.keys()]) this.#changed.add(key);
      this.#current = fresh;
      this.#handedOut = false;
      this.revision = Math.max(this.revision, freshRevision);
      this.#tell();
      ready();
    };
    // Marks of deleted keys may be removed after they were counted here; then fewer entries come than were announced.
    const quiet = setInterval(() => {
      const left = initial;
      void pendingOf(iterator, false)
        .then((pending) => {
          if (pending === 0 && initial > 0 && initial === left && iterator.getPending() === 0) complete();
        })
        .catch(() => {});
    }, QUIET_MS).unref();
    try {
      if (initial === 0) complete();
      for await (const entry of iterator) {
        if (initial > 0) {
          this.#apply(fresh, entry);
          freshRevision = Math.max(freshRevision, entry.revision);
          if (--initial === 0 || entry.isUpdate) complete();
          continue;
        }
        if (this.#handedOut) this.#current = new Map(this.#current);
        this.#handedOut = false;
        this.#apply(this.#current, entry);
        this.revision = Math.max(this.revision, entry.revision);
        this.#changed.add(entry.key);
        if (iterator.getPending() === 0) this.#tell();
      }
    } finally {
      clearInterval(quiet);
    }
  }

  #apply(map: Map<string, T>, entry: KvWatchEntry): void {
    this.#sweeper?.see(entry.key, entry.revision, entry.operation === 'PUT' ? undefined : entry.created);
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

  #tell(): void {
    const changed = this.#changed;
    this.#changed = new Set();
    for (const listener of this.#listeners) {
      try {
        listener(this, changed);
      } catch (error) {
        this.#log.error({ bucket: this.#bucket, err: error }, 'a listener of a bucket failed');
      }
    }
  }
}

/**
 * How many entries are still to come, when the watch began or (`cached` false) now: that says when the first reading is
 * complete. The client keeps the watch's consumer in the iterator.
 */
async function pendingOf(iterator: QueuedIterator<KvWatchEntry>, cached = true): Promise<number> {
  const consumer = (iterator as unknown as { _data?: { info(cached?: boolean): Promise<{ num_pending: number }> } })
    ._data;
  return (await consumer?.info(cached))?.num_pending ?? 0;
}
