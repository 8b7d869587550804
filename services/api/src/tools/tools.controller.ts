import { Body, Controller, Delete, Get, HttpCode, Inject, Param, Post, Put, Query } from '@nestjs/common';
import { ApiBearerAuth, ApiOperation, ApiProperty, ApiPropertyOptional, ApiTags } from '@nestjs/swagger';
import { type Bus } from '@yardmaster/bus';
import { MCP_KIND, messages, parseExactJson, Registry, subjects, type Tool, YardError } from '@yardmaster/contracts';
import { BUS } from '@yardmaster/service-kit';
import { Type } from 'class-transformer';
import {
  Allow,
  IsArray,
  IsBoolean,
  IsIn,
  IsInt,
  IsObject,
  IsOptional,
  IsString,
  Matches,
  Max,
  MaxLength,
  Min,
} from 'class-validator';
import { Needs } from '../auth/roles.guard.js';
import { ApiConfig } from '../config.js';
import { PageQuery } from '../http/page.query.js';
import { type Caller, CurrentCaller } from '../http/request.js';
import { type Fields, Obeys } from '../http/rules.js';

export class SearchQuery {
  @ApiProperty({ description: 'Words of what the tool should do.' })
  @Obeys(
    'must be 1 to 500 characters',
    (value) => typeof value === 'string' && value.trim() !== '' && value.length <= 500,
  )
  q!: string;

  @ApiPropertyOptional({ minimum: 1, maximum: 50, default: 10 })
  @IsOptional()
  @Type(() => Number)
  @IsInt()
  @Min(1)
  @Max(50)
  limit?: number;
}

export class ValidateDto {
  @ApiProperty({ type: 'object', additionalProperties: true })
  @IsObject()
  arguments!: Record<string, unknown>;
}

/** `description` of a member that GET answers and PUT lets pass, so that what was got can be edited and put back. */
const READ_ONLY = 'Of the registry; what is sent is not looked at.';

/** What an administrator may say of a tool. The rest of what GET answers is the registry's, and passed over. */
export class PutToolDto implements Fields<Tool, 'tenant' | 'serverTool' | 'annotationsTrusted'> {
  @ApiPropertyOptional({ description: 'The name in the path, which is the one that counts; another one is refused.' })
  @IsOptional()
  @IsString()
  name: string | undefined;

  @ApiPropertyOptional({ readOnly: true, type: 'integer', description: READ_ONLY })
  @Allow()
  version: unknown;

  @ApiPropertyOptional({ readOnly: true, type: String, description: READ_ONLY })
  @Allow()
  hash: unknown;

  @ApiPropertyOptional({ readOnly: true, type: Boolean, description: READ_ONLY })
  @Allow()
  shared: unknown;

  @ApiPropertyOptional({ readOnly: true, type: String, nullable: true, description: READ_ONLY })
  @Allow()
  server: unknown;

  @ApiProperty({ maxLength: 10_000 })
  @IsString()
  @MaxLength(10_000)
  description!: string;

  @ApiProperty({ type: 'object', additionalProperties: true, description: 'JSON Schema of the arguments.' })
  @IsObject()
  parameters!: Record<string, unknown>;

  @ApiProperty({ description: 'The executor kind that runs it.' })
  @Matches(/^[a-z][a-z0-9-]{0,39}$/, { message: '$property must be the name of an executor kind' })
  kind!: string;

  @ApiProperty({ enum: ['read', 'idempotent', 'unsafe'] })
  @IsIn(['read', 'idempotent', 'unsafe'])
  effect!: string;

  @ApiProperty({ enum: ['read', 'write', 'execute', 'network'] })
  @IsIn(['read', 'write', 'execute', 'network'])
  category!: string;

  @ApiPropertyOptional({ minimum: 100, maximum: 86_400_000, default: 60_000 })
  @IsOptional()
  @IsInt()
  @Min(100)
  @Max(86_400_000)
  timeout_ms: number | undefined;

  @ApiPropertyOptional({ enum: ['active', 'deprecated', 'retired'], default: 'active' })
  @IsOptional()
  @IsIn(['active', 'deprecated', 'retired'])
  state: string | undefined;

  @ApiPropertyOptional({ type: [String] })
  @IsOptional()
  @IsArray()
  @Matches(/^[A-Za-z0-9_.:-]{1,128}$/, { each: true, message: '$property must be names of tools' })
  aliases: string[] | undefined;

  @ApiPropertyOptional({ type: [String] })
  @IsOptional()
  @IsArray()
  @MaxLength(200, { each: true })
  search_hints: string[] | undefined;

  @ApiPropertyOptional({
    type: 'object',
    nullable: true,
    additionalProperties: true,
    description: 'What the executor is told with each call; `{"encoding": "json"}` for one without protobuf.',
  })
  @IsOptional()
  @IsObject()
  dispatch: Record<string, unknown> | null | undefined;

  @ApiPropertyOptional({
    type: 'object',
    additionalProperties: { type: 'boolean' },
    description:
      'What the tool says of itself: readOnly, destructive, idempotent, openWorld. Can only ask for more approval.',
  })
  @IsOptional()
  @IsObject()
  annotations: Record<string, boolean> | undefined;

  @ApiPropertyOptional({
    type: 'object',
    nullable: true,
    additionalProperties: true,
    description: 'JSON Schema of structured results.',
  })
  @IsOptional()
  @IsObject()
  output_schema: Record<string, unknown> | null | undefined;

  @ApiPropertyOptional({ description: 'Must a person approve every call?' })
  @IsOptional()
  @IsBoolean()
  always_ask: boolean | undefined;
}

/** The registry over HTTP. */
@ApiTags('tools')
@ApiBearerAuth()
@Controller('v1/tools')
export class ToolsController {
  constructor(
    @Inject(BUS) private readonly bus: Bus,
    private readonly config: ApiConfig,
  ) {}

