import { Body, Controller, Delete, Get, HttpCode, Param, Post } from '@nestjs/common';
import { ApiBearerAuth, ApiOperation, ApiProperty, ApiPropertyOptional, ApiTags } from '@nestjs/swagger';
import { type ApiKeyEntry, type Role, ROLES } from '@yardmaster/contracts';
import { ArrayNotEmpty, ArrayUnique, IsArray, IsIn, IsInt, IsOptional, Max, Min } from 'class-validator';
import { Needs } from '../auth/roles.guard.js';
import { TenantKeys } from '../auth/tenant-keys.js';
import { type Caller, CurrentCaller } from '../http/request.js';
import { Obeys } from '../http/rules.js';
import { own } from './own-tenant.js';

export class CreateKeyDto {
  @ApiProperty({ maxLength: 100, description: 'What the key is for.' })
  @Obeys(
    'must be 1 to 100 characters',
    (value) => typeof value === 'string' && value.trim() !== '' && value.length <= 100,
  )
  name!: string;

  @ApiPropertyOptional({ enum: ROLES, isArray: true, default: ['runs:read', 'runs:write'] })
  @IsOptional()
  @IsArray()
  @ArrayNotEmpty()
  @ArrayUnique()
  @IsIn(ROLES, { each: true })
  roles?: Role[];

  @ApiPropertyOptional({ minimum: 60, description: 'Seconds from now; without it the key does not expire.' })
  @IsOptional()
  @IsInt()
  @Min(60)
  @Max(10 * 365 * 86_400)
  expires_in_s?: number;
}

/** API keys of a tenant, for its administrators. */
@ApiTags('tenants')
@ApiBearerAuth()
@Controller('v1/tenants/:tenant/keys')
export class KeysController {
  constructor(private readonly keys: TenantKeys) {}

  @Get()
  @Needs('tenant:admin')
  @ApiOperation({ summary: 'API keys, without their secrets' })
  list(@CurrentCaller() caller: Caller, @Param('tenant') tenant: string) {
    return { items: this.keys.list(own(caller, tenant)).map(keyView), next_cursor: null };
  }

  @Post()
  @Needs('tenant:admin')
  @ApiOperation({ summary: 'Make a key; its text is shown this once' })
  async create(@CurrentCaller() caller: Caller, @Param('tenant') tenant: string, @Body() body: CreateKeyDto) {
    const { key, entry } = await this.keys.create(own(caller, tenant), {
      name: body.name,
      roles: body.roles ?? ['runs:read', 'runs:write'],
      ...(body.expires_in_s !== undefined && { expiresMs: Date.now() + body.expires_in_s * 1000 }),
    });
    return { ...keyView(entry), key };
  }

  @Delete(':id')
  @HttpCode(204)
  @Needs('tenant:admin')
  @ApiOperation({ summary: 'Revoke a key' })
  async revoke(
    @CurrentCaller() caller: Caller,
    @Param('tenant') tenant: string,
    @Param('id') id: string,
  ): Promise<void> {
    await this.keys.revoke(own(caller, tenant), id);
  }
}

const keyView = (entry: ApiKeyEntry) => ({
  id: entry.id,
  name: entry.name,
  roles: entry.roles,
  created_at: new Date(entry.created_ms).toISOString(),
  expires_at: entry.expires_ms === undefined ? null : new Date(entry.expires_ms).toISOString(),
});
