import type { MessageInitShape } from '@bufbuild/protobuf';
import { Controller } from '@nestjs/common';
import { type ServeContext } from '@yardmaster/bus';
import { Serves } from '@yardmaster/bus/nest';
import { type McpServersRequest, type McpServersResponseSchema, Registry } from '@yardmaster/contracts';
import { McpService } from './mcp.service.js';

@Controller()
export class McpController {
  constructor(private readonly mcp: McpService) {}

  @Serves(Registry.mcpServers)
  list(
    { id, test }: McpServersRequest,
    { tenant }: ServeContext,
  ): Promise<MessageInitShape<typeof McpServersResponseSchema>> {
    return this.mcp.list(tenant, id, test);
  }
}
