import { Module } from '@nestjs/common';
import { platformConfigProvider, SERVICE, type ServiceContext } from '@yardmaster/service-kit';
import { FleetConfig } from './config.js';
import { FleetService } from './fleet.service.js';
import { FleetController } from './report/fleet.controller.js';

@Module({
  controllers: [FleetController],
  providers: [
    { provide: FleetConfig, useFactory: (service: ServiceContext) => service.config, inject: [SERVICE] },
    platformConfigProvider,
    FleetService,
  ],
})
export class FleetModule {}
