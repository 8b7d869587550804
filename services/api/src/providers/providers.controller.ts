import { Body, Controller, Get, HttpCode, Inject, Post } from '@nestjs/common';
import { ApiBearerAuth, ApiOperation, ApiPropertyOptional, ApiTags } from '@nestjs/swagger';
import { type Bus } from '@yardmaster/bus';
import { type PlanRequest, Router } from '@yardmaster/contracts';
import { BUS, PlatformConfigFile } from '@yardmaster/service-kit';
import { ArrayMaxSize, IsArray, IsBoolean, IsIn, IsObject, IsOptional, IsString, MaxLength } from 'class-validator';
import { Needs } from '../auth/roles.guard.js';
import { ApiConfig } from '../config.js';
import { type Caller, CurrentCaller } from '../http/request.js';
import { type Fields, Obeys } from '../http/rules.js';
import { KnownNames } from '../runs/known-names.js';

const isChains = (value: unknown) =>
  typeof value === 'object' &&
  value !== null &&
  Object.values(value).every((list) => Array.isArray(list) && list.every((name) => typeof name === 'string'));

export class PlanDto implements Fields<PlanRequest> {
  @ApiPropertyOptional()
  @IsOptional()
  @IsString()
  @MaxLength(200)
  model: string | undefined;

  @ApiPropertyOptional({ description: 'Take model, providers and fallbacks from this agent.' })
  @IsOptional()
  @IsString()
  @MaxLength(40)
  agent: string | undefined;

  @ApiPropertyOptional({ type: [String] })
  @IsOptional()
  @IsArray()
  @ArrayMaxSize(100)
  @IsString({ each: true })
  providers: string[] | undefined;

  @ApiPropertyOptional({ type: 'object', additionalProperties: { type: 'array', items: { type: 'string' } } })
  @IsOptional()
  @IsObject()
  @Obeys('must map models to lists of models', isChains)
  model_fallbacks: Record<string, string[]> | undefined;

  @ApiPropertyOptional({ type: [String] })
  @IsOptional()
  @IsArray()
  @ArrayMaxSize(1000)
  @IsString({ each: true })
  tools: string[] | undefined;

  @ApiPropertyOptional({ enum: ['auto', 'native', 'xml'] })
  @IsOptional()
  @IsIn(['auto', 'native', 'xml'])
  tool_dispatcher: string | undefined;

  @ApiPropertyOptional({ description: 'Does the request carry images?' })
  @IsOptional()
  @IsBoolean()
  images: boolean | undefined;

  @ApiPropertyOptional({ format: 'uuid' })
  @IsOptional()
  @IsString()
  @MaxLength(64)
  conversation_id: string | undefined;
}

/** Who serves models, how they are, and where a request would go. */
@ApiTags('providers')
@ApiBearerAuth()
@Controller('v1/providers')
export class ProvidersController {
  constructor(
    @Inject(BUS) private readonly bus: Bus,
    private readonly config: ApiConfig,
    private readonly platform: PlatformConfigFile,
    private readonly known: KnownNames,
  ) {}

  @Get()
  @Needs('runs:read')
  @ApiOperation({ summary: 'Providers: health, cool-downs, capabilities, models' })
  async list(@CurrentCaller() caller: Caller) {
    const answer = await this.bus.request(Router.providers, caller.tenant, {}, { timeoutMs: this.config.rpcTimeoutMs });
    return {
      default_model: answer.defaultModel || null,
      items: answer.providers.map((provider) => ({
        name: provider.name,
        kind: provider.kind,
        base_url: provider.baseUrl,
        demo: provider.demo,
        capabilities: {
          native_tools: provider.nativeTools,
          vision: provider.vision,
          embeddings: provider.embeddings,
        },
        health: provider.health,
        until: time(provider.untilMs),
        keys: provider.keys.map((key) => ({ hash: key.hash, health: key.health, until: time(key.untilMs) })),
        models: provider.models,
        pod: provider.pod || null,
      })),
      next_cursor: null,
    };
  }

  @Post('plan')
  @HttpCode(200)
  @Needs('runs:read')
  @ApiOperation({ summary: 'Why would this request go where? Nothing is sent.' })
  async plan(@CurrentCaller() caller: Caller, @Body() body: PlanDto) {
    if (body.agent !== undefined) await this.known.check(caller.tenant, { agent: body.agent });
    const agent = body.agent === undefined ? undefined : this.platform.current.agents[body.agent];
    const chains = body.model_fallbacks ?? agent?.model_fallbacks ?? {};
    const answer = await this.bus.request(
      Router.plan,
      caller.tenant,
      {
        model: body.model ?? agent?.model ?? '',
        providers: body.providers ?? agent?.providers ?? [],
        modelFallbacks: Object.fromEntries(Object.entries(chains).map(([model, models]) => [model, { models }])),
        tools: body.tools ?? agent?.tools ?? [],
        toolDispatcher: body.tool_dispatcher ?? agent?.tool_dispatcher ?? '',
        images: body.images ?? false,
        conversationId: body.conversation_id ?? '',
      },
      { timeoutMs: this.config.rpcTimeoutMs },
    );
    return {
      candidates: answer.candidates.map(({ provider, model, dialect, usable, reason, origin }) => ({
        provider,
        model,
        dialect,
        usable,
        reason: reason || null,
        origin: origin || null,
      })),
      warnings: answer.warnings,
    };
  }
}

const time = (ms: bigint) => (ms > 0n ? new Date(Number(ms)).toISOString() : null);
