import { Module } from '@nestjs/common';
import { PlatformConfigFile, SERVICE, type ServiceContext } from '@yardmaster/service-kit';
import { RegistryConfig } from './config.js';
import { McpService } from './mcp/mcp.service.js';
import { ToolCatalogue } from './tools/tool-catalogue.js';
import { ToolsController } from './tools/tools.controller.js';
import { ToolsService } from './tools/tools.service.js';

@Module({
  controllers: [ToolsController],
  providers: [
    { provide: RegistryConfig, useFactory: (service: ServiceContext) => service.config, inject: [SERVICE] },
    {
      provide: PlatformConfigFile,
      inject: [SERVICE],
      useFactory: (service: ServiceContext<RegistryConfig>) => {
        const file = new PlatformConfigFile(service.config.platformConfig, (problem) => service.log.warn(problem));
        service.onClose(() => file.close());
        return file;
      },
    },
    ToolCatalogue,
    ToolsService,
    McpService,
  ],
})
export class RegistryModule {}
