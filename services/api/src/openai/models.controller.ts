import { Controller, Get, Inject, Param } from '@nestjs/common';
import { ApiBearerAuth, ApiOperation, ApiTags } from '@nestjs/swagger';
import { type Bus } from '@yardmaster/bus';
import { Router, type TenantId, YardError } from '@yardmaster/contracts';
import { BUS, PlatformConfigFile } from '@yardmaster/service-kit';
import { Needs } from '../auth/roles.guard.js';
import { ApiConfig } from '../config.js';
import { type Caller, CurrentCaller } from '../http/request.js';

/** Models of all providers, and the agents. */
@ApiTags('openai')
@ApiBearerAuth()
@Controller('v1/models')
export class ModelsController {
  constructor(
    @Inject(BUS) private readonly bus: Bus,
    private readonly config: ApiConfig,
    private readonly platform: PlatformConfigFile,
  ) {}

  @Get()
  @Needs('runs:read')
  @ApiOperation({ summary: 'Models, and agents as agent:<name>' })
  async list(@CurrentCaller() caller: Caller) {
    return { object: 'list', data: await this.all(caller.tenant) };
  }

  @Get(':model')
  @Needs('runs:read')
  @ApiOperation({ summary: 'One model' })
  async get(@CurrentCaller() caller: Caller, @Param('model') model: string) {
    const found = (await this.all(caller.tenant)).find(({ id }) => id === model);
    if (found === undefined)
      throw new YardError('NOT_FOUND', 'YM-MODEL-UNKNOWN', `There is no model "${model.slice(0, 128)}".`);
    return found;
  }

  private async all(tenant: TenantId) {
    const timeoutMs = this.config.rpcTimeoutMs;
    const { providers, defaultModel } = await this.bus.request(Router.providers, tenant, {}, { timeoutMs });
    const owners = new Map<string, string>();
    for (const provider of providers)
      for (const model of provider.models) if (!owners.has(model)) owners.set(model, provider.name);
    if (defaultModel !== '' && !owners.has(defaultModel)) owners.set(defaultModel, providers[0]?.name ?? 'yardmaster');
    for (const agent of Object.keys(this.platform.current.agents)) owners.set(`agent:${agent}`, 'yardmaster');
    return [...owners].map(([id, owner]) => ({ id, object: 'model', created: 0, owned_by: owner }));
  }
}
