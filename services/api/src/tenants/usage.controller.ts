import { Controller, Get, Param, Query } from '@nestjs/common';
import { ApiBearerAuth, ApiOperation, ApiPropertyOptional, ApiTags } from '@nestjs/swagger';
import { ConversationStore, usageDay } from '@yardmaster/conversation';
import { Type } from 'class-transformer';
import { IsInt, IsOptional, Max, Min } from 'class-validator';
import { Needs } from '../auth/roles.guard.js';
import { type Caller, CurrentCaller } from '../http/request.js';
import { own } from './own-tenant.js';

const DAY_MS = 86_400_000;

export class UsageQuery {
  @ApiPropertyOptional({ minimum: 1, maximum: 40, default: 1, description: 'Days of UTC, today and before.' })
  @IsOptional()
  @Type(() => Number)
  @IsInt()
  @Min(1)
  @Max(40)
  days?: number;
}

/** What a tenant has used, failed attempts at providers included. */
@ApiTags('tenants')
@ApiBearerAuth()
@Controller('v1/tenants/:tenant/usage')
export class UsageController {
  constructor(private readonly store: ConversationStore) {}

  @Get()
  @Needs('tenant:admin')
  @ApiOperation({ summary: 'Requests to models, attempts, tokens and cost, a day each, newest first' })
  async list(@CurrentCaller() caller: Caller, @Param('tenant') tenant: string, @Query() query: UsageQuery) {
    const who = own(caller, tenant);
    const days = Array.from({ length: query.days ?? 1 }, (_, back) => usageDay(Date.now() - back * DAY_MS));
    const amounts = await Promise.all(days.map((day) => this.store.limits.usage(who, day)));
    return { items: days.map((day, i) => dayView(day, amounts[i]!)), next_cursor: null };
  }
}

function dayView(day: string, amounts: Record<string, number>) {
  const of = (name: string) => amounts[name] ?? 0;
  const providers: Record<string, Record<string, number>> = {};
  for (const [name, amount] of Object.entries(amounts)) {
    const [, provider, what] = /^p:([^:]+):(attempts|tokens|cost_usd)$/.exec(name) ?? [];
    if (provider === undefined || what === undefined) continue;
    (providers[provider] ??= { attempts: 0, tokens: 0, cost_usd: 0 })[what] = amount;
  }
  return {
    day,
    requests: of('requests'),
    attempts: of('attempts'),
    failed_attempts: of('failed_attempts'),
    prompt_tokens: of('prompt_tokens'),
    completion_tokens: of('completion_tokens'),
    cached_tokens: of('cached_tokens'),
    reasoning_tokens: of('reasoning_tokens'),
    total_tokens: of('prompt_tokens') + of('completion_tokens'),
    cost_usd: of('cost_usd'),
    providers,
  };
}
