import { Module } from '@nestjs/common';
import { PlatformConfigFile, SERVICE, type ServiceContext } from '@yardmaster/service-kit';
import { FleetConfig } from './config.js';
import { FleetService } from './fleet.service.js';
import { FleetController } from './report/fleet.controller.js';

@Module({
  controllers: [FleetController],
  providers: [
    { provide: FleetConfig, useFactory: (service: ServiceContext) => service.config, inject: [SERVICE] },
    {
      provide: PlatformConfigFile,
      inject: [SERVICE],
      useFactory: (service: ServiceContext<FleetConfig>) => {
        const file = new PlatformConfigFile(service.config.platformConfig, (problem) => service.log.warn(problem));
        service.onClose(() => file.close());
        return file;
      },
    },
    FleetService,
  ],
})
export class FleetModule {}
