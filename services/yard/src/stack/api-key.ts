import { createHash, randomBytes } from 'node:crypto';
import type { TenantId } from '@yardmaster/contracts';

/** A new API key: its text (shown once), and the entry of the tenants' bucket that lets it in. */
export function newApiKey(tenant: TenantId): { text: string; entryName: string; entry: Record<string, unknown> } {
  const id = randomBytes(6).toString('hex');
  const secret = randomBytes(32).toString('base64url');
  return {
    text: `ym_${tenant}_${id}_${secret}`,
    entryName: `${tenant}.key.${id}`,
    entry: {
      id,
      tenant,
      sha256: createHash('sha256').update(secret).digest('hex'),
      name: 'local stack',
      roles: ['runs:read', 'runs:write', 'tools:admin', 'tenant:admin'],
      created_ms: Date.now(),
    },
  };
}
