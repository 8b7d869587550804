import { startService } from '@yardmaster/service-kit';
import { RegistryConfig } from './config.js';
import { RegistryModule } from './registry.module.js';

await startService({ name: 'registry', config: RegistryConfig, module: RegistryModule });
