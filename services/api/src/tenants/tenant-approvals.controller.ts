import { Body, Controller, Get, Inject, Param, Put } from '@nestjs/common';
import { ApiBearerAuth, ApiOperation, ApiPropertyOptional, ApiTags } from '@nestjs/swagger';
import { type Bus } from '@yardmaster/bus';
import {
  BUCKETS,
  isTenantApprovals,
  messages,
  NO_TENANT_APPROVALS,
  readTenantApprovals,
  subjects,
  type TenantApprovals,
  tenantApprovalsName,
  type TenantId,
  YardError,
} from '@yardmaster/contracts';
import { BUS } from '@yardmaster/service-kit';
import { ArrayMaxSize, IsArray, IsBoolean, IsObject, IsOptional, IsString, MaxLength } from 'class-validator';
import { Needs } from '../auth/roles.guard.js';
import { type Caller, CurrentCaller } from '../http/request.js';
import { own } from './own-tenant.js';

const LEVELS = 'auto, session, always or deny';

export class TenantApprovalsDto implements Partial<TenantApprovals> {
  @ApiPropertyOptional({ type: 'object', additionalProperties: { type: 'string' }, description: LEVELS })
  @IsOptional()
  @IsObject()
  by_category?: TenantApprovals['by_category'];

  @ApiPropertyOptional({ type: 'object', additionalProperties: { type: 'string' }, description: LEVELS })
  @IsOptional()
  @IsObject()
  by_tool?: TenantApprovals['by_tool'];

  @ApiPropertyOptional({ type: [String], description: 'Tools that nobody may call, whatever was granted.' })
  @IsOptional()
  @IsArray()
  @ArrayMaxSize(1000)
  @IsString({ each: true })
  @MaxLength(128, { each: true })
  denied?: string[];

  @ApiPropertyOptional({ default: true, description: 'false: what would be asked is denied.' })
  @IsOptional()
  @IsBoolean()
  can_ask?: boolean;
}

/** When calls of a tenant's runs need a person. */
@ApiTags('tenants')
@ApiBearerAuth()
@Controller('v1/tenants/:tenant/approvals')
export class TenantApprovalsController {
  constructor(@Inject(BUS) private readonly bus: Bus) {}

  @Get()
  @Needs('tenant:admin')
  @ApiOperation({ summary: 'Levels of approval; what is absent is as the platform is configured' })
  async get(@CurrentCaller() caller: Caller, @Param('tenant') tenant: string) {
    const name = tenantApprovalsName(own(caller, tenant));
    const stored = await this.bus.kv(BUCKETS.tenants).get(name);
    const policy = stored === undefined ? NO_TENANT_APPROVALS : readTenantApprovals(stored.value, name);
    if (policy === undefined || policy === 'unreadable')
      throw new YardError(
        'CONFLICT',
        'YM-APPROVALS-UNREADABLE',
        'What is stored is no policy, so nothing is approved: set it again.',
      );
    return policy;
  }

  @Put()
  @Needs('tenant:admin')
  @ApiOperation({ summary: 'Set all levels of approval' })
  async put(@CurrentCaller() caller: Caller, @Param('tenant') tenant: string, @Body() body: TenantApprovalsDto) {
    const owner: TenantId = own(caller, tenant);
    const given = Object.fromEntries(Object.entries(body).filter(([, value]) => value !== undefined));
    if (!isTenantApprovals(given))
      throw new YardError(
        'INVALID',
        'YM-REQ-INVALID',
        `by_category takes read, write, execute and network; every level is ${LEVELS}.`,
      );
    const policy: TenantApprovals = { ...NO_TENANT_APPROVALS, ...given };
    // First the record of who did it: a policy that nobody is known to have set must not hold.
    await this.bus.enqueue(subjects.audit(owner), messages.audit, {
      atMs: BigInt(Date.now()),
      action: 'approvals.changed',
      actor: caller.keyId,
      dataJson: JSON.stringify(policy),
    });
    await this.bus.kv(BUCKETS.tenants).put(tenantApprovalsName(owner), JSON.stringify(policy));
    return policy;
  }
}
