import { Body, Controller, Delete, Get, HttpCode, Inject, Param, Post, Put, Query } from '@nestjs/common';
import { ApiBearerAuth, ApiOperation, ApiProperty, ApiPropertyOptional, ApiTags } from '@nestjs/swagger';
import { type Bus } from '@yardmaster/bus';
import {
  BUCKETS,
  isMcpServerId,
  type McpServer,
  messages,
  readTenantMcpServer,
  Registry,
  subjects,
  type TenantId,
  type TenantMcpServer,
  tenantMcpServerName,
  YardError,
} from '@yardmaster/contracts';
import { assertUrl, tenantPolicy } from '@yardmaster/guard';
import { BUS, PlatformConfigFile } from '@yardmaster/service-kit';
import { IsIn, IsInt, IsOptional, Matches, Max, Min } from 'class-validator';
import { Needs } from '../auth/roles.guard.js';
import { ApiConfig } from '../config.js';
import { PageQuery } from '../http/page.query.js';
import { type Caller, CurrentCaller } from '../http/request.js';
import { Obeys } from '../http/rules.js';

const MOST_SERVERS = 20;
const LONGEST_URL = 2_000;
/** A server is asked anew when it is tested: it may have to be started and to list all that it has. */
const TEST_MS = 60_000;

export class PutMcpServerDto implements TenantMcpServer {
  @ApiProperty({
    description: 'Streamable HTTP. A public address with https, or one that the operator has allowed (mcp_egress).',
    maxLength: LONGEST_URL,
  })
  @Obeys(
    'must be an http(s) URL without a user, a query or a fragment: a key belongs into a credential',
    (value) => typeof value === 'string' && value.length <= LONGEST_URL && isPlainUrl(value),
  )
  url!: string;

  @ApiPropertyOptional({
    description: 'Name of a credential of this tenant, as the operator has stored it; never the credential itself.',
    pattern: '^[a-z0-9][a-z0-9-]{0,39}$',
  })
  @IsOptional()
  @Matches(/^[a-z0-9][a-z0-9-]{0,39}$/, { message: '$property must be the name of a credential: a-z, 0-9 and -' })
  credential?: string;

  @ApiPropertyOptional({ enum: ['read', 'write', 'execute', 'network'], default: 'network' })
  @IsOptional()
  @IsIn(['read', 'write', 'execute', 'network'])
  category?: 'read' | 'write' | 'execute' | 'network';

  @ApiPropertyOptional({ minimum: 1, maximum: 86_400, default: 60, description: 'Time for one call.' })
  @IsOptional()
  @IsInt()
  @Min(1)
  @Max(86_400)
  timeout_s?: number;
}

function isPlainUrl(text: string): boolean {
  if (!URL.canParse(text)) return false;
  const { protocol, username, password, search, hash } = new URL(text);
  return /^https?:$/.test(protocol) && username === '' && password === '' && search === '' && hash === '';
}

/** MCP servers whose tools a tenant's runs can use: the platform's, and its own. */
@ApiTags('mcp-servers')
@ApiBearerAuth()
@Controller('v1/mcp-servers')
export class McpServersController {
  constructor(
    @Inject(BUS) private readonly bus: Bus,
    private readonly config: ApiConfig,
    private readonly platform: PlatformConfigFile,
  ) {}

  @Get()
  @Needs('runs:read')
  @ApiOperation({ summary: 'MCP servers that this tenant has or sees, and how they are' })
  async list(@CurrentCaller() caller: Caller, @Query() query: PageQuery) {
    const servers = (await this.ask(caller.tenant, '')).filter(({ id }) => id > (query.cursor ?? ''));
    const items = servers.slice(0, query.limit ?? 50);
    return { items: items.map(serverView), next_cursor: items.length < servers.length ? items.at(-1)!.id : null };
  }

  @Get(':id')
  @Needs('runs:read')
  @ApiOperation({ summary: 'One MCP server: its state, its tools, and what of them was left out and why' })
  async get(@CurrentCaller() caller: Caller, @Param('id') id: string) {
    return serverView((await this.ask(caller.tenant, known(id)))[0]!);
  }

