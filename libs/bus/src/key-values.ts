import type { MsgHdrs } from '@nats-io/transport-node';
import { type BucketName, subjectToken, YardError } from '@yardmaster/contracts';
import { HeaderBlock } from './payload.js';
import type { Store } from './stored.js';

const KEY = /^[-/_=.a-zA-Z0-9]{1,512}$/;
const OPERATION = 'KV-Operation';
const DELETE = HeaderBlock.of([[OPERATION, 'DEL']]);
const expecting = (revision: number) => HeaderBlock.of([['Nats-Expected-Last-Subject-Sequence', String(revision)]]);

export interface KvItem {
  value: Uint8Array;
  revision: number;
}

/** A key as it is, there or not. */
export interface KvState {
  /** Undefined when the key is not there. */
  value: Uint8Array | undefined;
  /** What `update` takes: that of the value, that of the mark of its deletion, or 0 when nothing was ever written. */
  revision: number;
}

/** One bucket, read and written without an inventory of it: what a login needs is the bucket's own subjects. */
export class KeyValues {
  readonly #store: Store;
  readonly #bucket: string;

  constructor(store: Store, bucket: BucketName) {
    this.#store = store;
    this.#bucket = subjectToken(bucket);
  }

  /** The value of a key, or nothing. */
  async get(key: string): Promise<KvItem | undefined> {
    const last = await this.#last(key);
    return last === undefined || last.deleted ? undefined : { value: last.value, revision: last.revision };
  }

  /** For who reads, decides and writes with `update`. */
  async state(key: string): Promise<KvState> {
    const last = await this.#last(key);
    if (last === undefined) return { value: undefined, revision: 0 };
    return { value: last.deleted ? undefined : last.value, revision: last.revision };
  }

  /** Writes whatever was there; answers the new revision. */
  async put(key: string, value: Uint8Array | string): Promise<number> {
    return this.#write(key, value);
  }

  /** Writes a key that does not exist. Throws CONFLICT. */
  async create(key: string, value: Uint8Array | string): Promise<number> {
    try {
      return await this.#write(key, value, expecting(0));
    } catch (error) {
      if (!YardError.is(error) || error.class !== 'CONFLICT') throw error;
      // A deleted key leaves a mark with a revision of its own.
      const last = await this.#last(key);
      if (last === undefined || !last.deleted) throw error;
      return this.#write(key, value, expecting(last.revision));
    }
  }

  /** Writes a key whose revision (see `state`) is still the given one. Throws CONFLICT. */
  async update(key: string, value: Uint8Array | string, revision: number): Promise<number> {
    return this.#write(key, value, expecting(revision));
  }

  async delete(key: string): Promise<void> {
    await this.#write(key, '', DELETE);
  }

  async #last(key: string) {
    const found = await this.#store.lastRaw(`KV_${this.#bucket}`, this.#subject(key));
    if (found === undefined) return undefined;
    const operation = found.message.headers?.get(OPERATION);
    const deleted = operation === 'DEL' || operation === 'PURGE';
    return { value: found.message.data, revision: found.sequence, deleted };
  }

  async #write(key: string, value: Uint8Array | string, headers?: MsgHdrs): Promise<number> {
    const bytes = typeof value === 'string' ? new TextEncoder().encode(value) : value;
    return (await this.#store.put(this.#subject(key), bytes, headers)).sequence;
  }

  #subject(key: string): string {
    if (!KEY.test(key) || key.startsWith('.') || key.endsWith('.') || key.includes('..'))
      throw new YardError('INVALID', 'YM-KV-KEY', `"${key.slice(0, 60)}" is no key: letters, digits and -/_=. only.`);
    return `$KV.${this.#bucket}.${key}`;
  }
}
