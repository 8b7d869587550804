import type { TenantId } from './ids.js';

const CATEGORIES = ['read', 'write', 'execute', 'network'] as const;
const SERVER_ID = /^[a-z0-9]([a-z0-9-]{0,18}[a-z0-9])?$/;
const CREDENTIAL = /^[a-z0-9][a-z0-9-]{0,39}$/;

/** An MCP server that a tenant has added itself. The credential is a name: what it stands for is never stored here. */
export interface TenantMcpServer {
  /** Streamable HTTP. */
  url: string;
  /** Name of the tenant's credential, as the operator has stored it (`<tenant>.<name>`). */
  credential?: string;
  category?: (typeof CATEGORIES)[number];
  timeout_s?: number;
}

/** Can a text be the id of an MCP server? It never holds `__`, so that names of tools can be taken apart. */
export const isMcpServerId = (text: string): boolean => SERVER_ID.test(text);

/** Can a text be the name of a credential? */
export const isCredentialName = (text: string): boolean => CREDENTIAL.test(text);

/** Key of a tenant's MCP server in the bucket of tenants. */
export const tenantMcpServerName = (tenant: TenantId, id: string) => `${tenant}.mcp.${id}`;

/** The server in an entry of the bucket of tenants; undefined for an entry of another kind, or one that cannot be read. */
export function readTenantMcpServer(
  value: Uint8Array,
  name: string,
): { tenant: string; id: string; server: TenantMcpServer } | undefined {
  const [tenant, kind, id, ...more] = name.split('.');
  if (kind !== 'mcp' || tenant === undefined || id === undefined || more.length > 0 || !isMcpServerId(id))
    return undefined;
  try {
    const stored = JSON.parse(new TextDecoder().decode(value)) as TenantMcpServer;
    return isTenantMcpServer(stored) ? { tenant, id, server: stored } : undefined;
  } catch {
    return undefined;
  }
}

function isTenantMcpServer(value: TenantMcpServer): boolean {
  const { url, credential, category, timeout_s: timeout } = value;
  return (
    typeof url === 'string' &&
    URL.canParse(url) &&
    (credential === undefined || (typeof credential === 'string' && isCredentialName(credential))) &&
    (category === undefined || CATEGORIES.includes(category)) &&
    (timeout === undefined || (Number.isInteger(timeout) && timeout >= 1 && timeout <= 86_400))
  );
}
