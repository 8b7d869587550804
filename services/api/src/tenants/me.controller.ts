import { Controller, Get } from '@nestjs/common';
import { ApiBearerAuth, ApiOperation, ApiTags } from '@nestjs/swagger';
import { ConversationStore } from '@yardmaster/conversation';
import { type Caller, CurrentCaller } from '../http/request.js';

@ApiTags('tenants')
@ApiBearerAuth()
@Controller('v1/me')
export class MeController {
  constructor(private readonly store: ConversationStore) {}

  @Get()
  @ApiOperation({ summary: 'Who am I, and how many runs are there?' })
  async me(@CurrentCaller() caller: Caller) {
    return {
      tenant: caller.tenant,
      key: { id: caller.keyId, name: caller.keyName, roles: caller.roles },
      runs: await this.store.countRuns(caller.tenant),
    };
  }
}
