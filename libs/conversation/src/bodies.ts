import { newId, type TenantId, YardError } from '@yardmaster/contracts';
import type { StoreContext } from './history.js';
import { keys } from './keys.js';
import { command } from './redis-connection.js';

/** Chat bodies that are too large for a message: kept ten minutes under a key that goes over the bus instead. */
export class InlineBodies {
  constructor(private readonly store: StoreContext) {}

  /** Stores the body; answers its key. */
  async put(tenant: TenantId, body: string): Promise<string> {
    const key = keys.body(tenant, newId());
    await command(this.store.redis.set(key, body, 'PX', this.store.retention.bodyTtlMs));
    return key;
  }

  /** The body under a key of this tenant. Throws NOT_FOUND. */
  async get(tenant: TenantId, key: string): Promise<string> {
    const prefix = keys.body(tenant, '');
    const body = key.startsWith(prefix) ? await command(this.store.redis.get(key)) : null;
    if (body === null)
      throw new YardError('NOT_FOUND', 'YM-BODY-GONE', 'The request body has expired; send the request again.');
    return body;
  }
}
