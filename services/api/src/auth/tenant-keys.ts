import { createHash, timingSafeEqual } from 'node:crypto';
import { Inject, Injectable, type OnModuleDestroy } from '@nestjs/common';
import { type Bus, type KvSnapshot } from '@yardmaster/bus';
import {
  type ApiKeyEntry,
  apiKeyEntryName,
  BUCKETS,
  mintApiKey,
  parseApiKey,
  type Role,
  type TenantId,
  YardError,
} from '@yardmaster/contracts';
import type { Caller } from '../http/request.js';
import { BUS } from '@yardmaster/service-kit';

const NOBODY = Buffer.alloc(32);
const refuse = () =>
  new YardError(
    'DENIED',
    'YM-UNAUTHENTICATED',
    'A valid API key is needed: Authorization: Bearer ym_<tenant>_<id>_<secret>.',
  );

/** API keys of all tenants, followed in the bucket: a revoked key is refused within the time of a message. */
@Injectable()
export class TenantKeys implements OnModuleDestroy {
  private snapshot: KvSnapshot<ApiKeyEntry | undefined> | undefined;
  private starting: Promise<void> | undefined;

  constructor(@Inject(BUS) private readonly bus: Bus) {}

  /** Resolves when all keys have been read once. */
  start(): Promise<void> {
    return (this.starting ??= this.bus
      .watch(
        BUCKETS.tenants,
        (value, name) => {
          // The bucket holds more of a tenant than its keys.
          if (name.split('.')[1] !== 'key') return undefined;
          return JSON.parse(new TextDecoder().decode(value)) as ApiKeyEntry;
        },
        { sweep: true },
      )
      .then((snapshot) => {
        this.snapshot = snapshot;
      })
      .catch((error: unknown) => {
        this.starting = undefined;
        throw error;
      }));
  }

  onModuleDestroy(): void {
    this.snapshot?.stop();
  }

  /** The caller of an Authorization header. Throws the same 401 whatever is wrong with it. */
  authenticate(header: string | undefined, now = Date.now()): Caller {
    const parts = header?.startsWith('Bearer ') ? parseApiKey(header.slice(7).trim()) : undefined;
    const entry = parts && this.snapshot?.get(apiKeyEntryName(parts.tenant, parts.id));
    // Hash and compare in every case: how long a refusal takes says nothing about which part was wrong.
    const given = createHash('sha256')
      .update(parts?.secret ?? '')
      .digest();
    const stored = entry === undefined ? NOBODY : Buffer.from(entry.hash, 'hex');
    const same = timingSafeEqual(given, stored.length === 32 ? stored : NOBODY);
    if (!parts || !entry || !same || (entry.expires_ms !== undefined && entry.expires_ms <= now)) throw refuse();
    return { tenant: parts.tenant, keyId: entry.id, keyName: entry.name, roles: entry.roles };
  }

  /** Is the key of this caller still there, and not expired? */
  isLive(caller: Caller, now = Date.now()): boolean {
    const entry = this.snapshot?.get(apiKeyEntryName(caller.tenant, caller.keyId));
    return entry !== undefined && (entry.expires_ms === undefined || entry.expires_ms > now);
  }

  list(tenant: TenantId): ApiKeyEntry[] {
    const prefix = apiKeyEntryName(tenant, '');
    return [...(this.snapshot?.current ?? [])]
      .flatMap(([name, entry]) => (name.startsWith(prefix) && entry !== undefined ? [entry] : []))
      .sort((a, b) => a.created_ms - b.created_ms);
  }

  /** Makes a key; its text is in the answer and nowhere else. */
  async create(
    tenant: TenantId,
    options: { name: string; roles: Role[]; expiresMs?: number },
  ): Promise<{ key: string; entry: ApiKeyEntry }> {
    const made = await mintApiKey(tenant, options);
    await this.bus.kv(BUCKETS.tenants).create(apiKeyEntryName(tenant, made.entry.id), JSON.stringify(made.entry));
    return made;
  }

  /** Throws NOT_FOUND. */
  async revoke(tenant: TenantId, id: string): Promise<void> {
    if (!this.list(tenant).some((entry) => entry.id === id))
      throw new YardError('NOT_FOUND', 'YM-KEY-UNKNOWN', `There is no API key ${id.slice(0, 60)}.`);
    await this.bus.kv(BUCKETS.tenants).delete(apiKeyEntryName(tenant, id));
  }
}
