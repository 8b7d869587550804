import { newId, type TenantId, tenantId } from './ids.js';

/** What a caller may do; a key has one or more of these. */
export const ROLES = ['runs:read', 'runs:write', 'tools:admin', 'tenant:admin'] as const;
export type Role = (typeof ROLES)[number];

/** What is kept of an API key, as JSON in the bucket of tenants under `apiKeyEntryName`: never the secret itself. */
export interface ApiKeyEntry {
  id: string;
  name: string;
  /** SHA-256 (hex) of the secret; it has 256 random bits, so a slow hash would only slow us down. */
  hash: string;
  roles: Role[];
  created_ms: number;
  expires_ms?: number;
}

export interface ApiKeyParts {
  tenant: TenantId;
  id: string;
  secret: string;
}

const API_KEY = /^ym_([a-z0-9][a-z0-9-]{0,39})_([a-z0-9]{8,32})_([0-9a-f]{64})$/;

/** The parts of `ym_<tenant>_<id>_<secret>`; undefined for any other text. */
export function parseApiKey(text: string): ApiKeyParts | undefined {
  const [, tenant, id, secret] = API_KEY.exec(text) ?? [];
  return tenant && id && secret ? { tenant: tenantId(tenant), id, secret } : undefined;
}

/** Key of an API key in the bucket of tenants. */
export const apiKeyEntryName = (tenant: TenantId, id: string) => `${tenant}.key.${id}`;

const hex = (bytes: Uint8Array) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');

/** A new key: `key` is shown once, `entry` is what is stored. */
export async function mintApiKey(
  tenant: TenantId,
  options: { name: string; roles: Role[]; expiresMs?: number },
): Promise<{ key: string; entry: ApiKeyEntry }> {
  const id = newId().replaceAll('-', '').slice(-12);
  const secret = hex(crypto.getRandomValues(new Uint8Array(32)));
  const digest = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(secret));
  return {
    key: `ym_${tenant}_${id}_${secret}`,
    entry: {
      id,
      name: options.name,
      hash: hex(new Uint8Array(digest)),
      roles: options.roles,
      created_ms: Date.now(),
      ...(options.expiresMs === undefined ? {} : { expires_ms: options.expiresMs }),
    },
  };
}
