import type { MessageInitShape } from '@bufbuild/protobuf';
import { Inject, Injectable, type OnApplicationBootstrap, type OnModuleDestroy } from '@nestjs/common';
import { type Bus, type KvSnapshot } from '@yardmaster/bus';
import {
  BUCKETS,
  type Effect,
  isMcpServerId,
  MCP_KIND,
  type McpServerSchema,
  type McpServersResponseSchema,
  type TenantId,
  YardError,
} from '@yardmaster/contracts';
import { serveTools, type Tool as ServedTool, type ToolServer } from '@yardmaster/executor-kit';
import { BUS, LOGGER, type Logger, PlatformConfigFile } from '@yardmaster/service-kit';
import { environment, RegistryConfig } from '../config.js';
import { ToolCatalogue } from '../tools/tool-catalogue.js';
import { callTool } from './mcp-call.js';
import { McpCredentials } from './mcp-credentials.js';
import { type McpDefinition, platformServer, tenantServer } from './mcp-definition.js';
import { McpFollower } from './mcp-follower.js';
import { type LinkEnvironment, McpLink } from './mcp-link.js';
import { SandboxProbe } from './stdio-sandbox.js';

const LOOK_MS = 5_000;

/**
 * MCP servers as a back end: those of the configuration, and those that tenants add. Each is followed (its tools are
 * registered), and calls come over the queue of the kind `mcp`, like those of executors. Every tenant has sessions of
 * its own with its own credential.
 */
@Injectable()
export class McpService implements OnApplicationBootstrap, OnModuleDestroy {
  private definitions: ReadonlyMap<string, McpDefinition> = new Map();
  /** By server and tenant (or nobody). */
  private readonly followers = new Map<string, McpFollower>();
  private readonly sessions = new Map<string, McpLink>();
  private tenants: KvSnapshot<McpDefinition | undefined> | undefined;
  private server: ToolServer | undefined;
  private timer: NodeJS.Timeout | undefined;
  private reconciling: Promise<void> = Promise.resolve();
  private readonly credentials: McpCredentials;
  private readonly links: LinkEnvironment;
  private stopping = false;
  /** Tenants (or nobody) and servers whose tools this process has registered; undefined until it has begun. */
  private everFollowed: ReadonlySet<string> | undefined;

  constructor(
    @Inject(BUS) private readonly bus: Bus,
    @Inject(LOGGER) private readonly log: Logger,
    private readonly catalogue: ToolCatalogue,
    private readonly config: RegistryConfig,
    private readonly platform: PlatformConfigFile,
  ) {
    this.credentials = new McpCredentials(config.mcpCredentials, environment());
    this.links = {
      credentials: this.credentials,
      bwrap: config.bwrap,
      sandbox: config.mcpSandbox,
      probe: new SandboxProbe(config.bwrap),
      egress: () => ({ allow: this.platform.current.mcpEgress }),
    };
  }

  async onApplicationBootstrap(): Promise<void> {
    this.tenants = await this.bus.watch(BUCKETS.tenants, tenantServer);
    this.tenants.onChange(() => this.reconcile());
    this.platform.onChange(() => this.reconcile());
    await this.reconcile();
    // Credentials come and go as files, and sessions end when nobody uses them.
    this.timer = setInterval(() => this.look(), LOOK_MS);
    this.timer.unref();
    this.server = await serveTools(
      {
        kind: MCP_KIND,
        bus: this.bus,
        slots: this.config.mcpSlots,
        ackWaitMs: this.config.mcpAckWaitMs,
        log: this.log,
        find: (name, tenant) => this.served(name, tenant),
      },
      [],
    );
  }

  async onModuleDestroy(): Promise<void> {
    this.stopping = true;
    clearInterval(this.timer);
    this.tenants?.stop();
    await this.server?.stop();
    await this.reconciling;
    await Promise.all([
      ...[...this.followers.values()].map((follower) => follower.stop()),
      ...[...this.sessions.values()].map((link) => link.close()),
    ]);
  }

