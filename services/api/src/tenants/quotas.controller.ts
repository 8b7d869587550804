import { Body, Controller, Get, Param, Put } from '@nestjs/common';
import { ApiBearerAuth, ApiOperation, ApiPropertyOptional, ApiTags } from '@nestjs/swagger';
import type { TenantQuota } from '@yardmaster/contracts';
import { IsInt, IsNumber, IsOptional, Max, Min } from 'class-validator';
import { Needs } from '../auth/roles.guard.js';
import { type Caller, CurrentCaller } from '../http/request.js';
import { own } from './own-tenant.js';
import { TenantQuotas } from './tenant-quotas.js';

const MOST_TOKENS = 1_000_000_000_000;

export class QuotaDto implements Record<keyof TenantQuota, number | null | undefined> {
  @ApiPropertyOptional({ minimum: 0, type: 'integer', nullable: true, description: 'Prompts and answers together.' })
  @IsOptional()
  @IsInt()
  @Min(0)
  @Max(MOST_TOKENS)
  tokens_per_day: number | null | undefined;

  @ApiPropertyOptional({ minimum: 0, type: 'number', nullable: true })
  @IsOptional()
  @IsNumber({ allowNaN: false, allowInfinity: false })
  @Min(0)
  @Max(1_000_000_000)
  cost_usd_per_day: number | null | undefined;

  @ApiPropertyOptional({ minimum: 1, type: 'integer', nullable: true, description: 'Requests to this API.' })
  @IsOptional()
  @IsInt()
  @Min(1)
  @Max(10_000_000)
  requests_per_minute: number | null | undefined;
}

/** What a tenant may use in a day (of UTC) and a minute. */
@ApiTags('tenants')
@ApiBearerAuth()
@Controller('v1/tenants/:tenant/quotas')
export class QuotasController {
  constructor(private readonly quotas: TenantQuotas) {}

  @Get()
  @Needs('tenant:admin')
  @ApiOperation({ summary: 'Quotas; null: not limited, or as the server does by default' })
  get(@CurrentCaller() caller: Caller, @Param('tenant') tenant: string) {
    return quotaView(this.quotas.of(own(caller, tenant)));
  }

  @Put()
  @Needs('tenant:admin')
  @ApiOperation({ summary: 'Set all quotas; members that are absent or null are no longer limited' })
  async put(@CurrentCaller() caller: Caller, @Param('tenant') tenant: string, @Body() body: QuotaDto) {
    const quota: TenantQuota = {
      ...(body.tokens_per_day != null && { tokens_per_day: body.tokens_per_day }),
      ...(body.cost_usd_per_day != null && { cost_usd_per_day: body.cost_usd_per_day }),
      ...(body.requests_per_minute != null && { requests_per_minute: body.requests_per_minute }),
    };
    await this.quotas.put(own(caller, tenant), quota);
    return quotaView(quota);
  }
}

const quotaView = (quota: TenantQuota) => ({
  tokens_per_day: quota.tokens_per_day ?? null,
  cost_usd_per_day: quota.cost_usd_per_day ?? null,
  requests_per_minute: quota.requests_per_minute ?? null,
});
