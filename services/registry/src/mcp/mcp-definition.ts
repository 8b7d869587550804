import { createHash } from 'node:crypto';
import { readTenantMcpServer, type TenantId, tenantId } from '@yardmaster/contracts';
import type { McpSandboxConfig, McpServerConfig, SecretReference } from '@yardmaster/service-kit';

const DEFAULT_TIMEOUT_S = 60;

/** Whose credential a server is given, and where it is. */
export type CredentialPlan =
  | { kind: 'none' }
  /** One of the platform, for every tenant. */
  | { kind: 'platform'; reference: SecretReference }
  /** Each tenant's own. With `listing` the platform lists the tools, for all tenants to see. */
  | { kind: 'tenants'; references: Readonly<Record<string, SecretReference>>; listing: SecretReference | undefined }
  | { kind: 'named'; name: string; listing: SecretReference | undefined };

/** One MCP server, of the platform's configuration or a tenant's own. */
export interface McpDefinition {
  /** Unique among all: the id, with the tenant before it for a tenant's own. */
  key: string;
  id: string;
  /** Whose own it is; undefined for the platform's. */
  owner: TenantId | undefined;
  transport:
    | { kind: 'http'; url: string }
    | {
        kind: 'stdio';
        command: string;
        args: readonly string[];
        env: Readonly<Record<string, string>>;
        credentialEnv: string | undefined;
        sandbox: McpSandboxConfig;
      };
  credentials: CredentialPlan;
  category: 'read' | 'write' | 'execute' | 'network';
  trusted: boolean;
  timeoutMs: number;
  /** Which server it is, without saying so: SHA-256 (hex) of its URL, or of its command and arguments. */
  address: string;
  /** Changes with everything above. */
  fingerprint: string;
}

/** A server of the platform's configuration. */
export function platformServer(id: string, config: McpServerConfig): McpDefinition {
  return fingerprinted({
    key: id,
    id,
    owner: undefined,
    transport:
      config.url !== undefined
        ? { kind: 'http', url: config.url }
        : {
            kind: 'stdio',
            command: config.command!,
            args: config.args ?? [],
            env: config.env ?? {},
            credentialEnv: config.credential_env,
            sandbox: config.sandbox ?? {},
          },
    credentials: planOf(config),
    category: config.category ?? (config.url === undefined ? 'execute' : 'network'),
    trusted: config.trusted ?? false,
    timeoutMs: (config.timeout_s ?? DEFAULT_TIMEOUT_S) * 1000,
  });
}

/** A server in an entry of the bucket of tenants; nobody vouches for what it says about itself. */
export function tenantServer(value: Uint8Array, name: string): McpDefinition | undefined {
  const entry = readTenantMcpServer(value, name);
  if (entry === undefined) return undefined;
  const { id, server } = entry;
  const owner = tenantId(entry.tenant);
  return fingerprinted({
    key: `${owner}/${id}`,
    id,
    owner,
    transport: { kind: 'http', url: server.url },
    credentials:
      server.credential === undefined
        ? { kind: 'none' }
        : { kind: 'named', name: server.credential, listing: undefined },
    category: server.category ?? 'network',
    trusted: false,
    timeoutMs: (server.timeout_s ?? DEFAULT_TIMEOUT_S) * 1000,
  });
}

function planOf({ token_env, token_file, credential, credentials }: McpServerConfig): CredentialPlan {
  const own: SecretReference | undefined =
    token_file !== undefined ? { file: token_file } : token_env !== undefined ? { env: token_env } : undefined;
  if (credentials !== undefined) return { kind: 'tenants', references: credentials, listing: own };
  if (credential !== undefined) return { kind: 'named', name: credential, listing: own };
  return own === undefined ? { kind: 'none' } : { kind: 'platform', reference: own };
}

function fingerprinted(definition: Omit<McpDefinition, 'address' | 'fingerprint'>): McpDefinition {
  const { transport } = definition;
  const where = transport.kind === 'http' ? [transport.url] : [transport.command, ...transport.args];
  const address = createHash('sha256')
    .update(JSON.stringify([transport.kind, ...where]))
    .digest('hex');
  return { ...definition, address, fingerprint: JSON.stringify(definition) };
}