  /** The servers that a tenant has or sees, and how they are. Throws NOT_FOUND for one that it does not see. */
  async list(tenant: TenantId, id: string, test: boolean): Promise<MessageInitShape<typeof McpServersResponseSchema>> {
    const seen = [...this.definitions.values()].filter(
      ({ owner, id: own }) => (owner === undefined || owner === tenant) && (id === '' || own === id),
    );
    if (id !== '' && seen.length === 0)
      throw new YardError('NOT_FOUND', 'YM-MCP-UNKNOWN', `There is no MCP server "${id.slice(0, 40)}".`);
    if (test) await Promise.all(seen.map((definition) => this.followerFor(definition, tenant)?.test()));
    return {
      servers: seen.map((definition) => this.view(definition, tenant)).sort((a, b) => (a.id! < b.id! ? -1 : 1)),
    };
  }

  private view(definition: McpDefinition, tenant: TenantId): MessageInitShape<typeof McpServerSchema> {
    const follower = this.followerFor(definition, tenant);
    const credential = this.credentials.kindFor(definition, tenant);
    const { transport } = definition;
    const missing = credential === 'missing' ? this.problem(definition, tenant) : undefined;
    const found = follower?.state;
    return {
      id: definition.id,
      shared: definition.owner === undefined,
      transport: transport.kind,
      url: definition.owner !== undefined && transport.kind === 'http' ? transport.url : '',
      category: definition.category,
      timeoutMs: definition.timeoutMs,
      trusted: definition.trusted,
      credential,
      tools: found?.tools ?? [],
      quarantined: found?.quarantined ?? {},
      listedAtMs: BigInt(found?.listedAtMs ?? 0),
      protocol: found?.protocol ?? '',
      serverVersion: found?.serverVersion ?? '',
      ...(missing === undefined
        ? { state: found?.state ?? 'connecting', problem: found?.problem ?? '', code: found?.code ?? '' }
        : { state: 'no_credential', problem: missing.message, code: missing.code }),
    };
  }

  private problem(definition: McpDefinition, tenant: TenantId): YardError | undefined {
    try {
      this.credentials.for(definition, tenant);
      return undefined;
    } catch (error) {
      if (YardError.is(error)) return error;
      throw error;
    }
  }

  private followerFor(definition: McpDefinition, tenant: TenantId): McpFollower | undefined {
    return this.followers.get(linkKey(definition, this.credentials.listsPerTenant(definition) ? tenant : undefined));
  }

  /** The tool of a call, as the catalogue has it now, run in a session of the tenant that calls. */
  private served(name: string, tenant: TenantId): ServedTool | undefined {
    const tool = this.catalogue.find(tenant, name);
    if (tool === undefined || tool.kind !== MCP_KIND || tool.server === '') return undefined;
    const own = tool.tenant === '' ? undefined : this.definitions.get(`${tenant}/${tool.server}`);
    const definition = own ?? this.definitions.get(tool.server);
    if (definition === undefined) return undefined;
    const effect = tool.effect as Effect;
    return {
      name,
      description: tool.description,
      effect,
      timeoutMs: tool.timeoutMs,
      input: {},
      run: async (args, { signal, timeoutMs, call }) => {
        // What was checked, and perhaps approved, is the definition of this hash and no other.
        const agreed = call.toolHash === '' ? tool : await this.catalogue.withHash(tool, call.toolHash);
        if (agreed === undefined)
          return {
            ok: false,
            reason: 'refused',
            output: `The MCP server "${tool.server}" has changed the definition of "${name}" since this call was made. Nothing was run; look at the tool as it is now.`,
          };
        return callTool(this.session(definition, tenant), {
          tool: agreed.serverTool,
          args,
          outputSchemaJson: agreed.outputSchemaJson,
          signal,
          timeoutMs,
          mayRepeat: effect !== 'unsafe' && call.effect !== 'unsafe',
        });
      },
    };
  }

