import { Module } from '@nestjs/common';
import { platformConfigProvider, SERVICE, type ServiceContext } from '@yardmaster/service-kit';
import { RegistryConfig } from './config.js';
import { McpController } from './mcp/mcp.controller.js';
import { McpService } from './mcp/mcp.service.js';
import { ToolCatalogue } from './tools/tool-catalogue.js';
import { ToolLookups } from './tools/tool-lookups.js';
import { ToolsController } from './tools/tools.controller.js';
import { ToolsService } from './tools/tools.service.js';

@Module({
  controllers: [ToolsController, McpController],
  providers: [
    { provide: RegistryConfig, useFactory: (service: ServiceContext) => service.config, inject: [SERVICE] },
    platformConfigProvider,
    ToolCatalogue,
    ToolsService,
    ToolLookups,
    McpService,
  ],
})
export class RegistryModule {}