  @Put(':id')
  @Needs('tools:admin')
  @ApiOperation({ summary: 'Add an MCP server of the tenant, or change it; it is connected to at once' })
  async put(@CurrentCaller() caller: Caller, @Param('id') id: string, @Body() body: PutMcpServerDto) {
    const { tenant } = caller;
    if (!isMcpServerId(id))
      throw new YardError(
        'INVALID',
        'YM-MCP-ID',
        `"${id.slice(0, 60)}" cannot be the id of an MCP server: 1 to 20 of a-z, 0-9 and -, with no - at the ends.`,
      );
    if (Object.hasOwn(this.platform.current.mcpServers, id))
      throw new YardError('CONFLICT', 'YM-MCP-ID-TAKEN', `The platform has an MCP server "${id}". Choose another id.`);
    const others = (await this.ask(tenant, '')).filter((server) => !server.shared && server.id !== id);
    if (others.length >= MOST_SERVERS)
      throw new YardError(
        'EXHAUSTED',
        'YM-MCP-TOO-MANY',
        `A tenant can have ${MOST_SERVERS} MCP servers of its own. Delete one.`,
      );
    await this.assertReachable(body.url);
    const server: TenantMcpServer = {
      url: body.url,
      ...(body.credential != null && { credential: body.credential }),
      ...(body.category != null && { category: body.category }),
      ...(body.timeout_s != null && { timeout_s: body.timeout_s }),
    };
    await this.bus.kv(BUCKETS.tenants).put(tenantMcpServerName(tenant, id), JSON.stringify(server));
    await this.note(caller, 'mcp_server.put', id);
    return {
      id,
      shared: false,
      transport: 'http',
      url: server.url,
      category: server.category ?? 'network',
      timeout_s: server.timeout_s ?? 60,
      trusted: false,
      state: 'connecting',
    };
  }

  @Delete(':id')
  @HttpCode(204)
  @Needs('tools:admin')
  @ApiOperation({ summary: 'Remove an MCP server of the tenant and its tools' })
  async delete(@CurrentCaller() caller: Caller, @Param('id') id: string): Promise<void> {
    const name = tenantMcpServerName(caller.tenant, known(id));
    const stored = await this.bus.kv(BUCKETS.tenants).get(name);
    if (stored === undefined || readTenantMcpServer(stored.value, name) === undefined) throw unknown(id);
    await this.bus.kv(BUCKETS.tenants).delete(name);
    await this.note(caller, 'mcp_server.deleted', id);
  }

  @Post(':id/test')
  @HttpCode(200)
  @Needs('tools:admin')
  @ApiOperation({ summary: 'Connect now and list the tools anew; answers what came of it' })
  async test(@CurrentCaller() caller: Caller, @Param('id') id: string) {
    return serverView((await this.ask(caller.tenant, known(id), true))[0]!);
  }

  private async ask(tenant: TenantId, id: string, test = false): Promise<McpServer[]> {
    const timeoutMs = test ? TEST_MS : this.config.rpcTimeoutMs;
    return (await this.bus.request(Registry.mcpServers, tenant, { id, test }, { timeoutMs })).servers;
  }

  /** Said at the door; the registry checks again whenever it connects. A name that has no address now may get one. */
  private async assertReachable(url: string): Promise<void> {
    try {
      await assertUrl(url, tenantPolicy({ allow: this.platform.current.mcpEgress }));
    } catch (error) {
      if (!YardError.is(error) || error.class !== 'UNAVAILABLE') throw error;
    }
  }

  private async note(caller: Caller, action: string, id: string): Promise<void> {
    await this.bus.enqueue(subjects.audit(caller.tenant), messages.audit, {
      atMs: BigInt(Date.now()),
      action,
      actor: caller.keyId,
      tool: id,
    });
  }
}

const unknown = (id: string) =>
  new YardError('NOT_FOUND', 'YM-MCP-UNKNOWN', `The tenant has no MCP server "${id.slice(0, 40)}" of its own.`);

/** An id that cannot be one is as unknown as any other. */
function known(id: string): string {
  if (!isMcpServerId(id)) throw unknown(id);
  return id;
}

const serverView = (server: McpServer) => ({
  id: server.id,
  shared: server.shared,
  transport: server.transport,
  url: server.url === '' ? null : server.url,
  category: server.category,
  timeout_s: server.timeoutMs / 1000,
  trusted: server.trusted,
  credential: server.credential,
  state: server.state,
  problem: server.problem === '' ? null : { code: server.code, message: server.problem },
  tools: server.tools,
  quarantined: Object.entries(server.quarantined).map(([tool, reason]) => ({ tool, reason })),
  listed_at: server.listedAtMs === 0n ? null : new Date(Number(server.listedAtMs)).toISOString(),
  protocol: server.protocol === '' ? null : server.protocol,
  server: server.serverVersion === '' ? null : server.serverVersion,
});