  /** The tenant's session with a server: the one that lists its tools where those are the tenant's own. */
  private session(definition: McpDefinition, tenant: TenantId): McpLink {
    const key = linkKey(definition, tenant);
    const follower = this.followers.get(key);
    if (follower !== undefined) return follower.link;
    const known = this.sessions.get(key);
    if (known !== undefined) return known;
    const link = new McpLink(definition, tenant, this.links);
    this.sessions.set(key, link);
    return link;
  }

  private reconcile(): Promise<void> {
    return (this.reconciling = this.reconciling
      .then(() => this.apply())
      .catch((error: unknown) => this.log.error({ err: error }, 'MCP servers cannot be brought up to date')));
  }

  private async apply(): Promise<void> {
    if (this.stopping) return;
    this.definitions = this.wanted();
    const followed = new Map<string, { definition: McpDefinition; tenant: TenantId | undefined }>();
    for (const definition of this.definitions.values())
      for (const tenant of this.listers(definition)) followed.set(linkKey(definition, tenant), { definition, tenant });

    for (const [key, follower] of this.followers) {
      if (followed.get(key)?.definition.fingerprint === follower.link.definition.fingerprint) continue;
      this.followers.delete(key);
      await follower.stop();
    }
    for (const [key, link] of this.sessions) {
      if (this.definitions.get(link.definition.key)?.fingerprint === link.definition.fingerprint && !followed.has(key))
        continue;
      this.sessions.delete(key);
      await link.close();
    }
    const wanted = new Set([...followed.values()].map(({ definition: { id }, tenant }) => `${tenant ?? ''} ${id}`));
    // Tools of servers that are gone: at the start all such, later those that were followed here. Another replica may
    // have read a newer configuration already, and what it has registered stays.
    const gone = (owner: string) => !wanted.has(owner) && (this.everFollowed?.has(owner) ?? true);
    for (const tool of this.catalogue.ofAllServers())
      if (gone(`${tool.tenant} ${tool.server}`))
        await this.catalogue.deleteOfServer(tool.tenant === '' ? undefined : (tool.tenant as TenantId), tool.name);
    this.everFollowed = new Set([...(this.everFollowed ?? []), ...wanted]);
    for (const [key, { definition, tenant }] of followed)
      if (!this.followers.has(key)) {
        const link = new McpLink(definition, tenant, this.links);
        this.followers.set(key, new McpFollower(link, this.catalogue, this.config.mcpRelistMs, this.log));
      }
  }

  /** For whom a server's tools are listed: for everybody (nobody's name), or for each tenant by itself. */
  private listers(definition: McpDefinition): (TenantId | undefined)[] {
    if (definition.owner !== undefined) return [definition.owner];
    return this.credentials.listsPerTenant(definition) ? this.credentials.tenantsOf(definition) : [undefined];
  }

  private wanted(): Map<string, McpDefinition> {
    const found = new Map<string, McpDefinition>();
    for (const [id, config] of Object.entries(this.platform.current.mcpServers)) {
      if (isMcpServerId(id)) found.set(id, platformServer(id, config));
      else this.log.warn({ server: id }, 'this cannot be the id of an MCP server: letters, digits and -, at most 20');
    }
    for (const definition of this.tenants?.current.values() ?? [])
      if (definition !== undefined) found.set(definition.key, definition);
    return found;
  }

  private look(): void {
    for (const [key, link] of this.sessions) {
      if (link.busy > 0 || Date.now() - link.lastUsed < this.config.mcpIdleMs) continue;
      this.sessions.delete(key);
      void link.close();
    }
    const perTenant = [...this.definitions.values()].some(
      ({ owner, credentials }) => owner === undefined && credentials.kind === 'named',
    );
    if (perTenant) void this.reconcile();
  }
}

const linkKey = ({ key }: McpDefinition, tenant: TenantId | undefined) => `${key} ${tenant ?? '_'}`;
