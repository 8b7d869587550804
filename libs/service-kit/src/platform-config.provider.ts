import type { FactoryProvider } from '@nestjs/common';
import { PlatformConfigFile } from './platform-config.js';
import type { ServiceConfig } from './service-config.js';
import { SERVICE, type ServiceContext } from './tokens.js';

/**
 * The configuration file (`YM_CONFIG`) for a service's module: followed while the service lives, its mistakes and
 * warnings in the log.
 */
export const platformConfigProvider: FactoryProvider<PlatformConfigFile> = {
  provide: PlatformConfigFile,
  inject: [SERVICE],
  useFactory: (service: ServiceContext<ServiceConfig & { platformConfig: string | undefined }>) => {
    const file = new PlatformConfigFile(service.config.platformConfig, (problem) => service.log.warn(problem));
    service.onClose(() => file.close());
    return file;
  },
};
