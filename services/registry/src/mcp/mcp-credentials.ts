import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { isCredentialName, type TenantId, tenantId, YardError } from '@yardmaster/contracts';
import { Secret } from '@yardmaster/guard';
import type { SecretReference } from '@yardmaster/service-kit';
import type { McpDefinition } from './mcp-definition.js';

const LONGEST = 16_384;

/**
 * Which credential a session with a server gets. Read when it is needed, so that a changed file counts; handed out as a
 * `Secret` only, and never the credential of one tenant to a session of another.
 */
export class McpCredentials {
  constructor(
    private readonly folder: string | undefined,
    private readonly env: NodeJS.ProcessEnv,
  ) {}

  /** Does every tenant have tools of its own there, as its own credential lists them? */
  listsPerTenant({ owner, credentials }: McpDefinition): boolean {
    return owner !== undefined || (hasTenants(credentials) && credentials.listing === undefined);
  }

  /** The tenants that have a credential of their own for a server. */
  tenantsOf({ credentials }: McpDefinition): TenantId[] {
    if (credentials.kind === 'tenants') return Object.keys(credentials.references).map(tenantId);
    if (credentials.kind !== 'named' || this.folder === undefined) return [];
    const suffix = `.${credentials.name}`;
    let names: string[];
    try {
      names = readdirSync(this.folder);
    } catch {
      return [];
    }
    return names.flatMap((name) => {
      const tenant = name.endsWith(suffix) ? name.slice(0, -suffix.length) : '';
      return /^[a-z0-9][a-z0-9-]{0,39}$/.test(tenant) ? [tenantId(tenant)] : [];
    });
  }

  /** How a tenant's sessions prove themselves, without the proof: `none`, `platform`, `tenant` or `missing`. */
  kindFor(definition: McpDefinition, tenant: TenantId): 'none' | 'platform' | 'tenant' | 'missing' {
    const { credentials } = definition;
    if (credentials.kind === 'none' || credentials.kind === 'platform') return credentials.kind;
    return this.reference(definition, tenant) === undefined ? 'missing' : 'tenant';
  }

  /**
   * The credential for a session of a tenant, or for the platform's own listing (`undefined`); nothing where the server
   * needs none. Throws DENIED `YM-MCP-CREDENTIAL` where the tenant has none, UNAVAILABLE `YM-MCP-CREDENTIAL-UNREADABLE` where it cannot be read.
   */
  for(definition: McpDefinition, tenant: TenantId | undefined): Secret<string> | undefined {
    const { id, credentials } = definition;
    if (credentials.kind === 'none') return undefined;
    const reference =
      credentials.kind === 'platform'
        ? credentials.reference
        : tenant === undefined
          ? credentials.listing
          : this.reference(definition, tenant);
    if (reference === undefined)
      throw new YardError(
        'DENIED',
        'YM-MCP-CREDENTIAL',
        `Tenant "${tenant}" has no credential for the MCP server "${id}". ${this.howTo(definition, tenant!)}`,
      );
    return this.read(id, reference);
  }

  private reference({ credentials }: McpDefinition, tenant: TenantId): SecretReference | undefined {
    if (credentials.kind === 'tenants')
      return Object.hasOwn(credentials.references, tenant) ? credentials.references[tenant] : undefined;
    if (credentials.kind !== 'named' || this.folder === undefined || !isCredentialName(credentials.name))
      return undefined;
    // Neither a tenant nor a name holds a dot, so no tenant can name the file of another.
    const name = `${tenant}.${credentials.name}`;
    try {
      return readdirSync(this.folder).includes(name) ? { file: join(this.folder, name) } : undefined;
    } catch {
      return undefined;
    }
  }

  private howTo({ id, owner, credentials }: McpDefinition, tenant: TenantId): string {
    if (credentials.kind === 'tenants')
      return `Whoever operates this Yardmaster adds it to mcp_servers.${id}.credentials.${tenant}.`;
    const name = credentials.kind === 'named' ? credentials.name : '';
    const file = `a file "${tenant}.${name}" in YM_REGISTRY_MCP_CREDENTIALS`;
    return owner === undefined
      ? `Whoever operates this Yardmaster adds ${file}.`
      : `Ask whoever operates this Yardmaster for ${file}.`;
  }

  private read(id: string, reference: SecretReference): Secret<string> {
    let text: string | undefined;
    try {
      text = 'file' in reference ? readFileSync(reference.file, 'utf8').trim() : this.env[reference.env]?.trim();
    } catch (error) {
      throw unusable(id, `cannot be read (${(error as NodeJS.ErrnoException).code ?? 'error'})`);
    }
    if (text === undefined || text === '') throw unusable(id, 'is empty or not set');
    // What a header cannot carry would otherwise be printed by whatever complains about it.
    if (text.length > LONGEST || !/^[\x21-\x7e]+$/.test(text)) throw unusable(id, 'is no single word of ASCII');
    return new Secret(text);
  }
}

function hasTenants(
  plan: McpDefinition['credentials'],
): plan is Extract<McpDefinition['credentials'], { kind: 'tenants' | 'named' }> {
  return plan.kind === 'tenants' || plan.kind === 'named';
}

const unusable = (id: string, what: string) =>
  new YardError('UNAVAILABLE', 'YM-MCP-CREDENTIAL-UNREADABLE', `The credential for the MCP server "${id}" ${what}.`);

/** `text` without the credential, in any of the forms in which a server could send it back. */
export function withoutSecret(text: string, secret: Secret<string> | undefined): string {
  if (secret === undefined) return text;
  const plain = secret.reveal();
  let clean = text;
  for (const form of [plain, encodeURIComponent(plain), JSON.stringify(plain).slice(1, -1), ...base64Of(plain)])
    clean = clean.replaceAll(form, '[secret]');
  return clean;
}

/** All three ways in which a text can lie in the middle of base64, without the characters that its neighbours share. */
function base64Of(plain: string): string[] {
  return [0, 1, 2].flatMap((shift) => {
    const bytes = Buffer.from(`${'x'.repeat(shift)}${plain}`);
    const whole = bytes.toString('base64').replaceAll('=', '');
    const from = shift === 0 ? 0 : shift + 1;
    const middle = whole.slice(from, bytes.length % 3 === 0 ? undefined : -1);
    return middle.length < 8 ? [] : [middle, middle.replaceAll('+', '-').replaceAll('/', '_')];
  });
}
