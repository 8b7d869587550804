import { type TenantId, YardError } from '@yardmaster/contracts';
import type { StoreContext } from './history.js';
import { keys } from './keys.js';
import { call, command } from './redis-connection.js';

export interface IdempotentStart {
  /** False when an earlier request with this key came first: `run` and `conversation` are that one's. */
  fresh: boolean;
  run: string;
  conversation: string;
}

/** Which run an Idempotency-Key of a tenant stands for, for 24 hours. */
export class Idempotency {
  constructor(private readonly store: StoreContext) {}

  /**
   * Claims the key for these ids, or answers the ids that have it. Creating and publishing the run with the answered ids
   * is idempotent, so every request that comes does it: none has to wait for the first, and none is lost with it.
   * Throws INVALID `YM-IDEMPOTENCY-MISMATCH` when the key was used with another body.
   */
  async claim(
    tenant: TenantId,
    key: string,
    bodyHash: string,
    ids: { run: string; conversation: string },
  ): Promise<IdempotentStart> {
    const [fresh, run, conversation, body, at] = (await call(
      this.store.redis,
      'idempotency',
      [keys.idempotency(tenant, key)],
      [ids.run, ids.conversation, bodyHash, this.store.retention.idempotencyTtlMs],
    )) as [number, string, string, string, string];
    if (body !== bodyHash)
      throw new YardError(
        'INVALID',
        'YM-IDEMPOTENCY-MISMATCH',
        `The Idempotency-Key was used at ${new Date(Number(at)).toISOString()} with another body. ` +
          `The earlier run is ${run}. Use a new key for a new request.`,
        { details: { run } },
      );
    return { fresh: fresh === 1, run, conversation };
  }

  /** Forgets a key whose request was refused, so that it can be tried again with another body. */
  async forget(tenant: TenantId, key: string): Promise<void> {
    await command(this.store.redis.unlink(keys.idempotency(tenant, key)));
  }
}