  private get timeoutMs() {
    return { timeoutMs: this.config.rpcTimeoutMs };
  }

  @Get()
  @Needs('runs:read')
  @ApiOperation({ summary: 'Tools that runs of this tenant may name' })
  async list(@CurrentCaller() caller: Caller, @Query() query: PageQuery) {
    const page = await this.bus.request(
      Registry.list,
      caller.tenant,
      { cursor: query.cursor ?? '', limit: query.limit ?? 50 },
      this.timeoutMs,
    );
    return { items: page.tools.map(toolView), next_cursor: page.nextCursor || null };
  }

  @Get('search')
  @Needs('runs:read')
  @ApiOperation({ summary: 'Tools by what they do' })
  async search(@CurrentCaller() caller: Caller, @Query() query: SearchQuery) {
    const { hits } = await this.bus.request(
      Registry.search,
      caller.tenant,
      { query: query.q, limit: query.limit ?? 10 },
      this.timeoutMs,
    );
    return {
      items: hits.flatMap(({ tool, score }) => (tool === undefined ? [] : [{ score, tool: toolView(tool) }])),
      next_cursor: null,
    };
  }

  @Get(':name')
  @Needs('runs:read')
  @ApiOperation({ summary: 'One tool' })
  async get(@CurrentCaller() caller: Caller, @Param('name') name: string) {
    return toolView(await this.bus.request(Registry.get, caller.tenant, { name }, this.timeoutMs));
  }

  @Put(':name')
  @Needs('tools:admin')
  @ApiOperation({
    summary: 'Register a tool, or a new version of it',
    description:
      'Takes what GET answers: members that are the registry’s (`version`, `hash`, `shared`, `server`) are passed over, and ' +
      'a definition that is stored already stays the same version. A shared tool that is put so becomes one of the tenant, ' +
      'which hides the shared one from it.',
  })
  async put(@CurrentCaller() caller: Caller, @Param('name') name: string, @Body() body: PutToolDto) {
    if (body.name != null && body.name !== name)
      throw new YardError(
        'INVALID',
        'YM-REQ-INVALID',
        `/name is "${body.name.slice(0, 128)}", and the path says "${name.slice(0, 128)}": make them equal, or leave it out of the body.`,
      );
    const tool = {
      name,
      description: body.description,
      parametersJson: JSON.stringify(body.parameters),
      kind: body.kind,
      effect: body.effect,
      category: body.category,
      timeoutMs: body.timeout_ms ?? 60_000,
      state: body.state ?? 'active',
      aliases: body.aliases ?? [],
      searchHints: body.search_hints ?? [],
      dispatchJson: body.dispatch == null ? '' : JSON.stringify(body.dispatch),
      alwaysAsk: body.always_ask ?? false,
      // None and empty are the same, in the hash too.
      annotationsJson: Object.keys(body.annotations ?? {}).length === 0 ? '' : JSON.stringify(body.annotations),
      outputSchemaJson: body.output_schema == null ? '' : JSON.stringify(body.output_schema),
    };
    const stored = await this.bus.request(Registry.put, caller.tenant, { tool }, this.timeoutMs);
    await this.note(caller, 'tool.registered', stored);
    return toolView(stored);
  }

  @Delete(':name')
  @HttpCode(204)
  @Needs('tools:admin')
  @ApiOperation({ summary: 'Remove a tool' })
  async delete(@CurrentCaller() caller: Caller, @Param('name') name: string): Promise<void> {
    await this.bus.request(Registry.delete, caller.tenant, { name }, this.timeoutMs);
    await this.note(caller, 'tool.deleted', { name });
  }

  /** Who changed what models may call: for the audit. */
  private async note(caller: Caller, action: string, tool: { name: string; hash?: string }): Promise<void> {
    await this.bus.enqueue(subjects.audit(caller.tenant), messages.audit, {
      atMs: BigInt(Date.now()),
      action,
      actor: caller.keyId,
      tool: tool.name,
      toolHash: tool.hash ?? '',
    });
  }

  @Post(':name/validate')
  @HttpCode(200)
  @Needs('runs:read')
  @ApiOperation({ summary: 'Would these arguments be accepted, and what would they become?' })
  async validate(@CurrentCaller() caller: Caller, @Param('name') name: string, @Body() body: ValidateDto) {
    const answer = await this.bus.request(
      Registry.validate,
      caller.tenant,
      { name, argumentsJson: JSON.stringify(body.arguments) },
      this.timeoutMs,
    );
    return answer.ok
      ? { ok: true, arguments: parseExactJson(answer.argumentsJson) }
      : { ok: false, message: answer.message };
  }
}

const toolView = (tool: Tool) => ({
  name: tool.name,
  description: tool.description,
  parameters: tool.parametersJson === '' ? {} : (JSON.parse(tool.parametersJson) as unknown),
  kind: tool.kind,
  effect: tool.effect,
  category: tool.category,
  timeout_ms: tool.timeoutMs,
  state: tool.state,
  version: tool.version,
  hash: tool.hash,
  shared: tool.tenant === '',
  aliases: tool.aliases,
  search_hints: tool.searchHints,
  always_ask: tool.alwaysAsk,
  annotations: tool.annotationsJson === '' ? {} : (JSON.parse(tool.annotationsJson) as unknown),
  output_schema: tool.outputSchemaJson === '' ? null : (JSON.parse(tool.outputSchemaJson) as unknown),
  // Of an MCP tool it says which server that is: the registry's own, and no tenant's to see.
  dispatch: tool.dispatchJson === '' || tool.kind === MCP_KIND ? null : (JSON.parse(tool.dispatchJson) as unknown),
  server: tool.server === '' ? null : tool.server,
});
